// Computes the buffer at each pixel of the block view. Drawing, hovering and highlighting
// use this map, so their speed does not depend on the number of buffers.

import {Extremes} from './extremes.js';
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
  const {from, to, low, high, width, height} = view, {begin, end, size, count} = space, {of} = places;
  const pixels = new Int32Array(width * height), strip = new Strip(height, rows.length, classes);
  const live = places.live ||= new Int32Array(count), ends = places.ends ||= new Extremes(end); // live has n buffers of a strip that reach into the next one
  const buffers = {begin, end, size, of, from, low, sx: width / (to - from), sy: height / (high - low)};
  const regions = {...buffers, of: places.ofRegion};
  for (const key of ['begin', 'end', 'size']) regions[key] = Float64Array.from(space.regions, (r) => r[key]);
  let next = lastUpTo(begin, from) + 1, n = ends.above(from, next, live);
  for (let first = 0; first < width; first += stripColumns) {
    const before = n, until = strip.start(first, width), last = lastUpTo(begin, from + until / buffers.sx, next - 1) + 1;
    for (let i = 0; i < space.regions.length; i++) strip.cover(regions, i, rows.length, REGION);
    n = 0;
    for (let j = 0; j < before; j++) if (strip.cover(buffers, live[j], classes[live[j]], live[j])) live[n++] = live[j];
    for (; next < last; next++) if (strip.cover(buffers, next, classes[next], next)) live[n++] = next;
    strip.choose(pixels, width);
  }
  return pixels;
}

// Strip has for some columns of pixels, from the bottom up, which part of each pixel the buffers of each class cover, and the regions. What
// covers a part of a row in all columns is there once, in lines. Of the classes in a pixel or a line, seen has the bits of their numbers modulo 32.
class Strip {
  constructor(height, kinds, classes) {
    const cells = height * stripColumns, lists = (n) => ({parts: new Float32Array(n * (kinds + 1)), ids: new Int32Array(n * (kinds + 1)), seen: new Int32Array(n)});
    Object.assign(this, {height, kinds, classes, cells: lists(cells), lines: lists(height), whole: new Int32Array(cells),
      owed: new Float64Array(stripColumns * (kinds + 2)), left: new Uint16Array(height).fill(kinds + 1)}); // left: classes of the column before
  }

  // start empties the strip from the column first on, and returns the column after its last one.
  start(first, width) {
    this.whole.fill(NOTHING);
    for (const {parts, seen} of [this.cells, this.lines]) for (const list of [parts, seen]) list.fill(0);
    this.first = first;
    this.columns = Math.min(stripColumns, width - first);
    return first + this.columns;
  }

  // cover adds rectangle i of a list, of a class, with exact edges, and reports whether it goes on after the strip. Its arguments are no fractions:
  // a call with those would take three times as long.
  cover({begin, end, of, size, from, low, sx, sy}, i, kind, id) {
    const {columns, height, kinds, whole, first} = this;
    let left = (begin[i] - from) * sx - first, right = (end[i] - from) * sx - first; // pixels of the strip
    let bottom = (of[i] - low) * sy, top = bottom + size[i] * sy;
    const on = right > columns;
    if (left < 0) left = 0;
    if (on) right = columns;
    if (bottom < 0) bottom = 0;
    if (top > height) top = height;
    if (right <= left || top <= bottom) return on;
    const x0 = left | 0, until = right | 0, x1 = until < right ? until : until - 1, inner = left > x0 ? x0 + 1 : x0;
    const all = right - left === columns, bit = id === REGION ? 0 : 1 << kind, {parts, ids, seen} = all ? this.lines : this.cells;
    for (let y = bottom | 0; y < top; y++) {
      let high = 1;
      if (y < bottom) high -= bottom - y;
      if (y + 1 > top) high -= y + 1 - top;
      const full = high === 1 && bit && until > inner, p = all ? y : y * stripColumns + x0, last = all ? y : p + x1 - x0;
      if (full) whole.fill(id, y * stripColumns + inner, y * stripColumns + until);
      if (full && all) continue;
      for (let q = p; q <= last; q = full && q < last ? last : q + 1) {
        const at = q * (kinds + 1) + kind;
        parts[at] += high;
        ids[at] = id;
        seen[q] |= bit;
      }
      if (all) continue;
      parts[p * (kinds + 1) + kind] -= high * (left - x0);
      parts[last * (kinds + 1) + kind] -= high * (x1 + 1 - right);
    }
    return on;
  }

  // choose writes the buffers of the strip to pixels. owed has the area that a column owes to each class, to regions and to nothing.
  choose(pixels, width) {
    const {height, kinds, columns, first, whole, owed, left, classes, cells: {parts, ids, seen}, lines} = this, none = kinds + 1;
    owed.fill(0);
    for (let y = 0; y < height; y++) {
      const line = y * none, inLine = lines.seen[y], lineParts = lines.parts;
      let before = left[y];
      for (let x = 0, p = y * stripColumns, out = (height - 1 - y) * width + first; x < columns; x++, p++, out++) {
        if (whole[p] >= 0) {
          before = classes[pixels[out] = whole[p]];
          continue;
        }
        const cell = p * none, reserved = Math.min(parts[cell + kinds] + lineParts[line + kinds], 1);
        let bits = seen[p] | inLine, best = none;
        if (bits || reserved > least && reserved < 1 - least) {
          const at = x * (kinds + 2);
          let covered = 0, most = -Infinity, again = false;
          for (; bits; bits &= bits - 1) {
            for (let kind = 31 - Math.clz32(bits & -bits); kind < kinds; kind += 32) {
              const part = parts[cell + kind] + lineParts[line + kind];
              if (part <= least) continue;
              covered += part;
              const owe = owed[at + kind] += part;
              if (kind === before) again = true;
              if (owe <= most) continue;
              best = kind;
              most = owe;
            }
          }
          for (let kind = kinds, part = reserved - covered; kind <= none; kind++, part = 1 - Math.max(covered, reserved)) {
            if (part <= least) continue;
            const owe = owed[at + kind] += part;
            if (kind === before) again = true;
            if (owe <= most) continue;
            best = kind;
            most = owe;
          }
          if (again && first + x > 0 && owed[at + before] + near >= most) best = before;
          owed[at + best]--;
        } else if (reserved > least) best = kinds;
        before = best;
        pixels[out] = best < kinds ? parts[cell + best] ? ids[cell + best] : lines.ids[line + best] : best === kinds ? REGION : NOTHING;
      }
      left[y] = before;
    }
  }
}
