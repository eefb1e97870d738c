// The segments of PyTorch's allocator at an instant, with their blocks and holes, and the events that changed them. The state at an instant
// follows from the buffers and regions that are alive then.

import {ascending} from './order.js';
import {BEGIN_UNSEEN, lastUpTo} from './space.js';

// hasSegments reports whether a space has segments.
export const hasSegments = (space) => !space.static && space.addresses && space.regions.length > 0 && space.count > 0;

// segmentsAt returns the segments at t in the order of pools, streams and addresses: {kind, pool, stream, addr, size, used, blocks, holes}. Ranges
// of one expandable segment, which touch, are one. outside has the buffers that are in no segment.
export function segmentsAt(space, t) {
  const alive = space.regions.filter((r) => r.begin <= t && r.end > t);
  const order = ascending(Float64Array.from(alive, (r) => r.addr));
  const segments = [], byAddress = [];
  for (const i of order) {
    const {addr, size, kind, pool, stream, uses, small} = alive[i], last = byAddress[byAddress.length - 1];
    if (last && kind === 'expandable' && last.addr + last.size === addr && groupOf(last) === groupOf(alive[i])) last.size += size;
    else byAddress.push({kind, pool, stream, uses, small, addr, size, used: 0, blocks: [], holes: []});
  }
  const starts = Float64Array.from(byAddress, (s) => s.addr), outside = [];
  const live = space.liveAt(t), places = ascending(Float64Array.from(live, (i) => space.addr[i]));
  for (const k of places) {
    const i = live[k], segment = byAddress[lastUpTo(starts, space.addr[i])];
    if (!segment || space.addr[i] >= segment.addr + segment.size) {
      outside.push(i);
      continue;
    }
    segment.blocks.push(i);
    segment.used += space.size[i];
  }
  for (const segment of byAddress) segment.holes = holesOf(space, segment);
  segments.push(...byAddress.sort((a, b) => compare(groupOf(a), groupOf(b)) || a.addr - b.addr));
  return {segments, outside};
}

// groupOf returns the name of the pool and stream of a segment.
export function groupOf({kind, pool, stream, uses, small}) {
  return [`${kind === 'expandable' ? `expandable ${small ? 'small' : 'large'}` : kind || 'unnamed'} pool`, pool && `private ${pool}`, stream ? `stream ${stream}` : 'default stream', uses].filter(Boolean).join(', ');
}

const compare = (a, b) => (a < b ? -1 : a > b ? 1 : 0);

// holesOf returns the free ranges of a segment, each with the blocks below and above it, -1 for none.
function holesOf(space, segment) {
  const holes = [];
  let at = segment.addr, below = -1;
  const hole = (end, above) => { if (end > at) holes.push({addr: at, size: end - at, below, above, segment}); };
  for (const i of segment.blocks) {
    hole(space.addr[i], i);
    const end = space.addr[i] + space.size[i];
    if (end < at) continue; // a damaged capture: it lies in another
    at = end;
    below = i;
  }
  hole(segment.addr + segment.size, -1);
  return holes;
}

// Events are the instants at which a block or a segment was allocated or freed, or an allocation failed.
export class Events {
  constructor(space) {
    this.space = space;
    const times = (list) => Float64Array.from(list).sort();
    this.unseen = 0; // buffers from before the window come first
    while (this.unseen < space.count && (space.edge[this.unseen] & BEGIN_UNSEEN || space.begin[this.unseen] < 0)) this.unseen++;
    const inside = (t) => t > 0 && t < space.length;
    this.lists = [space.begin.subarray(this.unseen), space.endAt, times(space.regions.flatMap((r) => [r.begin, r.end].filter(inside))), times(space.ooms.map((m) => m.begin))];
  }

  // next returns the first event after t; null if there is none.
  next(t) {
    const after = this.lists.map((list) => list[lastUpTo(list, t) + 1]).filter((at) => at !== undefined && at < this.space.length);
    return after.length ? Math.min(...after) : null;
  }

  // previous returns the last event before t; null if there is none.
  previous(t) {
    const before = this.lists.map((list) => {
      let i = lastUpTo(list, t);
      while (i >= 0 && list[i] >= t) i--;
      return list[i];
    }).filter((at) => at !== undefined && at >= 0);
    return before.length ? Math.max(...before) : null;
  }

  // last returns the times of the n last changes up to t, in order.
  last(t, n) {
    const all = [];
    for (let at = this.space.length > t ? t : this.space.length - 1; at !== null && all.length < n; at = this.previous(at)) all.push(at);
    return all.reverse();
  }

  // freeSite returns the site of the free of a buffer, 0 if it was not recorded.
  freeSite(i) {
    const {freeSite, site} = this.space;
    return freeSite ? freeSite[i] || site[i] : 0;
  }

  // at returns what happened at t: {action, size, addr, buffer, site, stackOf}.
  at(t) {
    const {space} = this, found = [];
    for (let k = lastUpTo(space.endAt, t); k >= 0 && space.endAt[k] === t; k--) {
      const i = space.byEnd[k];
      found.push({action: 'freed', size: space.size[i], addr: space.addr[i], buffer: i, site: this.freeSite(i)});
    }
    for (const r of space.regions) {
      if (r.end === t && t < space.length) found.push({action: 'segment returned to the device', size: r.size, addr: r.addr, buffer: -1, site: 0});
      if (r.begin === t && t > 0) found.push({action: 'segment reserved', size: r.size, addr: r.addr, buffer: -1, site: 0});
    }
    for (let i = lastUpTo(space.begin, t); i >= this.unseen && space.begin[i] === t; i--) {
      found.push({action: 'allocated', size: space.size[i], addr: space.addr[i], buffer: i, site: space.site[i]});
    }
    for (const m of space.ooms) if (m.begin === t) found.push({action: 'request failed', size: m.requested, addr: -1, buffer: -1, site: m.site});
    return found;
  }
}
