// Colours of buffers, for people with common colour blindnesses too.

import {BASE, NOTHING, REGION, STACK} from './raster.js';
import {style} from './theme.js';

// The colours of packages plot and blocks, so that pictures and page agree; a test compares them.
const palette = ['#518fd5', '#eecd73', '#126f54', '#9db4e0', '#bdf8c4', '#b09547', '#887991', '#475079'];
const categories = {
  parameter: '#065744', gradient: '#087abd', optimizer_state: '#ebcd8e', activation: '#faac55', temporary: '#8ea2d2',
  buffer: '#aae1fe', input: '#273044', workspace: '#626d28', bucket: '#967385', cache: '#5d317a', leaked: '#ee686c',
  output: '#967385', constant: '#aae1fe', 'thread-local': '#626d28',
};
const unknownFill = '#b9b2b4', otherFill = '#d8dce1';
export const shades = ['#dcebf7', '#97c4e0', '#5a9fcd', '#3574b0', '#1c4780'];
const sizeLimits = [64 * 2 ** 10, 2 ** 20, 16 * 2 ** 20, 256 * 2 ** 20, Infinity];
const sizeNames = ['up to 64 KiB', '64 KiB to 1 MiB', '1 MiB to 16 MiB', '16 MiB to 256 MiB', 'over 256 MiB'];
const hatches = ['#d1495b', '#e08e2b', '#9a3a86', '#6e3f12', '#4a3a42'];

export const modes = {site: 'call site', size: 'size', category: 'category', leak: 'leaks'};

// usualColor returns the colours to use if the user chooses none.
export const usualColor = (space) => (space.categories ? 'category' : space.sizes ? 'size' : 'site');

// Legend has the colour of each buffer in one mode, and the meaning of the colours.
export class Legend {
  constructor(space, mode) {
    this.space = space;
    this.mode = mode;
    this.rows = []; // {name, fill, sites, bytes at the peak, leak}
    const make = {site: () => this.bySite(), size: () => this.bySize(), category: () => this.byCategory(), leak: () => this.byLeak()};
    const classOf = make[mode]();
    this.classes = new Uint8Array(space.count); // of each buffer: its row
    for (let i = 0; i < space.count; i++) this.classes[i] = classOf(i);
  }

  // tiers returns the buffers in tiers, the lowest first, each with those that end in the order of their ends, as package blocks stacks them: by
  // category, or if most of the picture would be stripes, those that live longest are at the bottom. px are pixels per byte.
  tiers(px) {
    if (this.stacks) return this.stacks;
    const {space, classes, rows, mode} = this, area = rows.map(() => 0), held = rows.map(() => 0);
    let all = 0, stripes = 0;
    for (let i = 0; i < space.count; i++) {
      const one = space.size[i] * (Math.min(space.end[i], space.length) - Math.max(space.begin[i], 0));
      area[classes[i]] += one;
      held[classes[i]] += space.size[i];
      all += one;
      if (space.size[i] * px < 4) stripes += one;
    }
    const life = (k) => area[k] / Math.max(held[k], 1), order = [...rows.keys()].sort((a, b) => life(b) - life(a) || a - b);
    const leaking = mode === 'leak' && rows.some((row) => row.leak);
    const tiers = rows.map((row, k) => (leaking ? Number(!row.leak) : mode === 'category' || mode !== 'leak' && stripes >= all / 2 ? order.indexOf(k) : 0));
    this.tierOf = (i) => tiers[classes[i]];
    const parts = (n, of) => {
      const counts = rows.map(() => 0);
      for (let k = 0; k < n; k++) counts[this.tierOf(of(k))]++;
      const out = counts.map((n) => new Uint32Array(n));
      counts.fill(0);
      for (let k = 0; k < n; k++) {
        const tier = this.tierOf(of(k));
        out[tier][counts[tier]++] = of(k);
      }
      return out;
    };
    const ends = parts(space.byEnd.length, (k) => space.byEnd[k]);
    return this.stacks = parts(space.count, (i) => i).map((buffers, k) => ({buffers, ends: ends[k]})).filter(({buffers}) => buffers.length);
  }

  row(name, fill, {sites = [], bytes = 0, leak = false} = {}) {
    this.rows.push({name, fill, sites: [...sites], bytes, leak});
    return this.rows.length - 1;
  }

  // join adds sites to a row, or to a new row if row is -1.
  join(row, name, fill, {sites, bytes, leak}) {
    if (row < 0) return this.row(name, fill, {sites, bytes, leak});
    this.rows[row].sites.push(...sites);
    this.rows[row].bytes += bytes;
    return row;
  }

  // bySite gives leaks and the largest sites separate colours.
  bySite() {
    return this.ranked(palette);
  }

  byLeak() {
    return this.ranked([]);
  }

  ranked(fills) {
    const {space} = this, leaking = new Uint8Array(space.count);
    space.leaks.reduce((last, step) => { leaking[last + step] = 1; return last + step; }, 0);
    const classes = new Uint8Array(2 * space.capture.sites.length);
    const names = byName(space, leaking).sort((a, b) => b.bytes - a.bytes || b.area - a.area || (a.name < b.name ? -1 : 1));
    let owned = 0, leak = 0, otherLeaks = -1, other = -1;
    for (const one of [...names.filter((n) => n.leak), ...names.filter((n) => !n.leak)]) {
      let row;
      if (one.leak && leak < hatches.length - 1) row = this.row(one.name, hatches[leak++], one);
      else if (one.leak) row = otherLeaks = this.join(otherLeaks, 'other leaks', hatches[leak], one);
      else if (owned < fills.length) row = this.row(one.name, one.unknown ? (owned++, unknownFill) : fills[owned++], one);
      else row = other = this.join(other, fills.length ? 'other' : 'everything else', otherFill, one);
      for (const site of one.sites) classes[2 * site + one.leak] = row;
    }
    return (i) => classes[2 * space.site[i] + leaking[i]];
  }

  bySize() {
    sizeNames.forEach((name, i) => this.row(name, shades[i]));
    return (i) => sizeLimits.findIndex((limit) => this.space.size[i] <= limit);
  }

  byCategory() {
    const {space} = this, bytes = new Map();
    const nameOf = (i) => space.categoryOf(space.rowOf(i)) || 'no category recorded';
    for (let i = 0; i < space.count; i++) bytes.set(nameOf(i), (bytes.get(nameOf(i)) ?? 0) + (space.aliveAt(i, space.peak) ? space.size[i] : 0));
    const names = [...bytes.keys()].sort((a, b) => bytes.get(b) - bytes.get(a) || (a < b ? -1 : 1));
    const rows = new Map(names.map((name) => [name, this.row(name.replaceAll('_', ' '), categoryFill(name), {bytes: bytes.get(name)})]));
    return (i) => rows.get(nameOf(i));
  }
}

// categoryFill returns the colour of a category, as plot.CategoryLook does.
function categoryFill(name) {
  if (name === 'no category recorded' || name === 'unknown') return unknownFill;
  let hash = 0;
  for (const byte of new TextEncoder().encode(name)) hash = Math.imul(31, hash) + byte >>> 0;
  return Object.hasOwn(categories, name) ? categories[name] : palette[hash % palette.length];
}

const unknown = new Set(['(not recorded)', 'allocated before the recording']);

// byName returns the sites of a space by name, parted in what leaks and what does not, with their bytes at the peak, and area: size times lifetime.
function byName(space, leaking) {
  const bytes = new Float64Array(2 * space.capture.sites.length), area = new Float64Array(bytes.length), used = new Uint8Array(bytes.length);
  for (let i = 0; i < space.count; i++) {
    const part = 2 * space.site[i] + leaking[i];
    used[part] = 1;
    bytes[part] += space.aliveAt(i, space.peak) ? space.size[i] : 0;
    area[part] += space.size[i] * (Math.min(space.end[i], space.length) - Math.max(space.begin[i], 0));
  }
  const names = [new Map(), new Map()];
  for (let part = 0; part < used.length; part++) {
    if (!used[part]) continue;
    const leak = part % 2, site = (part - leak) / 2, name = space.capture.siteName(site);
    if (!names[leak].has(name)) names[leak].set(name, {name, leak, sites: [], bytes: 0, area: 0, unknown: unknown.has(name)});
    const one = names[leak].get(name);
    one.sites.push(site);
    one.bytes += bytes[part];
    one.area += area[part];
  }
  return names.flatMap((of) => [...of.values()]);
}

// Colours of areas without buffers, for light and dark pages.
function grounds(dark) {
  return {
    [NOTHING]: style('picture'), [BASE]: dark ? '#59616b' : '#9aa3ad', [STACK]: dark ? '#6e6860' : '#b8b1a7', [REGION]: dark ? '#3a434f' : '#dde3ea',
  };
}

// pixelColor converts "#rrggbb" to a 32-bit number for ImageData.
export function pixelColor(hex, alpha = 255) {
  const n = parseInt(hex.slice(1), 16);
  return (alpha << 24 | (n & 255) << 16 | (n >> 8 & 255) << 8 | n >> 16) >>> 0;
}

// mix returns a mixture of two colours, with this share of the second.
export function mix(hex, other, share) {
  const a = parseInt(hex.slice(1), 16), b = parseInt(other.slice(1), 16);
  const part = (shift) => Math.round((a >> shift & 255) * (1 - share) + (b >> shift & 255) * share);
  return '#' + (part(16) << 16 | part(8) << 8 | part(0)).toString(16).padStart(6, '0');
}

// colored colours the map of pixels. The first pixels of a block that is large enough are darker, and leaks are hatched. If
// sites are highlighted, all others are paler.
export function colored(space, {width, height, pixels}, {legend, lit, buffer}) {
  const dark = style('scheme') === 'dark', grounded = grounds(dark), paper = grounded[-1];
  const ground = new Uint32Array(8); // by -id
  for (const [id, color] of Object.entries(grounded)) ground[-id] = pixelColor(color);
  const tones = new Uint32Array(8 * legend.rows.length); // of each row: the fill, its edge, its hatch; the same paler
  legend.rows.forEach(({fill, leak}, row) => {
    const colors = [fill, mix(fill, dark ? '#000000' : '#28323c', 0.35), leak ? mix(fill, '#ffffff', 0.35) : fill];
    [...colors, fill, ...[0.82, 0.7, 0.82].map((share) => mix(fill, paper, share))].forEach((color, k) => { tones[8 * row + k] = pixelColor(color); });
  });
  const chosen = pixelColor(style('accent')), pinned = buffer ?? -1;
  const {classes} = legend, {site} = space, thick = 3;
  const image = new ImageData(width, height), out = new Uint32Array(image.data.buffer);
  for (let y = 0, p = 0; y < height; y++) {
    const top = y > 0 && y + thick < height;
    for (let x = 0; x < width; x++, p++) {
      const id = pixels[p];
      if (id < 0) {
        out[p] = ground[-id];
        continue;
      }
      const edge = top && pixels[p - width] !== id && pixels[p + thick * width] === id || x > 0 && x + thick < width && pixels[p - 1] !== id && pixels[p + thick] === id;
      const tone = 8 * classes[id] + (lit !== null && !lit[id] ? 4 : 0);
      out[p] = id === pinned ? chosen : tones[tone + (edge ? 1 : (x + y & 7) < 2 ? 2 : 0)];
    }
  }
  return image;
}
