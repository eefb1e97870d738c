// How one peak became another: the peak before, what each group changed, the peak after.

import {el} from './dom.js';
import {bytes} from './format.js';
import {signed} from './growth.js';

const most = 6; // groups, as in package diff

// changesOf returns of groups, [name, difference], those that differ most, these first. The last one has what has no group, and what is
// less than a hundredth of the higher peak, as memlane diff tells it.
export function changesOf(all, levels) {
  const named = all.filter(([, change]) => change && Math.abs(change) >= Math.max(...levels) / 100).sort(([a, x], [b, y]) => Math.abs(y) - Math.abs(x) || (a < b ? -1 : 1)).slice(0, most);
  const rest = levels[1] - levels[0] - named.reduce((sum, [, change]) => sum + change, 0);
  return rest ? [...named, ['others', rest]] : named;
}

// waterfall draws changes between two levels, from top to bottom, on one scale from zero.
export function waterfall([before, after], changes) {
  let level = before;
  const rows = [['peak before', 0, before, 'level', bytes(before)]];
  for (const [name, change] of changes) {
    rows.push([name, Math.min(level, level + change), Math.abs(change), change > 0 ? 'grew' : 'shrank', signed(change)]);
    level += change;
  }
  rows.push(['peak after', 0, after, 'level', bytes(after)]);
  const highest = Math.max(1, ...rows.map(([, low, length]) => low + length)), share = (n) => `${Math.max(0, 100 * n / highest)}%`;
  return el('table', {class: 'waterfall', 'aria-label': 'from the peak before to the peak after'}, el('tbody', {}, rows.map(([name, low, length, kind, text]) =>
    el('tr', {}, el('th', {scope: 'row', title: name}, name), el('td', {}, el('i', {class: kind, style: {marginLeft: share(low), width: share(length)}})), el('td', {class: 'number'}, text)))));
}
