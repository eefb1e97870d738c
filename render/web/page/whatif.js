// What if the program were changed: what would lower its peak, and switches to try changes.

import {button, el, replace} from './dom.js';
import {bytes} from './format.js';

const most = 4; // changes beside the chart

// whatIf returns what memlane whatif tells of a space: what would lower its peak, the cheapest first, and switches, which may be filled later;
// each is null if nothing is known. outline(line, peak) draws over the picture what would be in use then, null what was.
export function whatIf(space, outline) {
  const {savings, info} = space, whole = Math.max(info.peak.bytes, ...(savings ?? []).map((s) => s.high)), buttons = [], switches = el('div', {class: 'switches'});
  let reset = () => {}; // sets the switches to the recording
  const press = (pressed) => { for (const one of buttons) one.ariaPressed = String(one === pressed); };
  const peaks = (s) => (s.peak ? `${bytes(info.peak.bytes)} → ${s.peak}` : 'not known');
  const linked = (s) => {
    const one = button(peaks(s), 'draw over the picture what would be in use', () => {
      const chosen = one.ariaPressed !== 'true';
      reset();
      press(chosen && one);
      outline(chosen ? s.line : null, s.peak);
    }, {'aria-pressed': 'false', class: 'outlines'});
    buttons.push(one);
    return one;
  };
  const detailed = (s, head) => {
    const share = (n) => `${100 * n / Math.max(whole, s.high)}%`;
    return [el('p', {}, head), s.peak && el('div', {class: 'scale', 'aria-hidden': 'true'}, el('i', {class: 'low', style: {width: share(s.low)}}), el('i', {class: 'high', style: {width: share(s.high - s.low)}})),
      el('p', {class: 'note'}, [`${s.change}.`, s.advice].filter(Boolean).join(' '))];
  };
  const show = ({choices, switched}) => {
    if (!choices.length) return;
    const result = el('div', {role: 'status'});
    const choose = () => {
      const n = selects.reduce((n, select) => n * select.length + Number(select.value), 0), s = n > 0 && switched[n];
      press(null);
      replace(result, s && detailed(s, peaks(s)));
      outline(s && s.line, s && s.peak);
    };
    const selects = choices.map(([name, ...edits]) => el('select', {'aria-label': name, onchange: choose},
      ['as recorded', ...edits.map((edit) => edit.split('=')[1])].map((text, i) => el('option', {value: i}, text))));
    reset = () => {
      for (const select of selects) select.value = '0';
      replace(result);
    };
    replace(switches, el('div', {class: 'bar'}, el('h2', {}, 'What if'), selects.map((select) => el('label', {}, el('span', {}, select.ariaLabel), select))), result);
  };
  if (space.switches) space.tried().then(show);
  return {
    lower: savings?.length > 0 ? el('div', {class: 'lower'}, el('h2', {}, 'What would lower the peak'),
      el('ul', {class: 'first'}, savings.slice(0, most).map((s) => el('li', {}, detailed(s, s.line.length ? linked(s) : peaks(s)))))) : null,
    switches: space.switches ? switches : null,
  };
}
