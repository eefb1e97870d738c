// A space on an axis of events, however much time lies between them.

import {Extremes} from './extremes.js';
import {lastUpTo} from './space.js';

// byEvent returns a space whose n-th event is at n, as lifetime.Space.ByEvent does. Its field time is the space on its own axis.
export function byEvent(space) {
  const times = eventTimes(space), length = times.length + 1;
  const at = (t) => lastUpTo(times, t) + 1, end = (t) => (t >= space.length ? length : at(t));
  const all = (list) => {
    let near = 0;
    return new Float64Array(list).map((t) => (near = lastUpTo(times, t, near)) + 1);
  };
  const out = Object.assign(Object.create(Object.getPrototypeOf(space)), space, {
    time: space, times, length, unit: 'event', origin: 0n, peak: at(space.peak), begin: all(space.begin), endAt: all(space.endAt),
    end: space.end.map((t) => (t === Infinity ? t : at(t))), stack: space.stack.map(([t, bytes]) => [at(t), bytes]),
    regions: space.regions.map((r) => ({...r, begin: at(r.begin), end: end(r.end)})), marks: space.marks.map((m) => ({...m, begin: at(m.begin), end: at(m.end)})),
    reserved: {...space.reserved, at: all(space.reserved.at)}, reported: {...space.reported, at: all(space.reported.at)},
    timeOf: (t) => (t < 1 ? 0 : t >= length ? space.length : times[Math.round(t) - 1]), placeOf: end,
    instant: (t) => space.instant(out.timeOf(Math.round(t))),
  });
  out.curve = out.changes();
  out.extremes = new Extremes(out.curve.bytes);
  out.steps = out.marks.filter((m) => m.kind === 'step');
  out.ooms = out.marks.filter((m) => m.kind === 'oom');
  return out;
}

// eventTimes returns the distinct times after the beginning of the window at which something changes or an allocation fails.
function eventTimes({curve, regions, stack, ooms, length}) {
  const rest = [...regions.flatMap((r) => (r.end < length ? [r.begin, r.end] : [r.begin])), ...stack.map(([t]) => t), ...ooms.map((oom) => oom.begin)];
  const times = new Float64Array(curve.at.length + rest.length);
  times.set(curve.at);
  times.set(rest, curve.at.length);
  times.sort();
  return times.filter((t, i) => t > 0 && t !== times[i - 1]);
}
