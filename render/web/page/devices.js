// The devices and ranks of a page: a strip of buttons, each with its curve on one scale, its peak, and a dot on one that ran out of memory.

import {el} from './dom.js';
import {bytes, several} from './format.js';
import {captureNames} from './select.js';

const curveWidth = 96, curveHeight = 20; // pixels of the longest recording
const most = 64;

// devices returns the strip of all recorded spaces of captures; null if there is only one. open(space) shows a space.
export function devices(captures, shown, open) {
  const all = captures.flatMap((c) => c.spaces).filter((s) => s.spark.length > 0);
  if (all.length < 2) return null;
  const names = captureNames(captures), peak = Math.max(...all.map((s) => s.info.peak.bytes), 1);
  const longest = (unit) => Math.max(...all.filter((s) => s.unit === unit).map((s) => s.length));
  const alike = common(all.map((s) => s.id)), file = (s) => (captures.length > 1 ? `${names.get(s.capture)} ` : '');
  const one = (s) => {
    const died = s.ooms.length > 0, text = `${file(s)}${s.id}: peak ${bytes(s.info.peak.bytes)}${died ? ', ran out of memory' : ''}`;
    return el('button', {type: 'button', class: 'device', title: text, 'aria-current': s === shown ? 'true' : null, onclick: () => open(s)},
      el('span', {class: 'device-name'}, died && el('i', {class: 'dead'}), file(s) + s.id.slice(alike)),
      el('i', {class: 'spark', style: {width: `${Math.max(8, curveWidth * s.length / longest(s.unit))}px`, height: `${curveHeight}px`, clipPath: outline(s.spark, peak)}}),
      el('span', {class: 'device-peak'}, bytes(s.info.peak.bytes)));
  };
  const first = [...all].sort((a, b) => (b.ooms.length > 0) - (a.ooms.length > 0) || b.info.peak.bytes - a.info.peak.bytes).slice(0, most);
  return el('nav', {class: 'devices', 'aria-label': 'devices'}, all.filter((s) => first.includes(s)).map(one),
    all.length > first.length && el('span', {class: 'note'}, `${several(all.length - first.length, 'memory ID')} with lower peaks not drawn`));
}

// common returns the length of the parts, each with its slash, that all names begin with.
function common([first, ...others]) {
  let length = 0;
  for (let at = first.indexOf('/'); at >= 0 && others.every((name) => name.startsWith(first.slice(0, at + 1))); at = first.indexOf('/', at + 1)) length = at + 1;
  return length;
}

// outline returns the area below levels, at equal distances, as a shape of CSS.
function outline(levels, peak) {
  const points = ['0 100%'];
  levels.forEach((level, i) => {
    const y = `${(100 - 100 * level / peak).toFixed(1)}%`;
    points.push(`${(100 * i / levels.length).toFixed(2)}% ${y}`, `${(100 * (i + 1) / levels.length).toFixed(2)}% ${y}`);
  });
  return `polygon(${[...points, '100% 100%'].join(', ')})`;
}
