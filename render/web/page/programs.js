// Buffer charts of compiled programs at a time: by size, by padding, and in program order.

import {left, uPlot} from './chart.js';
import {el, replace} from './dom.js';
import {bytes, count, percent} from './format.js';
import {style} from './theme.js';

const orders = {
  size: ['by size', (space) => (a, b) => space.size[b] - space.size[a] || a - b],
  padding: ['by padding', (space) => (a, b) => (space.size[b] - space.requested[b]) - (space.size[a] - space.requested[a]) || a - b],
  order: ['program order', (space) => (a, b) => space.begin[a] - space.begin[b] || a - b],
};

// BufferCharts shows the live buffers as bars: padded, and in front the unpadded part. A
// click calls picked(buffer).
export class BufferCharts {
  constructor(space, picked) {
    this.space = space;
    this.picked = picked;
    this.order = 'size';
    this.target = el('div', {class: 'bars'});
    this.text = el('p', {class: 'note', role: 'status'}, ' ');
    const choose = el('div', {class: 'bar', role: 'radiogroup'}, Object.entries(orders).map(([key, [name]]) => el('label', {},
      el('input', {type: 'radio', name: 'bars', value: key, checked: key === this.order, onchange: () => { this.order = key; this.draw(); }}), ` ${name}`)));
    this.element = el('div', {}, choose, this.target, this.text);
  }

  at(t) {
    this.t = t;
    this.draw();
  }

  draw() {
    const {space} = this;
    this.plot?.destroy();
    replace(this.target);
    const live = this.live = space.liveAt(this.t).sort(orders[this.order][1](space));
    if (!live.length || !this.target.clientWidth) return;
    const bars = uPlot.paths.bars({size: [0.9, 60], align: 0});
    const font = '11px system-ui, sans-serif', axis = {stroke: style('muted'), grid: {stroke: style('grid')}, ticks: {stroke: style('grid'), size: 4}, font};
    this.plot = new uPlot({
      width: this.target.clientWidth, height: 220, legend: {show: false}, cursor: {drag: {x: false, y: false}, points: {show: false}},
      scales: {x: {time: false, range: [-0.5, live.length - 0.5]}, y: {range: (u, low, high) => [0, Math.max(high, 1) * 1.05]}},
      axes: [{...axis, values: (u, ticks) => ticks.map((n) => (Number.isInteger(n) ? count(n + 1) : ''))},
        {...axis, size: () => left(), incrs: Array.from({length: 61}, (_, i) => 2 ** i), values: (u, ticks) => ticks.map(bytes)}],
      series: [{}, {stroke: style('share'), fill: style('share'), paths: bars, points: {show: false}},
        {stroke: style('allocated'), fill: style('allocated'), paths: bars, points: {show: false}}],
      hooks: {setCursor: [(u) => this.hover(u.cursor.idx)]},
    }, [live.map((_, k) => k), live.map((i) => space.size[i]), live.map((i) => space.requested[i])], this.target);
    this.plot.over.addEventListener('click', () => this.plot.cursor.idx != null && this.picked(this.live[this.plot.cursor.idx]));
  }

  hover(k) {
    const i = this.live[k];
    if (i === undefined) return;
    const {space} = this, site = space.capture.sites[space.site[i]], waste = space.size[i] - space.requested[i];
    this.text.textContent = [`${count(k + 1)} of ${count(this.live.length)}`, site.instr || space.capture.siteName(site.id), site.op, site.shape, bytes(space.size[i]),
      waste ? `${bytes(waste)} padding (${percent(waste / space.size[i])})` : 'no padding'].filter(Boolean).join(' · ');
  }
}
