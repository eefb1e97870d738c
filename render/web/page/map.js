// The memory map: the segments at an instant, in rows by pool and stream, with their blocks and holes, and the events before and after it.

import {hexOf} from './breakdown.js';
import {colored} from './colors.js';
import {stackList} from './details.js';
import {button, el, replace} from './dom.js';
import {bytes, count, several, since} from './format.js';
import {stackedAt} from './raster.js';
import {Events, groupOf, segmentsAt} from './segments.js';
import {lastUpTo} from './space.js';
import {style} from './theme.js';

const shortest = 12; // pixels of a segment
const between = 3; // pixels from a segment to the next
const sizeRoom = 64; // pixels for the size of a segment that has a row to itself
const fitting = 30; // rows, of all pools and streams, that a screen has: longer lists get a smaller scale
const requestHeight = 16;
const mostRows = 250; // of one pool and stream
// rowsOf returns the height of n rows and the gap between them: many have no texts.
const rowsOf = (n) => (n > 120 ? {height: 5, gap: 1} : n > 50 ? {height: 9, gap: 2} : {height: 16, gap: 4});
const lined = 9, textHeight = 13; // of rows with outlines, and with texts
const shownEvents = 300, pastHeight = 150;

// MemoryMap shows a space. It calls on.hover(buffer or text, event), on.pin(buffer) and on.go(t).
export class MemoryMap {
  constructor(space, options, on) {
    Object.assign(this, {space, options, on, hole: null});
    this.events = new Events(space);
    this.title = el('h2');
    this.what = el('div', {class: 'event', role: 'status'});
    this.pinners = el('div', {class: 'pinners', role: 'status'});
    this.past = el('canvas', {class: 'past', role: 'img', 'aria-label': 'the last events, in their order: every block that was alive'});
    this.pastText = el('p', {class: 'note'});
    this.rows = el('div', {class: 'segments', tabindex: 0, role: 'group', 'aria-label': 'segments: left and right arrows step through events, up and down choose a hole', onkeydown: (e) => this.key(e)});
    this.verdict = el('p', {class: 'verdict'});
    this.holes = el('div', {class: 'bar holes'});
    const failed = space.ooms.map((m, i) => button(`failed request${space.ooms.length > 1 ? ` ${count(i + 1)}` : ''}`, 'go to the allocation that failed', () => on.go(m.begin))).slice(0, 8);
    this.element = el('div', {class: 'map'},
      el('div', {class: 'bar'}, this.title, el('span', {class: 'push'}), failed, !space.notRecorded && [button('‹ event', 'previous event (←)', () => this.step(-1)), button('event ›', 'next event (→)', () => this.step(1))]),
      el('div', {class: 'beside'}, el('div', {}, this.pastText, this.past), this.what), this.verdict, this.holes, this.pinners, this.rows);
    new ResizeObserver(() => this.resized()).observe(this.rows);
  }

  // at shows time t.
  at(t) {
    if (t !== this.time) this.hole = null;
    this.time = t;
    Object.assign(this, segmentsAt(this.space, t));
    this.request = this.space.ooms.find((m) => m.begin === t);
    this.show();
  }

  step(direction) {
    const t = direction < 0 ? this.events.previous(this.time) : this.events.next(this.time);
    if (t !== null) this.on.go(t);
  }

  key(e) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[e.key], choose = {ArrowUp: -1, ArrowDown: 1}[e.key];
    if (!step && !choose) return;
    e.preventDefault();
    e.stopPropagation(); // the page moves with these keys, too
    if (step) this.step(step);
    else if (this.largest.length) this.choose(this.largest[Math.max(0, Math.min(this.largest.length - 1, this.largest.indexOf(this.hole) + choose))]);
  }

  show() {
    const {space, segments} = this;
    this.title.textContent = `Segments at ${space.notRecorded ? 'the end' : since(space, this.time)}`;
    replace(this.what, this.events.at(this.time).slice(0, 4).map((event) => this.eventCard(event)));
    const holes = segments.flatMap((s) => s.holes).sort((a, b) => b.size - a.size || a.addr - b.addr);
    this.largest = holes.slice(0, 20);
    const reserved = segments.reduce((sum, s) => sum + s.size, 0), used = segments.reduce((sum, s) => sum + s.used, 0);
    const largest = holes.length ? `the largest of ${several(holes.length, 'hole')} has ${bytes(holes[0].size)}` : 'no holes';
    const lost = this.outside.length ? ` ${several(this.outside.length, 'buffer')} are in no recorded segment.` : '';
    this.verdict.textContent = `${several(segments.length, 'segment')}: ${bytes(reserved)} reserved, ${bytes(used)} in use, ${bytes(reserved - used)} free; ${largest}.${this.fit(holes)}${lost}`;
    replace(this.holes, holes.length > 0 && 'largest holes: ', this.largest.slice(0, 6).map((hole) => button(bytes(hole.size), 'show what pins this hole', () => this.choose(hole))));
    this.draw();
  }

  // fit compares the request that failed with the largest hole.
  fit(holes) {
    const {request} = this;
    if (!request?.requested) return '';
    const largest = holes.length ? holes[0].size : 0, device = request.free >= 0 ? `; the device had ${bytes(request.free)}` : '';
    return largest >= request.requested ? ` The request of ${bytes(request.requested)} would fit the largest hole, if its pool and stream may use it${device}.` :
      ` The request of ${bytes(request.requested)} needs ${bytes(request.requested - largest)} more than the largest hole${device}.`;
  }

  eventCard({action, size, addr, buffer, site}) {
    const {space} = this, {capture} = space;
    const segment = addr >= 0 && this.segments.find((s) => s.addr <= addr && addr < s.addr + s.size);
    const text = `${action}: ${bytes(size)}${addr >= 0 ? ` at ${hexOf(space, addr)}` : ''}${segment ? `, ${groupOf(segment)}` : ''}`;
    const by = buffer >= 0 ? capture.siteName(space.site[buffer]) : site ? capture.siteName(site) : '';
    return el('section', {class: 'card', 'aria-label': 'event'}, el('strong', {}, text), by && el('p', {}, action === 'freed' ? `allocated by ${by}` : `by ${by}`),
      action === 'freed' && el('p', {class: 'note'}, site ? 'freed by' : 'the stack of the free was not recorded'), site > 0 && stackList(capture, capture.sites[site].stack));
  }

  // choose lights what pins a hole: the blocks beside it.
  choose(hole) {
    this.hole = hole;
    const {space} = this, {capture} = space, {segment} = hole;
    const neighbour = (i, where) => i >= 0 && el('li', {}, `${where}: `, button(`${capture.siteName(space.site[i])}, ${bytes(space.size[i])}`, 'pin this buffer', () => this.on.pin(i)),
      ` since ${since(space, Math.max(space.begin[i], 0))}`);
    const joined = [hole.below, hole.above].filter((i) => i >= 0).reduce((sum, i) => sum + space.size[i], hole.size);
    const around = segment.holes.filter((h) => h !== hole && (h.above === hole.below && hole.below >= 0 || h.below === hole.above && hole.above >= 0)).reduce((sum, h) => sum + h.size, 0);
    replace(this.pinners, el('p', {}, el('strong', {}, `hole of ${bytes(hole.size)}`), ` at ${hexOf(space, hole.addr)}, in a segment of ${bytes(segment.size)} (${groupOf(segment)}), which ${several(segment.blocks.length, 'block')} of ${bytes(segment.used)} keep.`,
      segment.blocks.length ? ` Without the blocks beside it, it would have ${bytes(joined + around)}.` : ' Nothing pins it: torch.cuda.empty_cache() returns the segment.'),
    el('ul', {}, neighbour(hole.below, 'below'), neighbour(hole.above, 'above')));
    this.draw();
    const place = this.drawn.get(segment);
    if (place) this.rows.scrollTop = place.canvas.offsetTop - this.rows.offsetTop + place.y - this.rows.clientHeight / 2;
  }

  resized() {
    if (!this.segments || this.width === this.rows.clientWidth) return;
    this.draw();
  }

  draw() {
    if (!this.segments) return;
    if (!this.hole) replace(this.pinners);
    const width = this.width = this.rows.clientWidth || this.element.clientWidth;
    if (!width) return;
    this.drawPast();
    const longest = Math.max(1, ...this.segments.map((s) => s.size)), request = this.request?.requested || 0;
    const total = this.segments.reduce((sum, s) => sum + s.size, 1);
    this.drawn = new Map(); // of each segment: its canvas and place
    this.scale = Math.min((width - sizeRoom) / Math.min(Math.max(longest, request), 2 * longest), fitting * width / total);
    const groups = new Map();
    for (const segment of this.segments) {
      const name = groupOf(segment);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(segment);
    }
    const packed = [...groups].map(([name, all]) => [name, all, this.packed(all, width)]);
    this.row = rowsOf(packed.reduce((sum, [, , rows]) => sum + rows.length, 0));
    replace(this.rows, request > 0 && this.requestRow(width, request), packed.map(([name, all, rows]) => this.group(name, all, rows, width)));
  }

  requestRow(width, request) {
    const canvas = canvasOf(width, requestHeight + 2, 'the size of the request that failed'), ctx = canvas.getContext('2d');
    ctx.scale(devicePixelRatio, devicePixelRatio);
    hatched(ctx, 1, 1, Math.min(request * this.scale, width - 2), requestHeight);
    return el('div', {class: 'group'}, el('h3', {}, `the request that failed: ${bytes(request)}, to the same scale`), canvas);
  }

  // packed returns segments in rows, in the order of addresses: [{segment, x, length}]. Of too many, it returns the largest.
  packed(all, width) {
    const rows = [];
    let end = Infinity;
    for (const segment of all) {
      const length = Math.min(Math.max(segment.size * this.scale, shortest), width - 2);
      if (end + length + 2 > width) {
        rows.push([]);
        end = 0;
      }
      rows[rows.length - 1].push({segment, x: end, length});
      end += length + between;
    }
    if (rows.length <= mostRows) return rows;
    return this.packed([...all].sort((a, b) => b.size - a.size).slice(0, Math.floor(all.length * mostRows / rows.length)).sort((a, b) => a.addr - b.addr), width);
  }

  // group returns the rows of one pool and stream.
  group(name, all, rows, width) {
    const used = all.reduce((sum, s) => sum + s.used, 0), reserved = all.reduce((sum, s) => sum + s.size, 0);
    const pitch = this.row.height + this.row.gap, height = rows.length * pitch, missing = all.length - rows.flat().length;
    const canvas = canvasOf(width, height, `${several(all.length - missing, 'segment')} of the ${name}`);
    this.paint(canvas.getContext('2d'), rows, width);
    rows.forEach((row, i) => row.forEach(({segment, x, length}) => this.drawn.set(segment, {canvas, x, y: i * pitch, length})));
    const under = (e) => this.under(rows, e.offsetX, e.offsetY);
    canvas.addEventListener('mousemove', (e) => this.hover(under(e), e));
    canvas.addEventListener('mouseleave', (e) => this.on.hover(null, e));
    canvas.addEventListener('click', (e) => {
      const {block, hole} = under(e);
      if (hole) this.choose(hole);
      else if (block !== undefined) this.on.pin(block);
    });
    return el('div', {class: 'group'}, el('h3', {}, `${name}: ${several(all.length, 'segment')}, ${bytes(used)} of ${bytes(reserved)} in use`), !this.space.notRecorded && this.envelope(all[0]),
      canvas, missing > 0 && el('p', {class: 'note'}, `${several(missing, 'smaller segment')} not drawn`));
  }

  paint(ctx, rows, width) {
    const {space, hole} = this, {legend, lit, buffer} = this.options, {height: rowHeight, gap: rowGap} = this.row;
    ctx.scale(devicePixelRatio, devicePixelRatio);
    const paper = style('ground'), line = style('muted'), accent = style('accent');
    const [largest] = this.largest;
    rows.forEach((all, row) => all.forEach(({segment, x: left, length}) => {
      const y = row * (rowHeight + rowGap), scale = length / segment.size;
      const xOf = (addr) => left + 1 + (addr - segment.addr) * scale;
      ctx.fillStyle = paper;
      ctx.fillRect(left + 1, y, length, rowHeight);
      for (const i of segment.blocks) {
        const x = xOf(space.addr[i]), w = Math.max(space.size[i] * scale, 0.5);
        ctx.globalAlpha = lit && !lit[i] ? 0.25 : 1;
        ctx.fillStyle = legend.rows[legend.classes[i]].fill;
        ctx.fillRect(x, y, w > 3 ? w - 1 : w, rowHeight);
        ctx.globalAlpha = 1;
        if (i !== buffer && (!hole || i !== hole.below && i !== hole.above)) continue;
        ctx.strokeStyle = accent;
        ctx.lineWidth = 2;
        ctx.strokeRect(x + 1, y + 1, Math.max(w - 2, 1), rowHeight - 2);
      }
      for (const h of segment.holes) {
        const w = h.size * scale;
        if (w < 2 && h !== hole && h !== largest) continue;
        ctx.setLineDash(h === hole ? [] : [3, 2]);
        ctx.strokeStyle = h === hole || h === largest ? accent : line;
        ctx.lineWidth = h === hole ? 2 : 1;
        ctx.strokeRect(xOf(h.addr) + 0.5, y + 0.5, Math.max(w - 1, 1), rowHeight - 1);
        ctx.setLineDash([]);
        this.label(ctx, h, xOf(h.addr), y, w);
      }
      if (rowHeight < lined) return;
      ctx.strokeStyle = line;
      ctx.lineWidth = 1;
      ctx.strokeRect(left + 0.5, y + 0.5, length, rowHeight - 1);
      const text = bytes(segment.size);
      ctx.font = '11px system-ui, sans-serif';
      if (all.length === 1 && rowHeight >= textHeight && length + ctx.measureText(text).width + 10 < width) {
        ctx.fillStyle = style('muted');
        ctx.fillText(text, length + 6, y + rowHeight - 4);
      }
    }));
  }

  // label writes the size of a hole that has room for it.
  label(ctx, hole, x, y, width) {
    const text = `${hole === this.largest[0] ? 'largest hole ' : ''}${bytes(hole.size)}`;
    ctx.font = '11px system-ui, sans-serif';
    if (this.row.height < textHeight || ctx.measureText(text).width + 8 > width) return;
    ctx.fillStyle = style('fg');
    ctx.fillText(text, x + 4, y + this.row.height - 4);
  }

  // under returns the block or the hole at a place of the rows.
  under(rows, x, y) {
    const {height, gap} = this.row, place = rows[Math.floor(y / (height + gap))]?.find((p) => p.x <= x && x < p.x + p.length + between);
    if (!place || y % (height + gap) > height) return {};
    const {segment} = place, addr = segment.addr + (x - place.x - 1) * segment.size / place.length;
    if (addr >= segment.addr + segment.size) return {segment};
    const block = segment.blocks.findLast((i) => this.space.addr[i] <= addr);
    if (block !== undefined && this.space.addr[block] + this.space.size[block] > addr) return {segment, block};
    return {segment, hole: segment.holes.find((h) => h.addr <= addr && h.addr + h.size > addr)};
  }

  hover({segment, block, hole}, e) {
    if (hole) this.on.hover(`hole of ${bytes(hole.size)} at ${hexOf(this.space, hole.addr)}; click: what pins it`, e);
    else this.on.hover(block ?? (segment ? `segment of ${bytes(segment.size)} at ${hexOf(this.space, segment.addr)}` : null), e);
  }

  // envelope returns a small chart of one pool and stream over the window: reserved, and in use.
  envelope(of) {
    const {space} = this, width = 200, height = 28, name = groupOf(of);
    this.envelopes ||= envelopesOf(space, width);
    const {reserved, used} = this.envelopes.get(name), most = Math.max(1, ...reserved, ...used);
    const canvas = canvasOf(width, height, `${name} over the whole recording: at most ${bytes(Math.max(...reserved))} reserved, ${bytes(Math.max(...used))} in use`), ctx = canvas.getContext('2d');
    ctx.scale(devicePixelRatio, devicePixelRatio);
    for (const [levels, color] of [[reserved, style('reserved')], [used, style('allocated')]]) {
      ctx.fillStyle = color;
      levels.forEach((level, x) => ctx.fillRect(x, height - level / most * height, 1, level / most * height));
    }
    ctx.fillStyle = style('accent');
    ctx.fillRect(Math.min(width - 1, this.time / space.length * width), 0, 1, height);
    canvas.classList.add('envelope');
    return canvas;
  }

  // drawPast draws the blocks over the last events up to the time, and above them the request that failed.
  drawPast() {
    const {space, past, request, options} = this, ctx = past.getContext('2d');
    const times = this.events.last(this.time, shownEvents), width = past.parentElement.clientWidth;
    past.hidden = this.pastText.hidden = times.length < 2 || !width;
    if (past.hidden) return;
    const levels = times.map((t) => space.curve.bytes[Math.max(0, space.levelAt(t))]), most = Math.max(...levels), now = levels[levels.length - 1];
    const capacity = request && request.free >= 0 ? (space.reservedAt(this.time) ?? now) + request.free : 0;
    const top = 1.05 * Math.max(most, capacity, Math.min(now + (request?.requested || 0), 1.5 * Math.max(most, capacity)), 1);
    const least = Math.min(...levels), low = top - least < least / 2 ? Math.max(0, least - 2 * (top - least)) : 0; // else what changes is a hairline
    this.pastText.textContent = `the last ${several(times.length, 'event')}, in their order: ${bytes(least)} to ${bytes(most)} in use${low > 0 ? `, drawn from ${bytes(low)} on` : ''}${capacity ? `; line: ${bytes(capacity)} reserved and free on the device` : ''}`;
    const room = request ? 40 : 0, view = {low, high: top, width: Math.max(1, Math.round((width - room) * devicePixelRatio)), height: Math.round(pastHeight * devicePixelRatio)};
    past.width = Math.round(width * devicePixelRatio);
    past.height = view.height;
    past.style.width = `${width}px`;
    past.style.height = `${pastHeight}px`;
    ctx.putImageData(colored(space, {...view, pixels: stackedAt(space, view, options.legend.tiers(0), times)}, options), 0, 0);
    ctx.scale(devicePixelRatio, devicePixelRatio);
    const yOf = (n) => pastHeight - (n - low) / (top - low) * pastHeight;
    if (request) hatched(ctx, width - room + 2, Math.max(yOf(now + request.requested), 1), room - 4, yOf(now) - Math.max(yOf(now + request.requested), 1));
    if (!capacity) return;
    ctx.strokeStyle = style('bad');
    ctx.strokeRect(0, yOf(capacity), width, 0);
  }
}

// envelopesOf returns the reserved and the used bytes of each pool and stream, at the ends of width columns.
function envelopesOf(space, width) {
  const all = new Map(), column = (t) => Math.max(0, Math.min(width, Math.floor(t / space.length * width)));
  const regions = [...space.regions].sort((a, b) => a.addr - b.addr), starts = Float64Array.from(regions, (r) => r.addr);
  const add = (levels, begin, end, size) => {
    levels[column(begin)] += size;
    if (end < space.length) levels[column(end)] -= size;
  };
  const of = (r) => {
    const name = groupOf(r);
    if (!all.has(name)) all.set(name, {reserved: new Float64Array(width + 1), used: new Float64Array(width + 1)});
    return all.get(name);
  };
  for (const r of regions) add(of(r).reserved, r.begin, r.end, r.size);
  for (let i = 0; i < space.count; i++) {
    for (let k = lastUpTo(starts, space.addr[i]); k >= 0; k--) { // regions of other times may have had the address
      const r = regions[k];
      if (r.addr + r.size > space.addr[i] && r.begin <= Math.max(space.begin[i], 0) && r.end > space.begin[i]) {
        add(of(r).used, space.begin[i], space.end[i], space.size[i]);
        break;
      }
      if (lastUpTo(starts, space.addr[i]) - k > 8) break;
    }
  }
  for (const levels of all.values()) for (const list of [levels.reserved, levels.used]) for (let x = 1; x <= width; x++) list[x] += list[x - 1];
  for (const levels of all.values()) for (const name of ['reserved', 'used']) levels[name] = levels[name].subarray(0, width);
  return all;
}

// hatched draws a hollow hatched block: a request that got no memory.
function hatched(ctx, x, y, width, height) {
  ctx.save();
  ctx.beginPath();
  ctx.rect(x, y, width, height);
  ctx.clip();
  ctx.strokeStyle = style('bad');
  ctx.lineWidth = 1;
  for (let d = -height; d < width; d += 6) {
    ctx.beginPath();
    ctx.moveTo(x + d, y + height);
    ctx.lineTo(x + d + height, y);
    ctx.stroke();
  }
  ctx.restore();
  ctx.strokeStyle = style('bad');
  ctx.lineWidth = 2;
  ctx.strokeRect(x + 1, y + 1, Math.max(width - 2, 1), Math.max(height - 2, 1));
}

function canvasOf(width, height, label) {
  return el('canvas', {width: Math.round(width * devicePixelRatio), height: Math.round(height * devicePixelRatio), style: {width: `${width}px`, height: `${height}px`}, role: 'img', 'aria-label': label});
}
