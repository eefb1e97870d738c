// What if the program were changed: what would lower its peak, and more changes to try.

import {button, el, replace} from './dom.js';
import {bytes} from './format.js';

// whatIf returns what memlane whatif tells of a space: what would lower its peak, the cheapest first, and changes to try, which may be filled
// later; each is null if nothing is known. chosen(saving) draws over the picture what would be in use then, null what was.
export function whatIf(space, chosen) {
  const {savings, needs, unchanged} = space, whole = Math.max(needs, ...(savings ?? []).map((s) => s.high)), buttons = [];
  const result = el('div', {role: 'status'}), select = el('select', {'aria-label': 'what if', onchange: () => choose(tries[select.value - 1] ?? null)});
  let tries = [];
  const peaks = (s) => `${bytes(needs)} → ${s.peak}`;
  const detailed = (s, head) => {
    const share = (n) => `${100 * n / Math.max(whole, s.high)}%`;
    return [el('p', {}, head), el('div', {class: 'scale', 'aria-hidden': 'true'}, el('i', {class: 'low', style: {width: share(s.low)}}), el('i', {class: 'high', style: {width: share(s.high - s.low)}})),
      el('p', {class: 'note'}, [`${s.change}.`, s.advice].filter(Boolean).join(' '))];
  };
  const choose = (s) => {
    const at = tries.indexOf(s);
    select.value = at + 1;
    replace(result, at >= 0 && detailed(s, peaks(s)));
    for (const [one, of] of buttons) one.ariaPressed = String(of === s);
    chosen(s);
  };
  const linked = (s) => {
    const one = button(peaks(s), 'draw over the picture what would be in use, and mark its buffers', () => choose(one.ariaPressed === 'true' ? null : s), {'aria-pressed': 'false', class: 'outlines'});
    buttons.push([one, s]);
    return one;
  };
  const switches = el('div', {class: 'switches', hidden: true}, el('div', {class: 'bar'}, el('h2', {}, 'What if'), select), result);
  if (space.tries) {
    space.tried().then((all) => {
      tries = all;
      switches.hidden = !all.length;
      replace(select, ['as recorded', ...all.map((s) => s.change.split(': ')[0])].map((text, i) => el('option', {value: i}, text)));
    });
  }
  return {
    lower: savings?.length > 0 ? el('div', {class: 'lower'}, el('h2', {}, 'What would lower the peak'), unchanged && el('p', {class: 'note'}, `${unchanged[0].toUpperCase()}${unchanged.slice(1)}.`),
      el('ul', {class: 'first'}, savings.map((s) => el('li', {}, detailed(s, s.line.length ? linked(s) : peaks(s)))))) : null,
    switches,
  };
}
