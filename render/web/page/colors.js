// Colours of buffers, for people with common colour blindnesses too.

import {BASE, NOTHING, REGION, STACK} from './raster.js';

const palette = ['#77aadd', '#ddcc77', '#88ccaa', '#b5a2d8', '#99ddff', '#aaaa55', '#f0b6c8', '#8c9db5'];
export const shades = ['#cfe3f3', '#9cc9e2', '#62a4cf', '#3778b4', '#1c4c86'];
const sizeLimits = [64 * 2 ** 10, 2 ** 20, 16 * 2 ** 20, 256 * 2 ** 20, Infinity];
const sizeNames = ['up to 64 KiB', '64 KiB to 1 MiB', '1 MiB to 16 MiB', '16 MiB to 256 MiB', 'over 256 MiB'];
const hatches = ['#d1495b', '#e08e2b', '#a23b72', '#8a5a2b', '#6d4c5b'], otherFill = '#b9c0c8';

export const modes = {site: 'call site', size: 'size', category: 'category', leak: 'leaks'};

// Legend has the colour of each buffer in one mode, and the meaning of the colours.
export class Legend {
  constructor(space, mode, findings) {
    this.space = space;
    this.rows = []; // {name, fill, sites, bytes at the peak, leak}
    const make = {site: () => this.bySite(findings), size: () => this.bySize(), category: () => this.byCategory(), leak: () => this.byLeak(findings)};
    const classOf = make[mode]();
    this.classes = new Uint8Array(space.count); // of each buffer: its row
    for (let i = 0; i < space.count; i++) this.classes[i] = classOf(i);
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
  bySite(findings) {
    return this.ranked(findings, palette);
  }

  byLeak(findings) {
    return this.ranked(findings, []);
  }

  ranked(findings, fills) {
    const {space} = this, leaking = leaks(space, findings);
    const classes = new Uint8Array(space.capture.sites.length);
    const names = byName(space).sort((a, b) => b.weight - a.weight || (a.name < b.name ? -1 : 1));
    for (const one of names) one.leak = one.sites.some((site) => leaking.has(site));
    let owned = 0, leak = 0, otherLeaks = -1, other = -1;
    for (const one of [...names.filter((n) => n.leak), ...names.filter((n) => !n.leak)]) {
      let row;
      if (one.leak && leak < hatches.length - 1) row = this.row(one.name, hatches[leak++], one);
      else if (one.leak) row = otherLeaks = this.join(otherLeaks, 'other leaks', hatches[leak], one);
      else if (owned < fills.length) row = this.row(one.name, fills[owned++], one);
      else row = other = this.join(other, fills.length ? 'other' : 'everything else', otherFill, one);
      for (const site of one.sites) classes[site] = row;
    }
    return (i) => classes[space.site[i]];
  }

  bySize() {
    sizeNames.forEach((name, i) => this.row(name, shades[i]));
    return (i) => sizeLimits.findIndex((limit) => this.space.size[i] <= limit);
  }

  byCategory() {
    const {space} = this;
    const rows = new Map();
    const nameOf = (i) => space.categoryOf(space.rowOf(i)) || 'no category recorded';
    for (let i = 0; i < space.count; i++) {
      const name = nameOf(i);
      if (!rows.has(name)) rows.set(name, this.row(name, name === 'no category recorded' || name === 'unknown' ? otherFill : palette[rows.size % palette.length]));
    }
    return (i) => rows.get(nameOf(i));
  }
}

// leaks returns the sites of a space that findings call leaks.
function leaks(space, findings) {
  return new Set(findings.filter((f) => f.leak && f.space === space.number).flatMap((f) => f.sites));
}

// byName returns the sites of a space by name, the bytes of each name at the peak, and as
// weight these bytes or the size of the largest buffer, whichever is more.
function byName(space) {
  const bytes = new Float64Array(space.capture.sites.length), largest = new Float64Array(bytes.length), used = new Uint8Array(bytes.length);
  for (let i = 0; i < space.count; i++) {
    used[space.site[i]] = 1;
    bytes[space.site[i]] += space.aliveAt(i, space.peak) ? space.size[i] : 0;
    largest[space.site[i]] = Math.max(largest[space.site[i]], space.size[i]);
  }
  const names = new Map();
  for (let site = 0; site < used.length; site++) {
    if (!used[site]) continue;
    const name = space.capture.siteName(site);
    if (!names.has(name)) names.set(name, {name, sites: [], bytes: 0, weight: 0});
    const one = names.get(name);
    one.sites.push(site);
    one.bytes += bytes[site];
    one.weight = Math.max(one.weight, one.bytes, largest[site]);
  }
  return [...names.values()];
}

// Colours of areas without buffers, for light and dark pages.
export function grounds(dark) {
  return {
    [NOTHING]: dark ? '#16181d' : '#ffffff', [BASE]: dark ? '#59616b' : '#9aa3ad', [STACK]: dark ? '#6e6860' : '#b8b1a7', [REGION]: dark ? '#2b2f37' : '#e6e9ed',
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
