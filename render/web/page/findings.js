// The findings of a capture, each with a link that highlights its buffers.

import {el} from './dom.js';
import {bytes, several} from './format.js';

// findingsList returns the list. link(finding) returns the address that shows a finding.
export function findingsList(capture, link) {
  if (!capture.findings.length) return el('p', {class: 'empty'}, 'No findings: no leak and no other problem was found.');
  return el('ol', {class: 'findings'}, capture.findings.map((f, i) => card(capture, f, i, link)));
}

function card(capture, f, i, link) {
  const place = f.sites.length ? capture.siteName(f.sites[0]) : 'the whole memory';
  const figures = [bytes(f.bytes), several(f.count, 'buffer'), f.bytesPerStep > 0 && `${bytes(f.bytesPerStep)} per step`,
    `confidence ${Math.round(100 * f.confidence)} %`].filter(Boolean).join(' · ');
  return el('li', {class: `finding ${f.severity}`},
    el('h3', {}, el('span', {class: 'severity'}, f.severity), ' ', f.rule.replaceAll('_', ' '), ': ', el('a', {href: link(i), class: 'light'}, place)),
    el('p', {}, f.description), el('p', {class: 'note'}, `${capture.spaces[f.space].id} · ${figures}`),
    f.suggestions.length > 0 && el('ul', {}, f.suggestions.map((s) => el('li', {}, s))),
    f.evidence.length > 0 && el('details', {}, el('summary', {}, 'evidence'), el('dl', {class: 'facts'}, f.evidence.map(([name, text]) => [el('dt', {}, name.replaceAll('_', ' ')), el('dd', {}, text)]))));
}
