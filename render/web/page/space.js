// A space and its figures. Methods return the same as those of package lifetime (usage.go,
// summary.go).

import {columnsOf} from './decode.js';
import {Extremes} from './extremes.js';
import {ascending} from './order.js';

const edges = ['allocated before the recording', 'alive at the end', 'time of the free is inferred', 'size is inferred', 'free is pending', 'call site is that of the free'];
export const BEGIN_UNSEEN = 1, END_OPEN = 2, PENDING = 16;
const edgeBits = 6;
const kinds = ['', 'parameter', 'output', 'temporary', 'constant', 'thread-local'];

// Space is one heap on one axis. Times are relative to the start of its window. The end of
// a buffer that is alive at the end is Infinity.
export class Space {
  constructor(capture, head, number, info) {
    Object.assign(this, head);
    this.capture = capture;
    this.number = number;
    this.info = info;
    this.length = Math.max(head.length, 1);
    this.origin = BigInt(head.begin);
    this.lowestAddress = BigInt(head.lowest);
    this.regions = head.regions.map(([begin, end, addr, size, kind, stream, pool, uses, small]) => ({begin, end, addr, size, kind, stream, pool, uses, small}));
    this.marks = head.marks.map(([begin, end, kind, text, site, requested, free]) => ({begin, end, kind, text, site, requested, free}));
    this.steps = this.marks.filter((m) => m.kind === 'step');
    this.ooms = this.marks.filter((m) => m.kind === 'oom');
  }

  // load reads the columns. Call it before any other method.
  load() {
    this.loading ||= this.readColumns();
    return this.loading;
  }

  // drawn returns the picture of memlane svg, on a phone a narrow one; null if there is none.
  async drawn() {
    this.wide ??= this.picture;
    const narrow = matchMedia('(max-width: 720px)').matches && this.wide?.narrow, name = narrow ? 'narrow' : 'picture';
    this.picture = narrow || this.wide;
    this.svgs ??= {};
    if (this.picture) this.svgs[name] ??= await this.capture.parts.take(`capture-${this.capture.number}-${this.number}-${name}`);
    return this.svgs[name] ?? null;
  }

  // tried returns changes to try, with what the program would need.
  async tried() {
    const {parts, number} = this.capture, on = this.time ?? this;
    on.trying ||= parts.take(`capture-${number}-${this.number}-tries`).then((bytes) => JSON.parse(new TextDecoder().decode(bytes)));
    return on.trying;
  }

  async readColumns() {
    const columns = await columnsOf(this);
    const n = this.count = this.buffers;
    this.begin = columns.readSteps(n);
    this.end = columns.read(n);
    this.addr = columns.readSteps(n);
    this.size = columns.read(n);
    this.requested = columns.read(n);
    this.site = Uint32Array.from(columns.read(n));
    this.edge = Uint16Array.from(columns.read(n));
    this.kind = new Uint8Array(n);
    for (let i = 0; i < n; i++) {
      this.end[i] += this.begin[i];
      this.requested[i] = this.size[i] - this.requested[i];
      this.kind[i] = this.edge[i] >> edgeBits;
      this.edge[i] &= (1 << edgeBits) - 1;
    }
    this.purpose = this.judged ? Uint32Array.from(columns.read(n)) : new Uint8Array(n); // index into capture.purposes
    this.holder = this.named ? Uint32Array.from(columns.read(n)) : new Uint8Array(n); // index into capture.holders
    this.value = this.values ? columns.readSteps(n) : null;
    this.freeSite = this.freeSites ? Uint32Array.from(columns.read(n)) : null; // 0 = that of the allocation
    this.reserved = {at: columns.readSteps(this.levels), bytes: columns.readSteps(this.levels)};
    this.reported = {at: columns.readSteps(this.totals), bytes: columns.readSteps(this.totals)};
    this.orderEnds();
    this.curve = this.usageOnly ? this.usage() : this.changes();
    this.extremes = new Extremes(this.curve.bytes);
  }

  // orderEnds finds the buffers that end, byEnd, with their times, endAt. Others then end at Infinity.
  orderEnds() {
    const {end, edge} = this, order = ascending(end);
    this.byEnd = order.filter((i) => !(edge[i] & END_OPEN));
    this.endAt = new Float64Array(this.byEnd.length);
    for (let k = 0; k < this.byEnd.length; k++) this.endAt[k] = end[this.byEnd[k]];
    for (let i = 0; i < this.count; i++) if (edge[i] & END_OPEN) end[i] = Infinity;
  }

  // changes returns the levels at the start of the window and after every change: occupied
  // and requested.
  changes() {
    const {count, byEnd, endAt, begin, size, requested, stack} = this;
    const {at, bytes: levels, requested: requests} = newCurve(1 + 2 * count + stack.length);
    let bytes = this.base, requestedBytes = this.base, stackBytes = stack.length ? stack[0][1] : 0, n = 0, b = 0, e = 0, k = 1;
    for (let t = 0; ;) {
      if (!n || at[n - 1] !== t) n++; // of one time the last level: ends come first
      at[n - 1] = t;
      levels[n - 1] = bytes + stackBytes;
      requests[n - 1] = requestedBytes + stackBytes;
      if (b >= count && e >= byEnd.length && k >= stack.length) break;
      const born = b < count ? begin[b] : Infinity, dies = e < byEnd.length ? endAt[e] : Infinity, stacked = k < stack.length ? stack[k][0] : Infinity;
      t = Math.max(0, Math.min(born, dies, stacked));
      if (stacked <= born && stacked <= dies) {
        stackBytes = stack[k++][1];
      } else if (dies <= born) {
        const i = byEnd[e++];
        bytes -= size[i];
        requestedBytes -= requested[i];
      } else {
        bytes += size[b];
        requestedBytes += requested[b++];
      }
    }
    return cut({at, bytes: levels, requested: requests}, n);
  }

  // usage returns the levels if only totals were recorded: of one time the last.
  usage() {
    const {at, bytes} = this.reported;
    const curve = newCurve(at.length + 1);
    let n = 0;
    for (let i = 0; i < at.length; i++) {
      if (n && curve.at[n - 1] === at[i]) n--;
      curve.at[n] = at[i];
      curve.bytes[n] = curve.requested[n] = bytes[i];
      n++;
    }
    return cut(curve, n);
  }

  // levelAt returns the index of the curve's level at t, or -1 before the first.
  levelAt(t) {
    return lastUpTo(this.curve.at, t);
  }

  stackAt(t) {
    let bytes = 0;
    this.stack.forEach(([at, level], i) => { if (i === 0 || at <= t) bytes = level; });
    return bytes;
  }

  reservedAt(t) {
    const i = lastUpTo(this.reserved.at, t);
    return i < 0 ? null : this.reserved.bytes[i];
  }

  aliveAt(i, t) {
    return this.begin[i] <= t && this.end[i] > t;
  }

  // liveAt returns the live buffers at t, in order of allocation.
  liveAt(t) {
    const live = [];
    for (let i = 0; i < this.count && this.begin[i] <= t; i++) {
      if (this.end[i] > t) live.push(i);
    }
    return live;
  }

  // covering returns the buffers that had an address, in order of allocation.
  covering(addr) {
    const all = [];
    for (let i = 0; i < this.count; i++) if (this.addr[i] <= addr && addr < this.addr[i] + this.size[i]) all.push(i);
    return all;
  }

  // breakdown returns the memory at t by site and purpose, largest first, like lifetime.Breakdown. by is a key of groups: rows also
  // have a holder if that tells them apart.
  breakdown(t, by) {
    const rows = new Map();
    for (const i of this.liveAt(t)) {
      const holder = ofHolders.has(by) ? this.holder[i] : 0;
      const key = ((this.site[i] * 8 + this.kind[i]) * this.capture.purposes.length + this.purpose[i]) * this.capture.holders.length + holder;
      let row = rows.get(key);
      if (!row) rows.set(key, row = {site: this.site[i], kind: this.kind[i], purpose: this.purpose[i], holder, bytes: 0, requested: 0, count: 0});
      row.bytes += this.size[i];
      row.requested += this.requested[i];
      row.count++;
    }
    const all = [...rows.values()];
    const add = (category, bytes) => all.push({site: 0, kind: 0, purpose: 0, holder: 0, bytes, requested: bytes, count: 0, category});
    if (this.base) add('older buffers (only a sum)', this.base);
    if (this.stackAt(t)) add('stack of compiled programs', this.stackAt(t));
    if (this.usageOnly) {
      const i = this.levelAt(t);
      if (i >= 0 && this.curve.bytes[i]) add('usage', this.curve.bytes[i]);
    }
    return all.sort((a, b) => b.bytes - a.bytes || b.requested - a.requested || a.site - b.site || a.kind - b.kind || a.purpose - b.purpose);
  }

  // growth returns by how much the rows of a breakdown differ between two times, without those that do not. before and after
  // are their bytes.
  growth(from, to, by) {
    const rows = new Map();
    for (const [t, sign] of [[from, -1], [to, 1]]) {
      for (const row of this.breakdown(t, by)) {
        const key = [row.category, row.site, row.kind, row.purpose, row.holder].join();
        if (!rows.has(key)) rows.set(key, {...row, bytes: 0, requested: 0, count: 0, before: 0, after: 0});
        const sum = rows.get(key);
        for (const figure of ['bytes', 'requested', 'count']) sum[figure] += sign * row[figure];
        sum[sign < 0 ? 'before' : 'after'] += row.bytes;
      }
    }
    return [...rows.values()].filter((row) => row.bytes || row.count).sort((a, b) => b.bytes - a.bytes || a.site - b.site || a.kind - b.kind || a.purpose - b.purpose);
  }

  // most returns the most bytes that the chosen buffers hold together, and the first time at which they do. lit[i] chooses buffer i.
  most(lit) {
    const {begin, byEnd, endAt, size, count} = this;
    let now = 0, most = {bytes: 0, t: 0};
    for (let i = 0, k = 0; i < count; i++) {
      if (!lit[i] || this.end[i] <= begin[i]) continue;
      for (; k < endAt.length && endAt[k] <= begin[i]; k++) if (lit[byEnd[k]] && begin[byEnd[k]] < endAt[k]) now -= size[byEnd[k]];
      now += size[i];
      if (now > most.bytes) most = {bytes: now, t: Math.max(begin[i], 0)};
    }
    return most;
  }

  // places returns the breakdown by line or another key, as "memlane peak --by" groups it.
  places(t, by = 'line') {
    return this.grouped(this.breakdown(t, by), by);
  }

  // grouped sums rows of one name, however they were called. Their sites are in order of bytes.
  grouped(rows, by) {
    const places = new Map();
    for (const row of rows) {
      const site = this.capture.sites[row.site];
      const key = [row.category, row.kind, this.groupName(row, by), this.static && site.shape].join('\0');
      const place = places.get(key);
      if (!place) {
        places.set(key, {...row, name: this.groupName(row, by), sites: [row.site], rows: [row], holders: ofHolders.has(by) && [row.holder]});
        continue;
      }
      for (const figure of figures) if (figure in row) place[figure] += row[figure];
      place.sites.push(row.site);
      if (place.holders) place.holders.push(row.holder);
      place.rows.push(row);
    }
    return [...places.values()].sort((a, b) => b.bytes - a.bytes);
  }

  // groupName returns the name of a row's group; by is a key of groups.
  groupName(row, by) {
    const {capture} = this, site = capture.sites[row.site];
    if (row.category) return row.category === 'usage' ? '(only the total was recorded)' : row.category;
    return groups[by](capture, site, this, row) || `(no ${by} recorded)`;
  }

  // groups returns the keys of groups of which the capture has any.
  groups() {
    this.keys ||= Object.keys(groups).filter((by) => by === 'line' || ofHolders.has(by) ? by === 'line' || this.named : this.capture.sites.some((site) => site.id && groups[by](this.capture, site, this, {site: site.id, kind: 0, purpose: this.judged ? 1 : 0})));
    return this.keys;
  }

  // categoriesOf returns the categories of a place, those with most bytes first.
  categoriesOf(place) {
    return [...new Set((place.rows || [place]).map((row) => this.categoryOf(row)))].filter(Boolean).join(', ');
  }

  // categoryOf returns the category of a row, the same as "memlane peak --json".
  categoryOf(row) {
    if (row.category) return row.category;
    const [name] = this.capture.purposes[row.purpose];
    if (name && name !== 'unknown') return name;
    return this.static ? kinds[row.kind] : this.capture.sites[row.site].region || name;
  }

  // moduleOf returns the module that a purpose names.
  moduleOf(row) {
    return this.capture.purposes[row.purpose][2];
  }

  // rowOf returns what the category of a buffer depends on.
  rowOf(i) {
    return {site: this.site[i], kind: this.kind[i], purpose: this.purpose[i]};
  }

  edgesOf(i) {
    return edges.filter((_, bit) => this.edge[i] & 1 << bit);
  }

  // instructionAt returns the instruction of a compiled program at t, or ''.
  instructionAt(t) {
    this.instructions ||= new Map(this.marks.filter((m) => m.kind === 'instruction').map((m) => [m.begin, m.text]));
    return this.instructions.get(t) || '';
  }

  // placeOf returns where a time relative to the window is on the axis.
  placeOf(time) {
    return time;
  }

  // instant returns the absolute time of t, as in JSON.
  instant(t) {
    return (this.origin + BigInt(Math.round(t))).toString();
  }
}

const figures = ['bytes', 'requested', 'count', 'before', 'after'];

// groups are the keys by which a breakdown can be summed up, with the name of a site's group. lifetime.GroupBy does the same.
const groups = {
  line: (capture, site) => capture.siteName(site.id),
  function: (capture, site) => site.name,
  file: (capture, site) => site.place.replace(/:\d+$/, ''),
  stack: (capture, site, space) => (site.unseen ? capture.siteName(site.id) : capture.folded(space.static && site.source ? site.source : site.stack).frames.map(frameText).join(' ← ')),
  op: (capture, site) => site.op,
  module: (capture, site, space, row) => capture.framesOf(site.stack).filter((f) => f.name.startsWith('nn.Module: ')).map((f) => f.name.slice(11)).reverse().join('/') || space.moduleOf(row),
  layer: (capture, site, space, row) => layerOf(groups.module(capture, site, space, row)),
  shape: (capture, site) => `${site.dtype} ${site.shape}`.trim(),
  category: (capture, site, space, row) => space.categoryOf(row),
  phase: (capture, site, space, row) => capture.purposes[row.purpose][1],
  name: (capture, site, space, row) => capture.holders[row.holder].group.name,
  holder: (capture, site, space, row) => capture.holders[row.holder].group.holder,
};
const ofHolders = new Set(['name', 'holder']);

// layerOf returns the layer of a module, as lifetime.LayerOf does.
function layerOf(module) {
  const separator = module.includes('/') ? '/' : '.', parts = module.split(separator);
  const i = parts.findIndex((part, n) => /(^|_)\d+$|\[\d+\]$|^\p{L}+\d+$/u.test(part) && !(n === 0 && parts.length > 1 && separator === '/' && part.endsWith('_0')));
  return i < 0 ? '' : parts.slice(0, i + 1).join(separator);
}

// frameText returns "function (file.py:12)".
export function frameText(frame) {
  const file = frame.file.split(/[\\/]/).pop();
  const place = file ? `${file}${frame.line ? `:${frame.line}` : ''}` : '';
  return place ? `${frame.name || '?'} (${place})` : frame.name;
}

function newCurve(n) {
  return {at: new Float64Array(n), bytes: new Float64Array(n), requested: new Float64Array(n)};
}

function cut(curve, n) {
  return {at: curve.at.subarray(0, n), bytes: curve.bytes.subarray(0, n), requested: curve.requested.subarray(0, n)};
}

// lastUpTo returns the index of the last element of a sorted list that is at most t, or -1. near is an index from which the
// search begins, if t is not before it: the one of an earlier time.
export function lastUpTo(list, t, near = 0) {
  let low = near > 0 && list[near] <= t ? near : 0, step = 1;
  while (low && low + step < list.length && list[low + step] <= t) {
    low += step;
    step *= 2;
  }
  let high = low ? Math.min(low + step, list.length) : list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle] <= t) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
