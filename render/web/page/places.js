// The places of buffers on the axis of addresses. Unused memory between two segments, often
// terabytes, becomes a narrow gap.

import {ascending} from './order.js';
import {lastUpTo} from './space.js';

// placesOf returns the place of each buffer (of) and region (ofRegion), the total height,
// and a function from places to addresses.
export function placesOf(space) {
  const n = space.count, m = space.regions.length;
  const begin = new Float64Array(n + m), end = new Float64Array(n + m);
  for (let i = 0; i < n + m; i++) {
    begin[i] = i < n ? space.addr[i] : space.regions[i - n].addr;
    end[i] = begin[i] + (i < n ? space.size[i] : space.regions[i - n].size);
  }
  const order = ascending(begin);
  const bands = bandsOf(begin, end, order);
  const gap = bands.reduce((sum, band) => sum + band.end - band.begin, 0) / 100;
  let height = 0, last = 0;
  for (const band of bands) {
    if (band !== bands[0]) height += Math.min(gap, band.begin - last);
    band.place = height;
    height += band.end - band.begin;
    last = band.end;
  }
  const of = new Float64Array(n), ofRegion = new Float64Array(m);
  for (let k = 0, b = 0; k < n + m; k++) {
    const i = order[k];
    while (b + 1 < bands.length && bands[b + 1].begin <= begin[i]) b++;
    const place = bands[b].place + begin[i] - bands[b].begin;
    if (i < n) of[i] = place;
    else ofRegion[i - n] = place;
  }
  const placed = bands.map((band) => band.place);
  const address = (place) => {
    const band = bands[Math.max(0, lastUpTo(placed, place))];
    return band ? band.begin + place - band.place : place;
  };
  return {of, ofRegion, height, address, gaps: bands.length > 1};
}

// bandsOf merges ranges of addresses that touch.
function bandsOf(begin, end, order) {
  const bands = [];
  for (const i of order) {
    const band = bands[bands.length - 1];
    if (band && begin[i] <= band.end) band.end = Math.max(band.end, end[i]);
    else bands.push({begin: begin[i], end: end[i], place: 0});
  }
  return bands;
}
