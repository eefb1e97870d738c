// The common parts of all charts over time: axes, colours, and zooming and moving with the
// mouse. uPlot draws the charts.

import uPlot from './uplot/uPlot.esm.js';
import {bytes, timeTicks} from './format.js';
import {style} from './theme.js';

export {uPlot};

const binary = Array.from({length: 61}, (_, i) => 2 ** i);
const decimal = Array.from({length: 18}, (_, i) => [1, 2, 5].map((m) => m * 10 ** i)).flat();

const narrow = () => innerWidth <= 720; // a phone

// left returns the width on the left of a chart.
export const left = () => (narrow() ? 62 : 104);

// axes returns the axes of a chart of a space: time, and bytes.
export function axes(space, {grid = true, place = (n) => bytes(n), space: distance = 34} = {}) {
  const line = {stroke: style('grid'), width: 1, show: grid}, font = '11px system-ui, sans-serif';
  const common = {stroke: () => style('muted'), font, ticks: {stroke: style('grid'), size: 4}};
  return [
    {...common, grid: line, size: 26, space: 90, incrs: decimal, splits: (u, _, low, high, step) => ticksOf(space, low, high, step), values: (_, ticks) => timeTicks(space, ticks)},
    {...common, grid: line, size: () => left(), space: distance, incrs: binary, values: (_, ticks) => ticks.map(place)},
  ];
}

// ticksOf returns multiples of step: of the time since the window began, or of the
// numbers of events and instructions.
function ticksOf(space, low, high, step) {
  const origin = space.unit === 'ns' ? 0 : Number(space.origin);
  const ticks = [];
  for (let t = Math.ceil((low + origin) / step) * step - origin; t <= high; t += step) ticks.push(t);
  return ticks;
}

// Timeline is the part of the time that all charts of a space show.
export class Timeline {
  constructor(space, changed) {
    this.space = space;
    this.changed = changed;
    this.from = 0;
    this.to = space.length;
  }

  // show shows [from, to), kept inside the window.
  show(from, to) {
    const least = this.space.least ?? (this.space.unit === 'ns' ? 10 : 4);
    const length = Math.min(Math.max(to - from, Math.min(least, this.space.length)), this.space.length);
    from = Math.max(0, Math.min(from, this.space.length - length));
    if (from === this.from && from + length === this.to) return;
    this.from = from;
    this.to = from + length;
    this.changed();
  }

  // zoom changes the length by a factor and keeps the position of at.
  zoom(factor, at = (this.from + this.to) / 2) {
    this.show(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }

  // move moves by a share of the visible part.
  move(share) {
    const step = (this.to - this.from) * share;
    this.show(this.from + step, this.to + step);
  }

  whole() {
    this.show(0, this.space.length);
  }

  get zoomed() {
    return this.from > 0 || this.to < this.space.length;
  }
}

// cursor returns uPlot's mouse options: drag to zoom the time, with Alt the other axis if both, hold Shift (or the middle button) to
// move.
export function cursor(key, both) {
  const filtered = (u, target, handler) => (e) => {
    const other = both && e.altKey;
    Object.assign(u.cursor.drag, {x: !other, y: other});
    if (e.button === 0 && !e.shiftKey) handler(e);
    return null;
  };
  return {
    sync: {key, setSeries: false}, drag: {x: true, y: false, setScale: false, dist: 4},
    points: {show: false}, bind: {mousedown: filtered, dblclick: () => null}, y: both,
  };
}

// follow zooms a chart at the cursor by the wheel with Ctrl, which a pinch on a touchpad is too, and moves it by a drag with Shift or the
// middle button. vertical, if given, zooms and moves the other axis. The wheel alone scrolls the page.
export function follow(u, timeline, vertical) {
  const timeAt = (e) => u.posToVal(e.clientX - u.over.getBoundingClientRect().left, 'x');
  u.over.addEventListener('wheel', (e) => {
    const delta = e.deltaY || e.deltaX;
    if (!e.shiftKey && !e.ctrlKey && !e.metaKey && !(e.altKey && vertical)) return;
    e.preventDefault();
    if (e.shiftKey) timeline.move(Math.sign(delta) * 0.1);
    else if (e.altKey && vertical) vertical.zoom(1.2 ** Math.sign(delta), u.posToVal(e.clientY - u.over.getBoundingClientRect().top, 'y'));
    else timeline.zoom(1.2 ** Math.sign(delta), timeAt(e));
  }, {passive: false});
  u.over.addEventListener('mousedown', (e) => {
    if (e.button !== 1 && !(e.button === 0 && e.shiftKey)) return;
    e.preventDefault();
    const {from, to} = timeline, scale = (to - from) / u.over.clientWidth, start = {x: e.clientX, y: e.clientY};
    const range = vertical && {...vertical.range()};
    const drag = (m) => {
      timeline.show(from - (m.clientX - start.x) * scale, to - (m.clientX - start.x) * scale);
      if (range) vertical.moveFrom(range, (m.clientY - start.y) / u.over.clientHeight);
    };
    const stop = () => {
      removeEventListener('mousemove', drag);
      removeEventListener('mouseup', stop);
    };
    addEventListener('mousemove', drag);
    addEventListener('mouseup', stop);
  });
}
