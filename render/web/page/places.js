// The places of buffers on the axis of addresses. Unused memory between two segments, often
// terabytes, becomes a narrow gap.

import {ascending} from './order.js';
import {lastUpTo} from './space.js';

// placesOf returns the place of each buffer (of) and region (ofRegion), the total height,
// and a function from places to addresses.
export function placesOf(space) {
  const {addr, size, count} = space, begin = [], end = [];
  let bands = [], starts = [];
  const add = (from, to) => {
    const band = bands[lastUpTo(starts, from)];
    if (band && to <= band.end) return;
    begin.push(from);
    end.push(to);
  };
  // Most buffers are in a region, or where others were before: only the few that the bands so far do not cover are sorted.
  for (const r of space.regions) add(r.addr, r.addr + r.size);
  for (const step of [Math.ceil(count / 4096), 1]) {
    bands = bandsOf(begin, end);
    starts = bands.map((band) => band.begin);
    for (let i = 0; i < count; i += step) add(addr[i], addr[i] + size[i]);
  }
  bands = bandsOf(begin, end);
  const gap = bands.reduce((sum, band) => sum + band.end - band.begin, 0) / 100;
  let height = 0, last = 0;
  for (const band of bands) {
    if (band !== bands[0]) height += Math.min(gap, band.begin - last);
    band.place = height;
    height += band.end - band.begin;
    last = band.end;
  }
  const placed = bands.map((band) => band.place);
  const address = (place) => {
    const band = bands[Math.max(0, lastUpTo(placed, place))];
    return band ? band.begin + place - band.place : place;
  };
  return {of: placesIn(bands, addr), ofRegion: placesIn(bands, space.regions.map((r) => r.addr)), height, address, gaps: bands.length > 1};
}

// placesIn returns the places of addresses in bands. (Float64Array.from with a function takes ten times as long.)
function placesIn(bands, addresses) {
  const places = new Float64Array(addresses.length), starts = bands.map((band) => band.begin);
  for (let i = 0; i < places.length; i++) {
    const band = bands[lastUpTo(starts, addresses[i])];
    places[i] = band.place + addresses[i] - band.begin;
  }
  return places;
}

// bandsOf merges ranges of addresses that touch.
function bandsOf(begin, end) {
  const bands = [];
  for (const i of ascending(begin)) {
    const band = bands[bands.length - 1];
    if (band && begin[i] <= band.end) band.end = Math.max(band.end, end[i]);
    else bands.push({begin: begin[i], end: end[i], place: 0});
  }
  return bands;
}
