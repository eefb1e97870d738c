// The graph of memory over time, like XProf's Memory Timeline Graph.

import {axes, cursor, follow, uPlot} from './chart.js';
import {Extremes} from './extremes.js';
import {bytes, since} from './format.js';
import {lastUpTo} from './space.js';
import {style} from './theme.js';

// UsageGraph shows the levels of a space. A click calls picked(t).
export class UsageGraph {
  constructor(parent, space, timeline, marks, picked) {
    this.parent = parent;
    this.space = space;
    this.timeline = timeline;
    this.marks = marks; // {time, buffer}
    this.picked = picked;
    this.make();
  }

  make() {
    this.plot?.destroy();
    const {space} = this;
    this.lines = linesOf(space);
    const shares = this.lines.some((line) => line.scale === 'share');
    this.plot = new uPlot({
      width: this.parent.clientWidth, height: 190, legend: {show: false}, cursor: cursor('time', false),
      scales: {x: {time: false, range: () => [this.timeline.from, this.timeline.to]}, y: {range: (u, low, high) => [0, Math.max(high, 1) * 1.12]}, share: {range: [0, 1]}},
      axes: axes(space, {share: shares}),
      series: [{}, ...this.lines.map((line) => ({label: line.name, scale: line.scale, stroke: style(line.color), width: line.width || 1.5, dash: line.dash,
        fill: line.fill && style(line.fill), paths: uPlot.paths.stepped({align: 1}), points: {show: false}}))],
      hooks: {draw: [(u) => this.drawMarks(u)], setSelect: [(u) => this.brushed(u)]},
    }, this.data(), this.parent);
    follow(this.plot, this.timeline);
    this.plot.over.addEventListener('click', (e) => this.picked(this.plot.posToVal(e.clientX - this.plot.over.getBoundingClientRect().left, 'x')));
  }

  // data returns the visible lines. Of the values in a pixel column it has the lowest, the
  // highest and the last, so that no peak is lost.
  data() {
    const {from, to} = this.timeline;
    const columns = Math.max(200, Math.round(this.parent.clientWidth * devicePixelRatio));
    const times = Float64Array.from([from, to, ...this.lines.flatMap((line) => shownTimes(line, from, to, columns))]).sort();
    const x = times.filter((t, i) => i === 0 || t !== times[i - 1]);
    return [x, ...this.lines.map((line) => valuesAt(line, x))];
  }

  update() {
    this.plot.setData(this.data());
  }

  resize() {
    this.plot.setSize({width: this.parent.clientWidth, height: 190});
    this.update();
  }

  redraw() {
    this.plot.redraw(false);
  }

  brushed(u) {
    if (u.select.width < 4) return;
    const from = u.posToVal(u.select.left, 'x'), to = u.posToVal(u.select.left + u.select.width, 'x');
    u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
    this.timeline.show(from, to);
  }

  drawMarks(u) {
    const {space} = this, {ctx} = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    ctx.clip();
    this.drawSteps(u);
    for (const oom of space.ooms) {
      line(u, oom.begin, style('bad'), [4, 3]);
      label(u, oom.begin, u.bbox.top + 12 * devicePixelRatio, oom.requested ? `OOM, ${bytes(oom.requested)} requested` : 'OOM', style('bad'));
    }
    this.drawPeak(u);
    if (this.marks.buffer !== null) this.drawBuffer(u, this.marks.buffer);
    if (this.marks.time !== null) line(u, this.marks.time, style('accent'), []);
    ctx.restore();
  }

  // drawSteps marks the starts of steps if there is room between them.
  drawSteps(u) {
    const visible = this.space.steps.filter((m) => m.begin >= this.timeline.from && m.begin <= this.timeline.to);
    if (visible.length < this.parent.clientWidth / 8) for (const step of visible) line(u, step.begin, style('grid'), [2, 4]);
  }

  drawPeak(u) {
    const {space} = this, {peak, curve} = space;
    const i = space.levelAt(peak);
    if (i < 0 || peak < this.timeline.from || peak > this.timeline.to) return;
    const y = u.valToPos(curve.bytes[i], 'y', true), below = space.ooms.some((oom) => oom.begin >= this.timeline.from && oom.begin <= this.timeline.to) ? 26 : 0;
    dot(u, peak, y, style('fg'));
    label(u, peak, Math.max(y - 6 * devicePixelRatio, u.bbox.top + below * devicePixelRatio), `peak ${bytes(curve.bytes[i])}`, style('fg'));
  }

  // drawBuffer marks where a buffer begins and ends on the curve, as XProf's buffer
  // charts do.
  drawBuffer(u, i) {
    const {space} = this;
    const begin = Math.max(space.begin[i], 0), end = Math.min(space.end[i], space.length);
    const x0 = u.valToPos(begin, 'x', true), x1 = u.valToPos(end, 'x', true);
    u.ctx.fillStyle = style('accent-soft');
    u.ctx.fillRect(x0, u.bbox.top, Math.max(x1 - x0, 1), u.bbox.height);
    for (const [t, text, row] of [[begin, 'allocated', 0], [end, end < space.length ? 'freed' : 'alive at the end', 1]]) {
      const level = space.curve.bytes[Math.max(0, space.levelAt(t))];
      line(u, t, style('accent'), [3, 3]);
      dot(u, t, u.valToPos(level, 'y', true), style('accent'));
      label(u, t, u.bbox.top + u.bbox.height - (5 + 14 * row) * devicePixelRatio, text, style('accent'));
    }
  }
}

// linesOf returns the lines of a graph of a space: {name, color, scale, at, values}.
export function linesOf(space) {
  const {curve, reserved, reported} = space;
  const lines = [];
  if (reserved.at.length && !space.static) lines.push({name: 'reserved', color: 'reserved', scale: 'y', at: reserved.at, values: reserved.bytes, fill: 'reserved-soft'});
  lines.push({name: space.static ? 'padded' : 'allocated', color: 'allocated', scale: 'y', at: curve.at, values: curve.bytes, fill: 'allocated-soft'});
  if (!space.usageOnly) lines.push({name: space.static ? 'unpadded' : 'requested', color: 'requested', scale: 'y', at: curve.at, values: curve.requested, width: 1, dash: [4, 3]});
  if (space.stack.length) lines.push({name: 'stack', color: 'stack', scale: 'y', at: space.stack.map(([at]) => Math.max(at, 0)), values: space.stack.map(([, n]) => n), width: 1});
  if (reported.fragmentation.some((share) => share >= 0)) {
    lines.push({name: 'fragmentation', color: 'share', scale: 'share', at: reported.at, values: reported.fragmentation, per: 1e6, width: 1});
  }
  return lines;
}

// shownTimes returns the times of a line for a picture with this number of columns: those
// of the lowest, the highest and the last value of each column.
export function shownTimes(line, from, to, columns) {
  const {at} = line;
  line.extremes ||= new Extremes(line.values);
  const times = [];
  const step = (to - from) / columns;
  for (let i = lastUpTo(at, from) + 1; i < at.length && at[i] <= to;) {
    const next = from + step * (Math.floor((at[i] - from) / step) + 1);
    const end = Math.max(lastUpTo(at, Math.min(next, to)) + 1, i + 1);
    const {low, high} = line.extremes.between(i, end);
    times.push(at[low], at[high], at[end - 1]);
    i = end;
  }
  return times;
}

// valuesAt returns the values of a line at these times, null before its first value.
export function valuesAt(line, times) {
  let i = 0;
  return Array.from(times, (t) => {
    i = lastUpTo(line.at, t, i);
    return i < 0 || line.values[i] < 0 ? null : line.values[i] / (line.per || 1);
  });
}

function line(u, t, color, dash) {
  const x = Math.round(u.valToPos(t, 'x', true)) + 0.5;
  u.ctx.strokeStyle = color;
  u.ctx.lineWidth = devicePixelRatio;
  u.ctx.setLineDash(dash.map((n) => n * devicePixelRatio));
  u.ctx.beginPath();
  u.ctx.moveTo(x, u.bbox.top);
  u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
  u.ctx.stroke();
  u.ctx.setLineDash([]);
}

function dot(u, t, y, color) {
  u.ctx.fillStyle = color;
  u.ctx.beginPath();
  u.ctx.arc(u.valToPos(t, 'x', true), y, 3.5 * devicePixelRatio, 0, 7);
  u.ctx.fill();
}

// label writes next to time t, on the side that has room.
function label(u, t, y, text, color) {
  const x = u.valToPos(t, 'x', true), pad = 6 * devicePixelRatio;
  u.ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  const width = u.ctx.measureText(text).width;
  const left = x + pad + width > u.bbox.left + u.bbox.width;
  u.ctx.fillStyle = color;
  u.ctx.textAlign = 'left';
  u.ctx.textBaseline = 'alphabetic';
  u.ctx.fillText(text, Math.max(u.bbox.left, left ? x - pad - width : x + pad), Math.max(y, u.bbox.top + 11 * devicePixelRatio));
}

// describe returns one line about a time.
export function describe(space, t) {
  const i = space.levelAt(t);
  const instruction = space.static && space.instructionAt(t);
  const parts = [instruction ? `${since(space, t)}: ${instruction}` : since(space, t)];
  if (i >= 0) parts.push(`${space.static ? 'padded' : 'allocated'} ${bytes(space.curve.bytes[i])}`);
  if (i >= 0 && !space.usageOnly) parts.push(`${space.static ? 'unpadded' : 'requested'} ${bytes(space.curve.requested[i])}`);
  const reserved = space.static ? null : space.reservedAt(t);
  if (reserved !== null) parts.push(`reserved ${bytes(reserved)}`);
  if (space.stack.length) parts.push(`stack ${bytes(space.stackAt(t))}`);
  const k = lastUpTo(space.reported.at, t);
  if (k >= 0 && space.reported.fragmentation[k] >= 0) parts.push(`fragmentation ${(space.reported.fragmentation[k] / 1e4).toFixed(1)} %`);
  return parts.join(' · ');
}
