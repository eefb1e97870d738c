// The profile summary of a space: the figures of "memlane info".

import {broken, button, el} from './dom.js';
import {bytes, count, exact, percent, several, since, span, whole} from './format.js';

// headline returns the name of the capture and the answer: what to do, why, and what filled the memory, a line for each.
export function headline(capture) {
  const name = capture.name.split(/[\\/]/).pop();
  const [first, ...rest] = whole(capture.headline).split('\n').filter(Boolean);
  return el('div', {id: 'headline'}, el('h1', {title: capture.name}, broken(first ?? name)), rest.map((line) => el('p', {}, broken(line))));
}

const figure = (name, value, title, more, key) => el('div', {class: 'figure', title}, el('dt', {}, name), el('dd', {'data-figure': key ?? name}, value), more && el('dd', {class: 'more'}, more));
const figures = (all) => el('dl', {class: 'summary'}, all.filter(Boolean));

// summary returns the figures that answer most: four, fewer without a history. go(t) moves the page to time t.
export function summary(space, go) {
  const {info} = space;
  const peakLink = el('a', {href: '#', onclick: (e) => { e.preventDefault(); go(space.peak); }}, `at ${since(space, space.peak)}`);
  if (space.notRecorded) return figures([figure('in use at the end', bytes(info.end_bytes), exact(info.end_bytes), liveText(info), 'live'), idle(space)]);
  if (space.usageOnly && info.allocations + info.frees > 0) return figures([figure('rose by', bytes(info.peak.bytes), exact(info.peak.bytes), peakLink, 'peak'), recording(space)]);
  const full = info.limit_bytes === null ? '' : `${percent(info.peak.bytes / info.limit_bytes)} of the capacity of ${bytes(info.limit_bytes)}`;
  if (space.usageOnly && space.length <= 1) return figures([figure('in use', bytes(info.peak.bytes), exact(info.peak.bytes), full, 'peak'), idle(space)]); // of a text
  return figures([
    figure('peak', bytes(info.peak.bytes), exact(info.peak.bytes), el('span', {}, peakLink, full && `, ${full}`)),
    space.static ? bytes(info.peak.requested_bytes) !== bytes(info.peak.bytes) && figure('unpadded', bytes(info.peak.requested_bytes), 'without the bytes that the layout adds') : idle(space) ?? (bytes(info.peak.requested_bytes) !== bytes(info.peak.bytes) && figure('requested', bytes(info.peak.requested_bytes), exact(info.peak.requested_bytes), 'at most, by the program', 'requested')),
    figure('in use at the end', bytes(info.end_bytes), exact(info.end_bytes), !space.usageOnly && liveText(info), 'live'),
    recording(space),
  ]);
}

// recording returns the length of the recording.
function recording(space) {
  const {info, length, unit} = space.time ?? space;
  const parts = [info.steps && several(info.steps.count, 'step'), !space.static && !space.usageOnly && several(info.allocations, 'allocation')].filter(Boolean);
  return figure('recording', space.static ? several(length, 'position') : span(length, unit), `${info.begin} to ${info.end}`, parts.join(', '));
}

// idle returns what was reserved beyond the peak; null if that was not recorded.
function idle(space) {
  const {info, peakHoles} = space;
  if (info.reserved_peak_bytes === null) return null;
  const free = peakHoles && `${bytes(peakHoles.Total)} free${space.notRecorded ? '' : ' at the peak'}${peakHoles.Total ? `, largest piece ${bytes(peakHoles.Largest)}` : ''}`;
  return figure(space.notRecorded ? 'reserved at the end' : 'reserved at most', bytes(info.reserved_peak_bytes), exact(info.reserved_peak_bytes), free || null, 'reserved');
}

// allFigures returns the figures of a space that are not in its summary.
export function allFigures(space) {
  const {info} = space;
  return figures([
    figure('composition of the peak', ...makeUp(space)),
    !space.static && info.at_peak.categories.length > 0 && figure('peak by category', ...categories(info.at_peak)),
    info.lifetime_peak_bytes !== null && figure('peak since program start', bytes(info.lifetime_peak_bytes), `${exact(info.lifetime_peak_bytes)}; maybe before the window`, null, 'lifetime peak'),
    info.limit_bytes !== null && figure('capacity', bytes(info.limit_bytes), exact(info.limit_bytes)),
    !space.static && figure('requested at most', bytes(info.peak.requested_bytes), exact(info.peak.requested_bytes), null, 'most requested'),
    !space.static && !space.usageOnly && figure('allocations', count(info.allocations), 'in the recording', several(info.frees, 'free')),
    info.reserved_peak_bytes !== null && !space.static && figure('reserved at the end', bytes(info.reserved_bytes), exact(info.reserved_bytes),
      info.free_bytes !== null && `${bytes(info.free_bytes)} free, largest piece ${bytes(info.largest_free_bytes)}`, 'reserved at the end'),
    info.padding_bytes !== null && figure('padding at the peak', bytes(info.padding_bytes), 'bytes that the layout adds to the elements', percent(info.peak.bytes ? info.padding_bytes / info.peak.bytes : 0)),
  ]);
}

// liveText describes the recorded buffers that are alive at the end.
function liveText(info) {
  const {live} = info;
  return `${live.bytes === info.end_bytes ? '' : `${bytes(live.bytes)} recorded in `}${several(live.count, 'buffer')}${
    live.pending_free_count ? `, ${count(live.pending_free_count)} with a pending free` : ''}`;
}

// makeUp returns the parts of the peak: heap, stack and free memory.
function makeUp(space) {
  const {info} = space;
  const stack = info.stack_bytes ?? 0, heap = info.peak.bytes - stack - Math.max(0, info.base_bytes);
  const parts = [];
  if (info.base_bytes) parts.push([bytes(info.base_bytes), 'older buffers (only a sum)']);
  if (info.stack_bytes !== null) parts.push([bytes(stack), 'stack of compiled programs']);
  const free = space.peakHoles ? space.peakHoles.Total : info.limit_bytes !== null ? Math.max(0, info.limit_bytes - info.peak.bytes) : null;
  if (free !== null) parts.push([bytes(free), space.peakHoles ? 'reserved but free' : 'free']);
  return [`${bytes(heap)} heap`, exact(heap), parts.map(([n, name]) => `${n} ${name}`).join(', '), 'heap'];
}

// categories returns the largest category of the peak and, below it, the others.
function categories({categories: [first, ...rest], inferred}) {
  const text = (c) => `${bytes(c.bytes)} ${c.name}`;
  return [text(first), `${exact(first.bytes)} ${first.name}`, `${rest.slice(0, 4).map(text).join(', ')}${inferred ? ' (inferred)' : ''}`, 'categories'];
}

// died returns why an allocation failed; null without a failure. It leaves out what the answer above tells. Further failures are folded.
// step opens the memory map at the failure; it is left out without segments. A page without the program, commands is false, offers no command.
export function died({ooms, headline, name, spaces}, step, commands) {
  if (!ooms?.length) return null;
  const short = (text) => whole(text.replaceAll(name, name.split(/[\\/]/).pop()));
  const survived = ooms[0].lines.some(([label, text]) => label === 'reason' && text.startsWith('survived')), title = survived ? 'What failed, and the program went on' : 'Why it died';
  const above = (o, label, text) => headline.includes(text) || !survived && o === ooms[0] && /^(past|do)$/.test(label);
  const lines = (o) => [el('h3', {}, short(o.head)), el('dl', {class: 'facts'}, o.lines.filter(([label, text]) => !above(o, label, text) && (commands || label !== 'next')).map(([label, text]) => [el('dt', {}, label), el('dd', {}, broken(short(text)))]))];
  return el('div', {class: 'died', role: 'group', 'aria-label': title}, el('h2', {}, title), lines(ooms[0]),
    spaces.some((s) => s.ooms.length && s.regions.length && s.buffers) && el('p', {}, button('the memory when it failed, step by step', 'memory map', step)),
    ooms.length > 1 && el('details', {}, el('summary', {}, several(ooms.length - 1, 'more failure')), ooms.slice(1).map(lines)));
}

// damage returns a banner if the capture was read only in part, which opens the warnings; null otherwise.
export function damage({info}, show) {
  if (!info.damaged) return null;
  const bad = info.losses.filter((l) => l.severity === 'error'), worst = bad.find((l) => l.reason === 'truncated') || bad[0];
  return el('p', {class: 'damage', role: 'alert'}, el('strong', {}, 'Damaged capture'), ` – ${worst.reason}: ${worst.text}. Figures cover only what was read. `,
    button(several(info.losses.length, 'warning'), 'all warnings about this capture', show));
}

// endOnly says that a space has no history, and how to record one.
export function endOnly({advice, capture}) {
  return el('p', {class: 'end-only'}, el('strong', {}, 'No history was recorded'), `: this is what was alive at the end.${advice && !capture.headline.includes(advice.slice(1)) ? ` To see when memory was allocated and freed, ${advice}.` : ''}`);
}

// settings returns the settings of the allocator; null if none were recorded.
export function settings({info}) {
  const all = Object.entries(info.settings ?? {}).sort();
  return all.length > 0 && el('div', {}, el('h2', {}, 'Settings of the allocator'), el('dl', {class: 'facts'}, all.map(([name, value]) => [el('dt', {}, name), el('dd', {}, value || 'not set')])));
}

// losses returns the warnings about the capture.
export function losses(capture) {
  const all = capture.info.losses;
  return el('div', {}, el('p', {}, `${capture.name}: ${capture.info.format}, ${capture.info.producer}`),
    all.length ? el('ul', {class: 'losses'}, all.map((l) => el('li', {}, el('strong', {}, l.reason), `: ${l.text}`, l.count > 1 ? ` (${count(l.count)} cases)` : '', l.first ? `, first at ${l.first}` : '')))
      : el('p', {}, 'No warnings: the whole capture was read.'));
}
