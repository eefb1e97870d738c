// Two captures on one axis: their curves, the difference by group, and the changes of each call site.

import {Alignment} from './align.js';
import {stackOf, stackText} from './breakdown.js';
import {axes, cursor, follow, left, Timeline, uPlot} from './chart.js';
import {stackList} from './details.js';
import {button, el, replace} from './dom.js';
import {bytes, count, several, since} from './format.js';
import {signed} from './growth.js';
import {captureNames} from './select.js';
import {shorten} from './shorten.js';
import {Table} from './table.js';
import {style} from './theme.js';
import {changesOf, waterfall} from './waterfall.js';

// The shades of more and of less memory, by group; the last one is for all other groups.
const more = ['#8f1620', '#c8323a', '#e2604a', '#f08e70', '#f7b59c', '#fbd9cc'], less = ['#153e7a', '#2768ab', '#478fcb', '#74b1e0', '#a4cdec', '#d0e5f6'];
const other = more.length - 1;
const sides = ['before', 'after'];

// changes compares two spaces: a row for each site, by function and file if there are
// stacks, otherwise by operation and shape. Bytes are those at the peak of each space.
export function changes(before, after) {
  const rows = new Map();
  const add = (space, side) => {
    const peak = sitesAt(space, space.peak), end = sitesAt(space, Infinity), n = new Uint32Array(peak.length);
    for (let i = 0; i < space.count; i++) n[space.site[i]]++;
    n.forEach((buffers, site) => {
      if (!buffers) return;
      const key = keyOf(space, site), name = space.capture.siteName(site);
      if (!rows.has(key)) rows.set(key, {key, name, before: none(), after: none()});
      if (name !== rows.get(key).name) rows.get(key).name = key.split('\n').filter(Boolean).join(' '); // the key has several lines
      const row = rows.get(key)[side];
      row.sites.add(site);
      row.count += buffers;
      row.peak += peak[site];
      row.end += end[site];
    });
  };
  add(before, 'before');
  add(after, 'after');
  joinNamed(rows, {before, after});
  for (const row of rows.values()) {
    row.peak = row.after.peak - row.before.peak;
    row.end = row.after.end - row.before.end;
    row.status = !row.before.count ? 'new' : !row.after.count ? 'gone' : row.peak > 0 || !row.peak && row.end > 0 ? 'grew' : row.peak || row.end ? 'shrank' : 'same';
  }
  return [...rows.values()];
}

// joinNamed makes one row of a site that is gone and a new one if their buffers have the same recorded names, and no others have.
function joinNamed(rows, spaces) {
  if (!spaces.before.named || !spaces.after.named) return;
  const [gone, added] = sides.map((side, k) => {
    const space = spaces[side], names = new Map(), only = new Map();
    for (let i = 0; i < space.count; i++) {
      if (!space.holder[i]) continue;
      const key = keyOf(space, space.site[i]);
      if (rows.get(key)[sides[1 - k]].count) continue;
      if (!names.has(key)) names.set(key, new Set());
      names.get(key).add(space.capture.holders[space.holder[i]].group.name);
    }
    for (const [key, all] of names) {
      const text = [...all].sort().join('\n');
      only.set(text, only.has(text) ? null : rows.get(key));
    }
    return only;
  });
  for (const [names, row] of gone) {
    const other = added.get(names);
    if (!row || !other) continue;
    rows.delete(row.key);
    other.before = row.before;
  }
}

// nameOf returns the name of a space with that of its capture, without folders if that is enough.
function nameOf(captures, {capture, id}) {
  return `${captureNames(captures).get(capture)}: ${id}`;
}

const none = () => ({peak: 0, end: 0, count: 0, sites: new Set()});

// sitesAt returns the bytes of each site at a time, Infinity for those that were not freed; of buffers of one class if one is given.
function sitesAt(space, t, classes, one) {
  const sum = new Float64Array(space.capture.sites.length);
  for (let i = 0; i < space.count; i++) {
    if ((t === Infinity ? space.end[i] === Infinity : space.aliveAt(i, t)) && (!classes || classes[i] === one)) sum[space.site[i]] += space.size[i];
  }
  return sum;
}

// keyOf identifies a site in other runs of the program, in which line numbers may differ.
function keyOf(space, id) {
  const site = space.capture.sites[id];
  const file = site.place.replace(/:\d+$/, '');
  return site.name && !site.instr ? `${site.name.replace(/:\d+/g, '')}\n${file}` : [site.instr && site.op ? '' : site.instr, site.op, site.dtype, site.shape].join('\n');
}

// namesOf returns the name of the group of each buffer of a space.
const namesOf = {
  category: (space) => (i) => (space.categoryOf(space.rowOf(i)) || 'unknown').replaceAll('_', ' '),
  name: (space) => (i) => space.capture.holders[space.holder[i]].group.name || '(no name recorded)',
  'call site': (space, rows) => {
    const names = [];
    for (const row of rows) for (const side of sides) if (row.space[side] === space) for (const site of row[side].sites) names[site] = row.name;
    return (i) => names[space.site[i]];
  },
};

// Groups has the groups that differ most, and the group of each buffer: its place in names.
class Groups {
  constructor(spaces, by, rows) {
    const sums = new Map(); // by name: what differs between the peaks, the ends and the averages
    const nameOf = spaces.map((space) => namesOf[by](space, rows));
    spaces.forEach((space, side) => {
      for (let i = 0; i < space.count; i++) {
        const name = nameOf[side](i);
        if (!sums.has(name)) sums.set(name, [0, 0, 0]);
        const sum = sums.get(name), sign = side ? 1 : -1, size = sign * space.size[i];
        if (space.aliveAt(i, space.peak)) sum[0] += size;
        if (space.end[i] === Infinity) sum[1] += size;
        sum[2] += size * (Math.min(space.end[i], space.length) - Math.max(space.begin[i], 0)) / space.length;
      }
    });
    this.peaks = [...sums].map(([name, [peak]]) => [name, peak]); // what differs between the peaks
    const rank = (name) => Math.max(...sums.get(name).map(Math.abs));
    this.names = [...sums.keys()].sort((a, b) => rank(b) - rank(a) || (a < b ? -1 : 1)).slice(0, other);
    const index = new Map(this.names.map((name, k) => [name, k]));
    this.rest = sums.size > other || spaces.some((s) => s.base || s.stack.length || s.usageOnly);
    this.classes = spaces.map((space, side) => Uint8Array.from({length: space.count}, (_, i) => index.get(nameOf[side](i)) ?? other));
    while (this.names.length < other) this.names.push('');
    this.names.push('other');
  }

  // levels returns the bytes of each group of a space at times in ascending order, one row of groups after the other.
  levels(space, side, times) {
    const {begin, endAt, byEnd, size, count} = space, classes = this.classes[side];
    const now = new Float64Array(other + 1), out = new Float64Array(times.length * now.length);
    let b = 0, e = 0;
    times.forEach((t, row) => {
      if (t === null) return;
      for (; b < count && begin[b] <= t; b++) now[classes[b]] += size[b];
      for (; e < byEnd.length && endAt[e] <= t; e++) now[classes[byEnd[e]]] -= size[byEnd[e]];
      out.set(now, row * now.length);
      out[row * now.length + other] += space.usageOnly ? levelOf(space, t) : space.base + space.stackAt(t);
    });
    return out;
  }
}

const levelOf = (space, t) => space.curve.bytes[space.levelAt(t)] ?? 0;

// Compare shows two spaces, of any captures. open(space, sites, name) shows sites in one of them.
export class Compare {
  constructor(captures, open) {
    this.open = open;
    this.spaces = captures.flatMap((c) => c.spaces);
    this.choices = sides.map((name) => el('select', {'aria-label': name, onchange: () => this.show()},
      this.spaces.map((s, i) => el('option', {value: i}, nameOf(captures, s)))));
    this.captures = captures;
    this.title = el('h1');
    this.preset(captures);
    this.verdict = el('p', {role: 'status', class: 'verdict'});
    this.note = el('p', {class: 'note'});
    this.by = el('select', {'aria-label': 'difference by', onchange: () => this.regroup()}, Object.keys(namesOf).filter((by) => by !== 'name' || this.spaces.some((s) => s.named)).map((by) => el('option', {value: by}, `by ${by}`)));
    this.legend = el('span', {class: 'legend'});
    this.fall = el('div', {class: 'fall'});
    this.slider = el('input', {type: 'range', min: 0, max: 1000, class: 'slider', 'aria-label': 'instant of the comparison', oninput: () => this.choose(this.slider.value / 1000 * this.axis.length)});
    this.graph = el('div', {class: 'graph', role: 'img', 'aria-label': 'memory in use before and after; the table below has the figures'});
    this.differences = el('div', {class: 'graph', role: 'img', 'aria-label': 'memory in use after minus before, by group; the table below has the figures'});
    this.pair = el('div', {class: 'pair', role: 'status'});
    this.place = el('div');
    this.over = el('div', {}, this.note, this.graph, el('div', {class: 'bar'}, el('h2', {}, 'After minus before'), this.by, this.legend), this.differences, el('label', {class: 'instant'}, el('span', {}, 'instant'), this.slider));
    this.element = el('div', {class: 'compare'}, this.title, el('div', {class: 'bar'}, 'before ', this.choices[0], ' after ', this.choices[1]), this.verdict, this.fall, this.over, this.pair, this.place);
    this.plots = [];
    new ResizeObserver(() => { if (this.groups && this.graph.clientWidth !== this.width) this.draw(); }).observe(this.graph);
  }

  // preset chooses the first space of the first capture, and the most similar one of the second, of a series without histories of the last.
  preset(captures) {
    const first = captures[0].spaces[0], others = captures[first.notRecorded ? captures.length - 1 : 1].spaces;
    const like = others.find((s) => s.id === first.id) || others.find((s) => s.static === first.static) || others[0];
    this.choices[1].value = this.spaces.indexOf(like);
  }

  async show() {
    const [before, after] = this.shown = this.choices.map((choice) => this.spaces[choice.value]);
    await Promise.all([before.load(), after.load()]);
    replace(this.title, `${nameOf(this.captures, before)} → ${nameOf(this.captures, after)}`);
    const rows = this.rows = changes(before, after);
    for (const row of rows) row.space = {before, after};
    this.over.hidden = before.notRecorded && after.notRecorded; // two instants: there is no time
    const level = (s) => levelOf(s, s.peak), difference = level(after) - level(before);
    const counted = (status) => rows.filter((row) => row.status === status).length;
    this.verdict.textContent = `The peak ${difference ? `${difference > 0 ? 'grew' : 'shrank'} by ${bytes(Math.abs(difference))}` : 'is the same'}: ${bytes(level(before))} (${since(before, before.peak)}) before, ` +
      `${bytes(level(after))} (${since(after, after.peak)}) after. Sites: ${['new', 'gone', 'grew', 'shrank', 'same'].map((s) => `${count(counted(s))} ${s}`).join(', ')}.`;
    this.axis = new Alignment(this.shown);
    this.timeline = new Timeline({length: this.axis.length, least: this.axis.length / 1e6}, () => this.draw());
    this.note.textContent = `The captures are ${this.axis.describe()}. Each column of pixels shows the highest level of its part. Drag, or turn the wheel with Ctrl, to zoom; click on a colour to see both stacks.${
      this.shown.filter((s) => s.capture.info.damaged).map((s) => ` ${nameOf(this.captures, s)} is damaged: figures cover only what was read.`).join('')}`;
    this.by.value = this.shown.some((s) => s.categories) ? 'category' : 'call site';
    this.table = tableOf((row) => this.showPair(row));
    this.table.show(rows);
    replace(this.place, this.table.element);
    this.at = this.axis.placeOf(1, after.peak);
    this.regroup();
  }

  // regroup shows the difference by other groups.
  regroup() {
    this.groups = new Groups(this.shown, this.by.value, this.rows);
    const levels = this.shown.map((space) => levelOf(space, space.peak));
    replace(this.fall, waterfall(levels, changesOf(this.groups.peaks, levels)));
    replace(this.pair);
    this.draw();
  }

  // choose moves to a place on the axis.
  choose(at) {
    this.at = at;
    this.name();
    for (const plot of this.plots) plot.redraw(false);
    if (this.group !== undefined && this.pair.firstChild) this.explain(this.group);
  }

  // times returns the times of both spaces at a place; null for a space that has ended.
  times(at = this.at) {
    return sides.map((_, side) => this.axis.timeAt(side, at));
  }

  // sample returns for each column of pixels its place, the highest levels of both, and the instant of the higher one.
  sample(columns) {
    const {axis, shown, timeline: {from, to}} = this, out = {at: [], levels: [[], []], times: [[], []]};
    for (let c = 0; c < columns; c++) {
      const at = from + (to - from) * c / columns, next = from + (to - from) * (c + 1) / columns;
      let best = -1, place = at;
      shown.forEach((space, side) => {
        const begin = axis.timeAt(side, at);
        if (begin === null) {
          out.levels[side].push(null);
          return;
        }
        const end = axis.timeAt(side, next) ?? space.length, first = Math.max(0, space.levelAt(begin)), last = Math.max(first, space.levelAt(end) - (space.curve.at[space.levelAt(end)] === end ? 1 : 0));
        const {high} = space.extremes.between(first, last + 1), level = space.curve.bytes[high] ?? 0;
        out.levels[side].push(level);
        if (level > best) [best, place] = [level, high === first ? at : axis.placeOf(side, space.curve.at[high])];
      });
      out.at.push(at);
      this.times(place).forEach((t, side) => out.times[side].push(t));
    }
    return out;
  }

  draw() {
    for (const plot of this.plots) plot.destroy();
    this.plots = [];
    const width = this.width = this.graph.clientWidth;
    if (!width) return;
    const ratio = devicePixelRatio, sample = this.sample(Math.max(50, Math.round((width - left() - 50) * ratio)));
    const levels = this.shown.map((space, side) => this.groups.levels(space, side, sample.times[side]));
    const n = other + 1, difference = levels[1].map((v, k) => (sample.times.some((times) => times[Math.floor(k / n)] === null) ? 0 : v - levels[0][k]));
    let low = 0, high = 0;
    sample.at.forEach((_, row) => {
      const part = difference.subarray(row * n, row * n + n);
      high = Math.max(high, part.reduce((sum, v) => sum + Math.max(v, 0), 0));
      low = Math.min(low, part.reduce((sum, v) => sum + Math.min(v, 0), 0));
    });
    this.drawn = {sample, difference};
    this.plots = [this.plot(this.graph, 200, (u, lowest, highest) => [0, Math.max(highest, 1) * 1.1], sample.levels, sides.map((name, k) => ({label: name, stroke: style(k ? 'allocated' : 'share'), dash: k ? [] : [5, 4], width: 1.5, paths: uPlot.paths.stepped({align: 1})}))),
      this.plot(this.differences, 200, [low * 1.05, Math.max(high * 1.05, low ? high : 1)], [sample.at.map(() => null)], [{paths: () => null}], (u) => this.fill(u))];
    this.name();
  }

  plot(parent, height, range, values, series, draw) {
    const {timeline, axis} = this;
    const names = (u, ticks) => ticks.map((t) => (axis.bySteps && (!Number.isInteger(t) || t < 1) ? '' : axis.name(t)));
    const lines = axes(this.shown[0]);
    lines[0] = {...lines[0], splits: undefined, incrs: undefined, values: names};
    const plot = new uPlot({
      width: parent.clientWidth, height, legend: {show: !draw, live: false}, cursor: cursor('compare', false),
      scales: {x: {time: false, range: () => [timeline.from, timeline.to]}, y: {range}}, axes: lines, padding: [null, innerWidth > 720 ? 50 : 8, null, null],
      series: [{}, ...series.map((one) => ({scale: 'y', points: {show: false}, ...one}))],
      hooks: {draw: [(u) => { draw?.(u); this.mark(u); }], setSelect: [(u) => this.brushed(u)]},
    }, [this.drawn.sample.at, ...values], parent);
    follow(plot, timeline);
    plot.over.addEventListener('click', (e) => {
      const box = plot.over.getBoundingClientRect(), at = plot.posToVal(e.clientX - box.left, 'x');
      this.choose(Math.max(0, Math.min(at, axis.length)));
      if (draw) this.explain(this.groupAt(at, plot.posToVal(e.clientY - box.top, 'y')));
    });
    return plot;
  }

  brushed(u) {
    if (u.select.width < 4) return;
    const from = u.posToVal(u.select.left, 'x'), to = u.posToVal(u.select.left + u.select.width, 'x');
    u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
    this.timeline.show(from, to);
  }

  mark(u) {
    u.ctx.fillStyle = style('accent');
    const x = u.valToPos(this.at, 'x', true);
    if (x >= u.bbox.left && x <= u.bbox.left + u.bbox.width) u.ctx.fillRect(Math.round(x), u.bbox.top, devicePixelRatio, u.bbox.height);
  }

  // fill draws the groups that have more above the line of zero, those that have less below it.
  fill(u) {
    const {sample: {at}, difference} = this.drawn, n = other + 1, place = (v) => Math.round(u.valToPos(v, 'y', true));
    const wide = u.bbox.width / at.length;
    at.forEach((_, row) => {
      const x = Math.round(u.bbox.left + row * wide), next = Math.round(u.bbox.left + (row + 1) * wide);
      for (const [sign, shades] of [[1, more], [-1, less]]) {
        let level = 0;
        for (let k = 0; k < n; k++) {
          const v = difference[row * n + k];
          if (v * sign <= 0) continue;
          const from = place(level), to = place(level += v);
          u.ctx.fillStyle = shades[k];
          u.ctx.fillRect(x, Math.min(from, to), next - x, Math.abs(to - from));
        }
      }
    });
    u.ctx.fillStyle = style('muted');
    u.ctx.fillRect(u.bbox.left, place(0), u.bbox.width, devicePixelRatio);
  }

  // groupAt returns the group drawn at a place and a level, else the one that differs most there.
  groupAt(at, level) {
    const parts = this.differenceAt(at), sign = Math.sign(level);
    let top = 0;
    for (let k = 0; k <= other; k++) {
      if (parts[k] * sign <= 0) continue;
      top += parts[k];
      if (Math.abs(level) <= Math.abs(top)) return k;
    }
    return parts.reduce((best, v, k) => (Math.abs(v) > Math.abs(parts[best]) ? k : best), 0);
  }

  // differenceAt returns what each group has more at a place on the axis; zeros where one capture has ended.
  differenceAt(at = this.at) {
    const times = this.times(at);
    if (times.includes(null)) return new Float64Array(other + 1);
    const [before, after] = this.shown.map((space, side) => this.groups.levels(space, side, [times[side]]));
    return after.map((v, k) => v - before[k]);
  }

  // name writes the legend: the groups with their difference at the chosen instant.
  name() {
    this.slider.value = 1000 * this.at / this.axis.length;
    this.slider.setAttribute('aria-valuetext', this.axis.name(this.at));
    const parts = this.differenceAt(), {names, rest} = this.groups, texts = shorten(names, 40);
    replace(this.legend, el('span', {}, `${this.axis.name(this.at)}:`), names.map((name, k) => name && (k < other || rest) && el('button', {type: 'button', class: 'key', title: name, onclick: () => this.explain(k)},
      el('i', {style: {background: more[k]}}), el('i', {style: {background: less[k]}}), `${texts[k]} ${signed(parts[k])}`)));
  }

  // explain shows the call site of a group that differs most at the chosen instant.
  explain(group) {
    this.group = group;
    const times = this.times();
    if (times.includes(null)) {
      replace(this.pair, el('p', {class: 'note'}, 'One of the captures has ended here.'));
      return;
    }
    const sums = this.shown.map((space, side) => sitesAt(space, times[side], this.groups.classes[side], group));
    let best = null, most = 0;
    for (const row of this.rows) {
      const [before, after] = sides.map((name, side) => [...row[name].sites].reduce((sum, site) => sum + sums[side][site], 0));
      if (Math.abs(after - before) > most) [best, most] = [row, Math.abs(after - before)];
    }
    if (best) this.showPair(best, group);
    else replace(this.pair, el('p', {class: 'note'}, `${this.groups.names[group]}: no call site differs here.`));
  }

  // showPair shows the stacks of a call site in both captures, first the one that differs most at the chosen instant.
  showPair(row, group) {
    if (group === undefined) this.group = undefined;
    const times = this.times(), differs = new Map();
    const halves = sides.map((name, side) => {
      const space = this.shown[side], at = times[side] === null ? null : sitesAt(space, times[side]);
      const sites = [...row[name].sites].map((site) => ({site, bytes: at ? at[site] : 0, stack: stackText(space.capture, stackOf(space, space.capture.sites[site]))}));
      for (const {stack, bytes} of sites) differs.set(stack, (differs.get(stack) ?? 0) + (side ? bytes : -bytes));
      return {name, space, sites, ended: !at};
    });
    const rank = ({stack}) => Math.abs(differs.get(stack));
    for (const {sites} of halves) sites.sort((a, b) => rank(b) - rank(a) || b.bytes - a.bytes || a.site - b.site);
    replace(this.pair, el('p', {}, el('strong', {}, row.name), `${group === undefined ? '' : `, in ${this.groups.names[group]}`}, ${this.axis.name(this.at)}`),
      el('div', {class: 'halves'}, halves.map((half) => this.half(row, half))));
  }

  // half shows one side of a call site.
  half(row, {name, space, sites, ended}) {
    const here = ended ? 'ended' : bytes(sites.reduce((sum, one) => sum + one.bytes, 0));
    return el('section', {'aria-label': name}, el('h3', {}, `${name}: ${sites.length ? `${here} here, ${bytes(row[name].peak)} at its peak` : 'not in this capture'}`),
      sites.length > 0 && [stackList(space.capture, stackOf(space, space.capture.sites[sites[0].site])), el('p', {class: 'note'}, sites.length > 1 && `and ${several(sites.length - 1, 'more stack')} `,
        button('show its buffers', `all buffers of this site in the capture ${name}`, () => this.open(space, sites.map((one) => one.site), row.name)))]);
  }
}

function tableOf(activate) {
  const number = (name, title, value, text = (row) => bytes(value(row))) => ({name, title, number: true, value, text});
  const peak = number('at the peak', 'difference of the bytes at the peaks', (row) => Math.abs(row.peak), (row) => signed(row.peak));
  return new Table({
    label: 'differences', sort: peak, on: {activate},
    columns: [
      {name: 'change', title: 'how the site changed', text: (row) => row.status, value: (row) => row.status},
      {...peak, csv: (row) => row.peak},
      {...number('at the end', 'difference of the bytes at the ends', (row) => Math.abs(row.end), (row) => signed(row.end)), csv: (row) => row.end},
      number('before', 'bytes at the peak before', (row) => row.before.peak), number('after', 'bytes at the peak after', (row) => row.after.peak),
      number('buffers before', 'all buffers of the recording', (row) => row.before.count, (row) => count(row.before.count)),
      number('buffers after', 'all buffers of the recording', (row) => row.after.count, (row) => count(row.after.count)),
      {name: 'allocated by', shorten: true, title: 'function or operation', text: (row) => row.name, value: (row) => row.name.toLowerCase()},
    ],
  });
}
