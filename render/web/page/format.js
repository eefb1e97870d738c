// Formats sizes and times like package units.

const sizes = ['KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

// bytes returns a size with three digits: "4.00 MiB".
export function bytes(n) {
  const size = Math.abs(n);
  if (size < 1024) return `${n} B`;
  let power = 1;
  let value = size / 1024;
  for (; value >= 999.5 && power < sizes.length; power++) value /= 1024;
  return `${n < 0 ? '-' : ''}${threeDigits(value)} ${sizes[power - 1]}`;
}

function threeDigits(value) {
  return value.toFixed(Math.abs(value) >= 99.95 ? 0 : Math.abs(value) >= 9.995 ? 1 : 2);
}

// exact returns a size, with the exact number of bytes if it is rounded.
export function exact(n) {
  return Math.abs(n) < 1024 ? bytes(n) : `${bytes(n)} (${count(n)} B)`;
}

// whole keeps numbers and their units on one line.
export const whole = (text) => text.replace(/(\d) (?=(?:[KMGTPE]i)?B\b|%|[nµm]?s\b)/g, '$1\u00a0');

export function count(n) {
  return Math.round(n).toLocaleString('en-US');
}

// several returns a number of things: "1 buffer", "1,200 buffers".
export function several(n, thing) {
  return `${count(n)} ${thing}${n === 1 ? '' : 's'}`;
}

export function percent(share) {
  return `${(100 * share).toFixed(1)} %`;
}

const times = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs']];

// span returns a length on an axis: nanoseconds as "65.2 ms", other units as a count.
export function span(n, unit) {
  if (unit !== 'ns') return several(n, unit);
  for (const [size, name] of times) {
    const value = n / size;
    if (Math.abs(value) >= 0.9995) return `${threeDigits(value)} ${name}`;
  }
  return `${Math.round(n)} ns`;
}

// since returns a time of a space, relative to the start of its window.
export function since(space, t) {
  if (space.unit === 'ns') return `+${span(t, 'ns')}`;
  const at = Number(space.origin) + t;
  if (space.times) return `event ${count(t)} (+${span(space.timeOf(t), 'ns')})`;
  if (space.static) return at < 0 ? 'the beginning' : `instruction ${count(at)}`;
  return `${space.unit} ${count(at)}`;
}

// timeTicks formats the ticks of a time axis, in one unit and with as many digits as their
// distance needs.
export function timeTicks(space, ticks) {
  if (space.unit !== 'ns') return ticks.map((t) => (Number.isInteger(t) ? count(Number(space.origin) + t) : ''));
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : Math.abs(ticks[0]) || 1;
  const most = Math.max(...ticks.map(Math.abs), step);
  const [size, name] = times.find(([size]) => most >= size) || [1, 'ns'];
  const digits = Math.max(0, Math.ceil(-Math.log10(step / size) - 1e-9));
  return ticks.map((t) => `${(t / size).toFixed(Math.min(digits, 9))} ${name}`);
}
