// Computes the buffer at each pixel of the block view. Drawing, hovering and highlighting
// use this map, so their speed does not depend on the number of buffers.

import {lastUpTo} from './space.js';

// Values of pixels without a buffer. Buffers are numbers from 0.
export const NOTHING = -1, BASE = -2, STACK = -3, REGION = -4;

// A view is the visible part of a space: times [from, to), and bytes or places [low, high),
// on width x height pixels.

// stacked puts the live buffers on top of each other, oldest first, so that the upper edge
// is the memory in use. A pixel column shows the time of its highest level, so no peak is
// lost.
export function stacked(space, view) {
  const {from, to, width} = view;
  let first = 0;
  return columns(space, view, (x) => {
    const begin = from + (to - from) * x / width, end = from + (to - from) * (x + 1) / width;
    if (end <= 0 || begin >= space.length) return null;
    first = Math.max(lastUpTo(space.curve.at, Math.max(begin, 0), first), 0);
    return highest(space, first, Math.max(begin, 0), end);
  });
}

// stackedAt is stacked for a list of times, each as wide as any other: the view has no from and to.
export function stackedAt(space, view, times) {
  return columns(space, view, (x) => times[Math.floor(x * times.length / view.width)]);
}

// columns puts the live buffers on top of each other at the time of each column of pixels. Times increase; null is outside of the window.
function columns(space, view, timeOf) {
  const {low, high, width, height} = view;
  const pixels = new Int32Array(width * height).fill(NOTHING);
  const live = new Stack(space);
  const scale = height / (high - low);
  const rowOf = (bytes) => Math.max(0, Math.min(height, Math.round(height - (bytes - low) * scale)));
  const level = (row) => (height - row + 0.5) / scale + low;
  const column = new Int32Array(height).fill(NOTHING);
  let foot = -1;
  for (let x = 0; x < width; x++) {
    const t = timeOf(x);
    if (t === null) continue;
    let changed = live.goTo(t);
    const stackBytes = space.stackAt(t);
    if (foot !== space.base + stackBytes) {
      foot = space.base + stackBytes;
      changed = 0;
      column.fill(BASE, rowOf(space.base), rowOf(0));
      column.fill(STACK, rowOf(foot), rowOf(space.base));
    }
    if (changed >= 0) paint(column, live, changed, foot, rowOf, level);
    for (let y = 0; y < height; y++) pixels[y * width + x] = column[y];
  }
  return pixels;
}

// paint fills a column with the buffers of a stack, starting with buffer first. A pixel
// shows the first of its buffers. level(row) is the level that extends into the row above.
function paint(column, live, first, foot, rowOf, level) {
  const {ids, tops, n} = live;
  let bottom = rowOf(first ? foot + tops[first - 1] : foot);
  for (let k = first; bottom > 0;) {
    const enough = level(bottom) - foot;
    while (k < n && tops[k] < enough) k++;
    if (k === n) break;
    const top = Math.min(bottom - 1, rowOf(foot + tops[k]));
    column.fill(ids[k++], top, bottom);
    bottom = top;
  }
  column.fill(NOTHING, 0, bottom);
}

// highest returns the time of the highest level in [begin, end); first is the level at begin.
function highest(space, first, begin, end) {
  const {at} = space.curve;
  let last = lastUpTo(at, end, first);
  if (at[last] === end) last--;
  if (last <= first) return begin;
  const {high} = space.extremes.between(first, last + 1);
  return high === first ? begin : at[high];
}

// Stack is the list of live buffers at a time that only increases, with the top of each.
// It recomputes only buffers above a change.
class Stack {
  constructor(space) {
    this.space = space;
    this.n = 0;
    this.ids = new Int32Array(1024);
    this.tops = new Float64Array(1024);
    this.next = 0; // buffer to be born
    this.ended = 0; // place in byEnd
  }

  // goTo moves to time t and returns the first place that changed, or -1.
  goTo(t) {
    const {begin, end, byEnd, endAt, count, size} = this.space, before = this.n;
    let {ended, next} = this, oldest = next; // buffer that ended
    if (!before) ended = lastUpTo(endAt, t, ended) + 1; // nothing is live that could end
    for (; ended < endAt.length && endAt[ended] <= t; ended++) if (byEnd[ended] < oldest) oldest = byEnd[ended];
    const changed = oldest < next ? this.placeOf(oldest) : before;
    let n = changed;
    for (let k = changed; k < before; k++) {
      if (end[this.ids[k]] > t) this.ids[n++] = this.ids[k];
    }
    const left = n;
    for (; next < count && begin[next] <= t; next++) {
      if (end[next] <= t) continue;
      if (n === this.ids.length) this.grow();
      this.ids[n++] = next;
    }
    const any = changed < before || n > left;
    Object.assign(this, {n, next, ended});
    const {ids, tops} = this;
    for (let k = changed, top = k ? tops[k - 1] : 0; k < n; k++) tops[k] = top += size[ids[k]];
    return any ? changed : -1;
  }

  // placeOf returns the place of the first buffer from i on. Buffers are in the order of their numbers.
  placeOf(i) {
    let low = 0, high = this.n;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.ids[middle] < i) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  grow() {
    const ids = new Int32Array(2 * this.ids.length), tops = new Float64Array(2 * this.ids.length);
    ids.set(this.ids);
    tops.set(this.tops);
    this.ids = ids;
    this.tops = tops;
  }
}

// byAddress puts every buffer at its address, for its lifetime. Each has at least one
// pixel.
export function byAddress(space, view, places) {
  const {from, to, low, high, width, height} = view, {begin, end, size, count} = space;
  const pixels = new Int32Array(width * height).fill(NOTHING);
  const sx = width / (to - from), sy = height / (high - low);
  const fill = (id, begin, end, bottom, top) => {
    const x0 = begin > from ? (begin - from) * sx | 0 : 0, x1 = end < to ? Math.max(x0 + 1, (end - from) * sx | 0) : width;
    const y1 = Math.min(height, Math.ceil(height - (bottom - low) * sy)), y0 = Math.max(0, Math.min(y1 - 1, Math.ceil(height - (top - low) * sy)));
    for (let row = y0 * width, last = y1 * width; row < last; row += width) {
      if (x1 - x0 < 8) for (let p = row + x0; p < row + x1; p++) pixels[p] = id;
      else pixels.fill(id, row + x0, row + x1);
    }
  };
  space.regions.forEach((r, i) => {
    const bottom = places.ofRegion[i], top = bottom + r.size;
    if (r.begin < to && r.end > from && bottom < high && top > low) fill(REGION, r.begin, r.end, bottom, top);
  });
  for (let i = 0; i < count && begin[i] < to; i++) {
    if (end[i] <= from) continue;
    const bottom = places.of[i], top = bottom + size[i];
    if (bottom < high && top > low) fill(i, begin[i], end[i], bottom, top);
  }
  return pixels;
}
