// Computes the buffer at each pixel of the block view. Drawing, hovering and highlighting
// use this map, so their speed does not depend on the number of buffers.

import {lastUpTo} from './space.js';

// Values of pixels without a buffer. Buffers are numbers from 0.
export const NOTHING = -1, BASE = -2, STACK = -3, REGION = -4;

// A view is the visible part of a space: times [from, to), and bytes or places [low, high),
// on width x height pixels.

// stacked puts the live buffers of each tier on top of each other, oldest first, so that the upper edge
// is the memory in use. A pixel column shows the time of its highest level, so no peak is
// lost. tiers are those of a legend.
export function stacked(space, view, tiers) {
  const {from, to, width} = view;
  let first = 0;
  return columns(space, view, tiers, (x) => {
    const begin = from + (to - from) * x / width, end = from + (to - from) * (x + 1) / width;
    if (end <= 0 || begin >= space.length) return null;
    first = Math.max(lastUpTo(space.curve.at, Math.max(begin, 0), first), 0);
    return highest(space, first, Math.max(begin, 0), end);
  });
}

// stackedAt is stacked for a list of times, each as wide as any other: the view has no from and to.
export function stackedAt(space, view, tiers, times) {
  return columns(space, view, tiers, (x) => times[Math.floor(x * times.length / view.width)]);
}

// columns puts the live buffers on top of each other at the time of each column of pixels. Times increase; null is outside of the window.
function columns(space, view, tiers, timeOf) {
  const {low, high, width, height} = view;
  const pixels = new Int32Array(width * height).fill(NOTHING);
  const live = tiers.map((tier) => new Stack(space, tier));
  const scale = height / (high - low);
  const rowOf = (bytes) => Math.max(0, Math.min(height, Math.round(height - (bytes - low) * scale)));
  const level = (row) => (height - row + 0.5) / scale + low;
  const column = new Int32Array(height).fill(NOTHING);
  let foot = -1;
  for (let x = 0; x < width; x++) {
    const t = timeOf(x);
    if (t === null) continue;
    let first = -1, changed = 0; // the lowest tier that changed, and the place in it
    live.forEach((stack, k) => {
      const at = stack.goTo(t);
      if (at >= 0 && first < 0) [first, changed] = [k, at];
    });
    const stackBytes = space.stackAt(t);
    if (foot !== space.base + stackBytes) {
      foot = space.base + stackBytes;
      first = changed = 0;
      column.fill(BASE, rowOf(space.base), rowOf(0));
      column.fill(STACK, rowOf(foot), rowOf(space.base));
    }
    if (first >= 0) paint(column, live, first, changed, foot, rowOf, level);
    for (let y = 0; y < height; y++) pixels[y * width + x] = column[y];
  }
  return pixels;
}

// paint fills a column with the buffers of stacks, starting with buffer k of the stack first. A pixel
// shows the first of its buffers. level(row) is the level that extends into the row above.
function paint(column, live, first, k, foot, rowOf, level) {
  for (const below of live.slice(0, first)) foot += below.bytes;
  let bottom = rowOf(k ? foot + live[first].tops[k - 1] : foot);
  for (const stack of live.slice(first)) {
    const {ids, tops, n} = stack;
    while (bottom > 0) {
      const enough = level(bottom) - foot;
      while (k < n && tops[k] < enough) k++;
      if (k === n) break;
      const top = Math.min(bottom - 1, rowOf(foot + tops[k]));
      column.fill(ids[k++], top, bottom);
      bottom = top;
    }
    foot += stack.bytes;
    k = 0;
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
  constructor(space, {buffers, ends}) {
    Object.assign(this, {space, buffers, ends, n: 0});
    this.ids = new Int32Array(1024);
    this.tops = new Float64Array(1024);
    this.next = 0; // place in buffers of the one to be born
    this.ended = 0; // place in ends
  }

  get bytes() {
    return this.n ? this.tops[this.n - 1] : 0;
  }

  // goTo moves to time t and returns the first place that changed, or -1.
  goTo(t) {
    const {buffers, ends, space: {begin, end, size}, n: before} = this;
    let {ended, next} = this, oldest = Infinity; // buffer that ended
    for (; ended < ends.length && end[ends[ended]] <= t; ended++) if (ends[ended] < oldest) oldest = ends[ended];
    const changed = this.placeOf(oldest);
    let n = changed;
    for (let k = changed; k < before; k++) {
      if (end[this.ids[k]] > t) this.ids[n++] = this.ids[k];
    }
    const left = n;
    for (; next < buffers.length && begin[buffers[next]] <= t; next++) {
      if (end[buffers[next]] <= t) continue;
      if (n === this.ids.length) this.grow();
      this.ids[n++] = buffers[next];
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

const stripColumns = 32; // columns of pixels whose areas are in memory at once
const least = 1e-6; // of a pixel: rounding, not a buffer
const near = 0.5; // of a pixel: a run of one colour is easier to see than dots

// byAddress puts every buffer at its address, for its lifetime. A pixel has one colour, so what it cannot show is owed to the pixels above
// it: in a column, the area of a colour is its bytes over time, within two pixels. So it is in package blocks. legend has the colours.
export function byAddress(space, view, places, {classes, rows}) {
  const {from, to, low, high, width, height} = view, {begin, end, size, count} = space;
  const pixels = new Int32Array(width * height), sx = width / (to - from), sy = height / (high - low);
  const live = places.live ||= new Int32Array(count), strip = new Strip(height, rows.length, classes); // live has n buffers of a strip that reach into the next one
  let next = 0, n = 0;
  for (; next < count && begin[next] <= from; next++) if (end[next] > from) live[n++] = next;
  for (let first = 0; first < width; first += stripColumns) {
    const until = strip.start(first, width), before = n;
    const left = (t) => (t - from) * sx - first, up = (place) => (place - low) * sy; // pixels from the left and from the bottom of the strip
    space.regions.forEach((r, i) => strip.cover(left(r.begin), left(r.end), up(places.ofRegion[i]), up(places.ofRegion[i] + r.size), rows.length, REGION));
    const add = (i) => {
      const right = left(end[i]), place = places.of[i];
      if (place < high && place + size[i] > low) strip.cover(left(begin[i]), right, up(place), up(place + size[i]), classes[i], i);
      if (right > until) live[n++] = i;
    };
    n = 0;
    for (let k = 0; k < before; k++) add(live[k]);
    for (; next < count && left(begin[next]) < until; next++) add(next);
    strip.choose(pixels, first, width);
  }
  return pixels;
}

// Strip has for some columns of pixels, from the bottom up, which part of each pixel the buffers of each class cover, and the regions.
class Strip {
  constructor(height, kinds, classes) {
    const cells = height * stripColumns;
    Object.assign(this, {height, kinds, cells, classes, parts: new Float32Array(cells * (kinds + 1)), ids: new Int32Array(cells * (kinds + 1)),
      whole: new Int32Array(cells), touched: new Uint8Array(cells), owed: new Float64Array(stripColumns * (kinds + 2)), left: new Uint16Array(height).fill(kinds + 1)}); // left: classes of the column before
  }

  // start empties the strip from the column first on, and returns how many columns it has.
  start(first, width) {
    this.whole.fill(NOTHING);
    for (const list of [this.touched, this.parts]) list.fill(0);
    return this.columns = Math.min(stripColumns, width - first);
  }

  // cover adds a rectangle of a class with exact edges, in pixels from the left and from the bottom.
  cover(left, right, bottom, top, kind, id) {
    const {whole, parts, ids, touched} = this, plane = kind * this.cells;
    if (left < 0) left = 0;
    if (right > this.columns) right = this.columns;
    if (bottom < 0) bottom = 0;
    if (top > this.height) top = this.height;
    if (right <= left || top <= bottom) return;
    const inner = Math.ceil(left), until = Math.floor(right);
    for (let y = Math.floor(bottom); y < top; y++) {
      const high = Math.min(top, y + 1) - Math.max(bottom, y), row = y * stripColumns, full = high === 1 && until > inner;
      if (full && id === REGION) parts.fill(1, plane + row + inner, plane + row + until);
      else if (full) whole.fill(id, row + inner, row + until);
      for (let x = Math.floor(left); x < right; x++) {
        if (full && x === inner) x = until;
        if (x >= right) break;
        const p = row + x;
        parts[plane + p] += high * (Math.min(right, x + 1) - Math.max(left, x));
        ids[plane + p] = id;
        touched[p] = 1;
      }
    }
  }

  // choose writes the buffers of the strip to pixels. owed has the area that a column owes to each class, to regions and to nothing.
  choose(pixels, first, width) {
    const {height, kinds, cells, parts, ids, whole, touched, owed, left, classes} = this, reserved = cells * kinds, none = kinds + 1;
    owed.fill(0);
    for (let y = 0; y < height; y++) {
      let before = left[y];
      for (let x = 0, p = y * stripColumns, out = (height - 1 - y) * width + first; x < this.columns; x++, p++, out++) {
        if (whole[p] >= 0) {
          before = classes[pixels[out] = whole[p]];
          continue;
        }
        if (!touched[p]) {
          before = parts[reserved + p] > 0 ? kinds : none;
          pixels[out] = before === kinds ? REGION : NOTHING;
          continue;
        }
        const at = x * (kinds + 2);
        let covered = 0, best = -1, again = false;
        for (let kind = 0; kind <= none; kind++) {
          const part = kind < kinds ? parts[kind * cells + p] : kind === kinds ? Math.min(parts[reserved + p], 1) - covered : 1 - Math.max(covered, parts[reserved + p]);
          if (part <= least) continue;
          if (kind < kinds) covered += part;
          owed[at + kind] += part;
          if (best < 0 || owed[at + kind] > owed[at + best]) best = kind;
          again ||= kind === before;
        }
        if (first + x > 0 && again && owed[at + before] + near >= owed[at + best]) best = before;
        owed[at + best]--;
        before = best;
        pixels[out] = best < kinds ? ids[best * cells + p] : best === kinds ? REGION : NOTHING;
      }
      left[y] = before;
    }
  }
}
