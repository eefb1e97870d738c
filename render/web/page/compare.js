// Two captures on one scale, and the changes from one to the other.

import {axes, cursor, uPlot} from './chart.js';
import {el, replace} from './dom.js';
import {bytes, count, since} from './format.js';
import {style} from './theme.js';
import {linesOf, shownTimes, valuesAt} from './usage.js';
import {Table} from './table.js';

// changes compares two spaces: a row for each site, by function and file if there are
// stacks, otherwise by operation and shape. Bytes are those at the peak of each space.
export function changes(before, after) {
  const rows = new Map();
  const add = (space, side) => {
    for (let i = 0; i < space.count; i++) {
      const key = keyOf(space, space.site[i]);
      if (!rows.has(key)) rows.set(key, {key, name: space.capture.siteName(space.site[i]), before: none(), after: none()});
      const name = space.capture.siteName(space.site[i]);
      if (name !== rows.get(key).name) rows.get(key).name = key.split('\n').filter(Boolean).join(' '); // the key has several lines
      const row = rows.get(key)[side];
      row.sites.add(space.site[i]);
      row.count++;
      if (space.aliveAt(i, space.peak)) row.peak += space.size[i];
      if (space.end[i] === Infinity) row.end += space.size[i];
    }
  };
  add(before, 'before');
  add(after, 'after');
  for (const row of rows.values()) {
    row.peak = row.after.peak - row.before.peak;
    row.end = row.after.end - row.before.end;
    row.status = !row.before.count ? 'new' : !row.after.count ? 'gone' : row.peak > 0 || !row.peak && row.end > 0 ? 'grew' : row.peak || row.end ? 'shrank' : 'same';
  }
  return [...rows.values()];
}

const none = () => ({peak: 0, end: 0, count: 0, sites: new Set()});

// keyOf identifies a site in other runs of the program, in which line numbers may differ.
function keyOf(space, id) {
  const site = space.capture.sites[id];
  const file = site.place.replace(/:\d+$/, '');
  return site.name && !site.instr ? `${site.name.replace(/:\d+/g, '')}\n${file}` : [site.instr && site.op ? '' : site.instr, site.op, site.dtype, site.shape].join('\n');
}

// Compare shows two spaces, of any captures.
export class Compare {
  constructor(captures, lit) {
    this.lit = lit;
    this.spaces = captures.flatMap((c) => c.spaces);
    this.choices = ['before', 'after'].map((name) => el('select', {'aria-label': name, onchange: () => this.show()},
      this.spaces.map((s, i) => el('option', {value: i}, `${captures.length > 1 ? `${s.capture.name}: ` : ''}${s.id}`))));
    this.preset(captures);
    this.verdict = el('p', {role: 'status', class: 'verdict'});
    this.graph = el('div', {class: 'graph'});
    this.place = el('div');
    this.element = el('div', {class: 'compare'}, el('div', {class: 'bar'}, 'before ', this.choices[0], ' after ', this.choices[1]), this.verdict, this.graph, this.place);
  }

  // preset chooses the first space of the first capture, and the most similar one of the second.
  preset(captures) {
    const first = captures[0].spaces[0], others = captures[1].spaces;
    const like = others.find((s) => s.id === first.id) || others.find((s) => s.static === first.static) || others[0];
    this.choices[1].value = this.spaces.indexOf(like);
  }

  async show() {
    const [before, after] = this.choices.map((choice) => this.spaces[choice.value]);
    await Promise.all([before.load(), after.load()]);
    const rows = changes(before, after);
    this.drawCurves(before, after);
    const level = (s) => s.curve.bytes[Math.max(0, s.levelAt(s.peak))] || 0;
    const difference = level(after) - level(before);
    const counted = (status) => rows.filter((row) => row.status === status).length;
    this.verdict.textContent = `The peak ${difference ? `${difference > 0 ? 'grew' : 'shrank'} by ${bytes(Math.abs(difference))}` : 'is the same'}: ${bytes(level(before))} (${since(before, before.peak)}) before, ` +
      `${bytes(level(after))} (${since(after, after.peak)}) after. Sites: ${['new', 'gone', 'grew', 'shrank', 'same'].map((s) => `${count(counted(s))} ${s}`).join(', ')}.`;
    this.table = tableOf((row) => this.lit(after, [...row.after.sites], row.name));
    this.table.show(rows);
    replace(this.place, this.table.element);
  }

  drawCurves(before, after) {
    this.plot?.destroy();
    replace(this.graph);
    if (!this.graph.clientWidth) return;
    const length = Math.max(before.length, after.length);
    const lines = [before, after].map((space) => linesOf(space).find((line) => line.color === 'allocated'));
    const x = [...new Set([0, length, ...lines.flatMap((line) => shownTimes(line, 0, length, this.graph.clientWidth))])].sort((a, b) => a - b);
    const values = lines.map((line, k) => valuesAt(line, x).map((v, i) => (x[i] <= [before, after][k].length ? v : null)));
    this.plot = new uPlot({
      width: this.graph.clientWidth, height: 220, legend: {show: true, live: false}, cursor: cursor('compare', false),
      scales: {x: {time: false, range: [0, length]}, y: {range: (u, low, high) => [0, Math.max(high, 1) * 1.1]}, share: {range: [0, 1]}}, axes: axes(before.length > after.length ? before : after),
      series: [{}, ...['before', 'after'].map((name, k) => ({label: name, scale: 'y', stroke: style(k ? 'allocated' : 'share'), dash: k ? [] : [5, 4], width: 1.5,
        paths: uPlot.paths.stepped({align: 1}), points: {show: false}}))],
    }, [x, ...values], this.graph);
  }
}

function tableOf(activate) {
  const number = (name, title, value, text = (row) => bytes(value(row))) => ({name, title, number: true, value, text});
  const signed = (n) => `${n > 0 ? '+' : ''}${bytes(n)}`;
  const peak = number('at the peak', 'difference of the bytes at the peaks', (row) => Math.abs(row.peak), (row) => signed(row.peak));
  return new Table({
    label: 'differences', sort: peak, on: {activate},
    columns: [
      {name: 'change', title: 'how the site changed', text: (row) => row.status, value: (row) => row.status},
      {...peak, csv: (row) => row.peak},
      {...number('at the end', 'difference of the bytes at the ends', (row) => Math.abs(row.end), (row) => signed(row.end)), csv: (row) => row.end},
      number('before', 'bytes at the peak before', (row) => row.before.peak), number('after', 'bytes at the peak after', (row) => row.after.peak),
      number('buffers before', 'all buffers of the window', (row) => row.before.count, (row) => count(row.before.count)),
      number('buffers after', 'all buffers of the window', (row) => row.after.count, (row) => count(row.after.count)),
      {name: 'allocated by', shorten: true, title: 'function or operation', text: (row) => row.name, value: (row) => row.name.toLowerCase()},
    ],
  });
}
