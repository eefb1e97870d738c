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

const bandRows = 64; // rows whose areas are in memory at once
const least = 1e-6; // of a pixel: rounding, not a buffer
const near = 0.5; // of a pixel: a run of one colour is easier to see than dots

// byAddress puts every buffer at its address, for its lifetime. A pixel has one colour, so what it cannot show is owed to the pixels above
// it: in a column, the area of a colour is its bytes over time, within two pixels. So it is in package blocks. legend has the colours.
export function byAddress(space, view, places, {classes, rows}) {
  const {from, to, low, high, width, height} = view, {begin, end, size, count} = space;
  const pixels = new Int32Array(width * height), sx = width / (to - from), sy = height / (high - low);
  const x = (t) => (t - from) * sx, y = (place) => (place - low) * sy; // pixels from the left, and from the bottom
  const bands = Math.ceil(height / bandRows), seen = places.seen ||= [], n = new Uint32Array(bands); // buffers by band, and how many
  while (seen.length < bands) seen.push(new Int32Array(count));
  for (let i = 0; i < count && begin[i] < to; i++) {
    if (end[i] <= from) continue;
    const bottom = places.of[i], top = bottom + size[i];
    if (bottom >= high || top <= low) continue;
    const last = Math.min(Math.ceil((top - low) * sy / bandRows), bands);
    for (let k = Math.max(0, Math.floor((bottom - low) * sy / bandRows)); k < last; k++) seen[k][n[k]++] = i;
  }
  const owed = new Float64Array(width * (rows.length + 2));
  const band = new Band(width, rows.length);
  for (let first = 0; first < height; first += bandRows) {
    band.begin(first, Math.min(bandRows, height - first));
    space.regions.forEach((r, i) => {
      const place = places.ofRegion[i];
      if (r.begin < to && r.end > from && place < high && place + r.size > low) band.cover(x(r.begin), x(r.end), y(place), y(place + r.size), rows.length, REGION);
    });
    const some = seen[first / bandRows].subarray(0, n[first / bandRows]);
    for (let k = 0; k < some.length; k++) {
      const i = some[k];
      band.cover(x(begin[i]), x(end[i]), y(places.of[i]), y(places.of[i] + size[i]), classes[i], i);
    }
    for (let row = 0; row < band.rows; row++) band.choose(row, owed, pixels, (height - 1 - first - row) * width, classes);
  }
  return pixels;
}

// Band has for some rows of pixels, from the bottom up, which part of each pixel the buffers of each class cover, and last the regions.
class Band {
  constructor(width, kinds) {
    const cells = width * bandRows;
    Object.assign(this, {width, kinds, cells, parts: new Float32Array(cells * (kinds + 1)), ids: new Int32Array(cells * kinds), whole: new Int32Array(cells), touched: new Uint8Array(cells)});
  }

  begin(first, rows) {
    this.first = first;
    this.rows = rows;
    this.whole.fill(NOTHING);
    this.touched.fill(0);
    this.parts.fill(0);
  }

  // cover adds a rectangle with exact edges, in pixels from the left and from the bottom of the view.
  cover(left, right, bottom, top, kind, id) {
    const {width, rows, first, whole, parts, ids, touched} = this, at = kind * this.cells;
    left = Math.max(left, 0);
    right = Math.min(right, width);
    bottom = Math.max(bottom - first, 0);
    top = Math.min(top - first, rows);
    if (right <= left || top <= bottom) return;
    const inner = Math.ceil(left), until = Math.floor(right);
    for (let y = Math.floor(bottom); y < top; y++) {
      const high = Math.min(top, y + 1) - Math.max(bottom, y), row = y * width, full = high === 1 && until > inner;
      if (full && id === REGION) parts.fill(1, at + row + inner, at + row + until);
      else if (full) whole.fill(id, row + inner, row + until);
      for (let x = Math.floor(left); x < right; x++) {
        if (full && x >= inner) x = until;
        if (x >= right) break;
        parts[at + row + x] += high * (Math.min(right, x + 1) - Math.max(left, x));
        if (id !== REGION) ids[at + row + x] = id;
        touched[row + x] = 1;
      }
    }
  }

  // choose writes the buffers of a row to pixels. owed has for each column the area owed to each class, to regions and to nothing.
  choose(row, owed, pixels, out, classes) {
    const {width, kinds, cells, parts, ids, whole, touched} = this, reserved = cells * kinds, none = kinds + 1;
    let before = none; // the class on the left
    for (let x = 0, p = row * width; x < width; x++, p++) {
      if (whole[p] >= 0) {
        before = classes[pixels[out + x] = whole[p]];
        continue;
      }
      if (!touched[p]) {
        before = parts[reserved + p] > 0 ? kinds : none;
        pixels[out + x] = before === kinds ? REGION : NOTHING;
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
      if (x > 0 && again && owed[at + before] + near >= owed[at + best]) best = before;
      owed[at + best]--;
      before = best;
      pixels[out + x] = best < kinds ? ids[best * cells + p] : best === kinds ? REGION : NOTHING;
    }
  }
}
