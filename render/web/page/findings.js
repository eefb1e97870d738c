// The findings of a capture, each with a link that highlights its buffers.

import {el} from './dom.js';
import {bytes, several} from './format.js';

const most = 4; // findings beside the chart

// firstFindings returns the findings that are more than notes, without any the notes, for beside the chart, each with a link that highlights its
// buffers; null without any. It leaves out the failure that the page explains on top. The tab of findings has the others. without says what the peak
// of the space would be without its leaks. What the answer on top says is not said again.
export function firstFindings(capture, link, {without}) {
  const found = capture.findings.map((f, i) => [f, i]).filter(([f]) => !(f.failure && capture.ooms.length)), serious = found.filter(([f]) => f.severity !== 'info');
  const all = serious.length || capture.ooms.length || capture.plenty ? serious : found;
  if (!all.length) return null;
  const rest = capture.findings.length - Math.min(all.length, most);
  return el('div', {class: 'found'}, el('h2', {}, 'Findings'), el('ul', {class: 'first'}, all.slice(0, most).map(([f, i]) => el('li', {class: `finding ${f.severity}`}, el('p', {}, title(capture, f, i, link)),
    !capture.headline.includes(f.description) && el('p', {}, textOf(capture, f)), f.suggestions.length > 0 && !capture.headline.includes(f.suggestions[0].replace('the buffers', `the buffers of ${placeOf(capture, f)}`)) && el('p', {class: 'note'}, f.suggestions[0])))), without && el('p', {class: 'without'}, `${without[0].toUpperCase()}${without.slice(1)}.`), rest > 0 && el('p', {class: 'note'}, `${several(rest, 'more finding')} in the tab Findings`));
}

// findingsList returns the list: notes about other memory IDs than space are folded. link(finding) returns the address that
// shows a finding.
export function findingsList(capture, link, space) {
  if (!capture.findings.length) return el('p', {class: 'empty'}, 'No findings: no leak and no other problem was found.');
  const cards = [], others = [];
  capture.findings.forEach((f, i) => (space && f.severity === 'info' && f.space !== space.number ? others : cards).push(card(capture, f, i, link)));
  return el('div', {}, el('ol', {class: 'findings'}, cards),
    others.length > 0 && el('details', {class: 'others', open: !cards.length}, el('summary', {}, `${several(others.length, 'note')} about other memory`), el('ol', {class: 'findings'}, others)));
}

const placeOf = (capture, f) => (f.sites.length ? capture.siteName(f.sites[0]) : 'the whole memory');

// textOf returns the description of a finding without the place before it.
function textOf(capture, f) {
  const place = `${placeOf(capture, f)}: `;
  return f.description.startsWith(place) ? f.description.slice(place.length) : f.description;
}

// title returns the severity, the rule and the linked place of a finding.
function title(capture, f, i, link) {
  return [el('span', {class: `severity ${f.severity}`}, f.severity), ' ', f.rule.replaceAll('_', ' '), ': ', el('a', {href: link(i), class: 'light'}, placeOf(capture, f))];
}

function card(capture, f, i, link) {
  const figures = [bytes(f.bytes), several(f.count, 'buffer'), f.bytesPerStep > 0 && `${bytes(f.bytesPerStep)} per step`,
    f.confidence < 1 && `confidence ${Math.round(100 * f.confidence)} %`].filter(Boolean).join(' · ');
  return el('li', {class: `finding ${f.severity}`},
    el('h2', {}, title(capture, f, i, link)),
    el('p', {}, f.description), el('p', {class: 'note'}, `${capture.spaces[f.space].id} · ${figures}`),
    f.suggestions.length > 0 && el('ul', {}, f.suggestions.map((s) => el('li', {}, s))),
    f.evidence.length > 0 && el('details', {}, el('summary', {}, 'evidence'), el('dl', {class: 'facts'}, f.evidence.map(([name, text]) => [el('dt', {}, name.replaceAll('_', ' ')), el('dd', {}, text)]))));
}
