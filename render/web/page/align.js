// One axis for two captures: by step if both have steps, else by the time since their windows began.

import {count, percent, span} from './format.js';
import {lastUpTo} from './space.js';

// Alignment maps places on the axis, from 0 to length, to times of each of two spaces, and back.
export class Alignment {
  constructor(spaces) {
    this.spaces = spaces;
    this.bySteps = spaces.every((s) => s.stepTimes.length > 1);
    this.word = spaces.some((s) => s.stepsInferred) ? 'iteration' : 'step';
    this.sameUnit = spaces[0].unit === spaces[1].unit;
    this.scales = spaces.map((s) => (this.bySteps ? stepScale(s) : {at: [0, this.sameUnit ? s.length : 1], times: [0, s.length]}));
    this.length = Math.max(...this.scales.map((scale) => scale.at[scale.at.length - 1]));
  }

  // timeAt returns the time of a space at a place; null after its end.
  timeAt(side, place) {
    const {at, times} = this.scales[side];
    if (place > at[at.length - 1]) return null;
    return Math.min(interpolate(at, times, place), this.spaces[side].length - 1);
  }

  placeOf(side, time) {
    const {at, times} = this.scales[side];
    return interpolate(times, at, time);
  }

  // name describes a place.
  name(place) {
    if (this.bySteps) return place < 1 ? `before the first ${this.word}` : `${this.word} ${count(Math.floor(place))}`;
    return this.sameUnit ? `+${span(Math.round(place), this.spaces[0].unit)}` : `${percent(place)} of the window`;
  }

  // describe says how the captures are aligned.
  describe() {
    if (this.bySteps) return `aligned by ${this.word}: ${this.spaces.map((s) => count(s.stepTimes.length)).join(' and ')}${this.word === 'step' ? '' : ', inferred from what recurs'}`;
    return this.sameUnit ? 'aligned by their starts: at least one has no steps' : 'aligned by the share of their recordings: they have different axes';
  }
}

// stepScale has a unit for what is before the first step, one for each step, and one for what follows the last: steps last no
// longer than twice the usual one.
function stepScale({stepTimes, length}) {
  const durations = stepTimes.slice(1).map((t, i) => t - stepTimes[i]).sort((a, b) => a - b);
  const last = stepTimes[stepTimes.length - 1], end = Math.min(length, last + 2 * durations[durations.length >> 1]);
  const at = [0, ...stepTimes.map((_, i) => i + 1), stepTimes.length + 1], times = [0, ...stepTimes, end];
  if (end < length) {
    at.push(stepTimes.length + 2);
    times.push(length);
  }
  return {at, times};
}

// interpolate returns the number of the second list at x between numbers of the first, which are sorted.
function interpolate(from, to, x) {
  const i = Math.max(0, Math.min(lastUpTo(from, x), from.length - 2)), wide = from[i + 1] - from[i];
  return to[i] + (wide > 0 ? Math.max(0, Math.min(1, (x - from[i]) / wide)) : 0) * (to[i + 1] - to[i]);
}
