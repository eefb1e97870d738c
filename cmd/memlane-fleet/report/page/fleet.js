// The page of a fleet: ranks that differ, findings, all ranks over time, and captures that were not read.

import {Columns, unpack} from '../../../../render/web/page/decode.js';
import {button, el, replace} from '../../../../render/web/page/dom.js';
import {bytes, count, percent, several} from '../../../../render/web/page/format.js';
import {Heat} from './heat.js';
import {matcher, Table} from '../../../../render/web/page/table.js';
import {setTheme} from '../../../../render/web/page/theme.js';

const parts = 64; // of the recording of each row

class Fleet {
  constructor(doc, columns) {
    Object.assign(this, doc);
    this.rows = doc.rows.map(([rank, memory, capture, kind, peak, end, growth, leaked], i) =>
      ({i, rank, memory, capture: doc.captures[capture][0], page: doc.captures[capture][1], kind, peak, end, growth, leaked, label: rank}));
    for (const row of this.rows) {
      row.steps = columns.readSteps(parts);
      row.categories = columns.readSteps(doc.kinds[row.kind].categories.length);
    }
    for (const o of [...doc.outliers].reverse()) if (this.rows[o.row]) this.rows[o.row].outlier = o.severity;
    for (const f of doc.findings) for (let i = 1; i < f.rows.length; i++) f.rows[i] += f.rows[i - 1];
    const devices = new Set(this.rows.map((row) => `${row.kind} ${row.capture}`));
    if (devices.size < this.rows.length) for (const row of this.rows) row.label = `${row.rank} ${row.memory}`;
  }

  // levelAt returns the peak in a part of the window in bytes, or that of a category at the peak, -1 if it is unknown.
  levelAt(row, part, byCategory) {
    const steps = byCategory ? row.categories : row.steps;
    return steps[part] > 0 ? (steps[part] - 1) * this.kinds[row.kind].unit : -1;
  }
}

class Page {
  constructor(fleet, main) {
    this.fleet = fleet;
    this.kind = 0;
    this.byCategory = false; // columns are categories at the peak, not parts of the time
    this.lit = -1; // the finding whose rows are lit
    this.card = el('div', {class: 'card hover', role: 'tooltip', hidden: true});
    this.now = el('p', {class: 'now-row', id: 'now-row', role: 'status'});
    const most = (row) => Math.max(1, fleet.kinds[row.kind].peaks[3]);
    this.heat = new Heat(parts, (row, part) => fleet.levelAt(row, part, this.byCategory) / most(row), {
      hover: (row, part, e) => this.hover(row, part, e), move: (row, part) => this.tell(row, part), open: (row) => { if (row.page) location.href = row.page; },
    });
    document.body.prepend(el('header', {class: 'top'}, el('strong', {class: 'brand'}, 'memlane'), el('h1', {class: 'headline fixed'}, fleet.headline)));
    document.body.append(this.card);
    main.append(...[this.figures(), this.standing(), this.map(), ...fleet.kinds.map((k) => this.madeOf(k)), this.troubles(), this.losses()].filter(Boolean));
    this.show();
    const dark = matchMedia('(prefers-color-scheme: dark)');
    dark.addEventListener('change', () => { setTheme(dark.matches); this.show(); });
  }

  figures() {
    return el('section', {}, el('dl', {class: 'summary'}, this.fleet.figures.map(([name, n]) => el('div', {class: 'figure'}, el('dt', {}, name), el('dd', {'data-figure': name}, count(n))))));
  }

  // standing lists the ranks that differ, and findings with the ranks that have them.
  standing() {
    const {outliers, findings, minor, rows} = this.fleet;
    const items = outliers.map((o) => {
      const row = rows[o.row];
      return el('li', {class: `finding ${o.severity}`}, el('h3', {}, el('span', {class: 'severity'}, o.severity), ' ', row ? button(row.rank, 'show it in the map', () => this.goTo(row)) : 'rank outlier'),
        el('p', {}, o.text), row && el('p', {class: 'note'}, `${row.capture} · ${row.memory}`, row.page && [' · ', el('a', {href: row.page}, 'its page')]));
    });
    this.lights = findings.map((f, i) => button('show the ranks', 'highlight the ranks that have it', () => this.light(i), {'aria-pressed': 'false'}));
    const shared = findings.map((f, i) => el('li', {class: `finding ${f.severity}`}, el('h3', {}, el('span', {class: 'severity'}, f.severity), ' ', this.lights[i]), el('p', {}, f.text)));
    return el('div', {class: 'standing'},
      el('section', {id: 'outliers'}, el('h2', {}, several(outliers.length, 'rank'), outliers.length === 1 ? ' that differs' : ' that differ'), outliers.length ? el('ol', {class: 'findings', tabindex: 0}, items) : el('p', {class: 'empty'}, 'No rank differs from the others.')),
      el('section', {id: 'findings'}, el('h2', {}, several(findings.length, 'finding')), findings.length ? el('ol', {class: 'findings', tabindex: 0}, shared) : el('p', {class: 'empty'}, 'No findings above info.'),
        minor > 0 && el('p', {class: 'note'}, `${count(minor)} more of severity info: see fleet.json.`)));
  }

  map() {
    const {kinds} = this.fleet;
    const choice = kinds.length > 1 && el('select', {'aria-label': 'kind of memory', onchange: () => { this.kind = Number(choice.value); this.show(); }}, kinds.map((k, i) => el('option', {value: i}, k.name || 'memory')));
    this.choice = choice;
    this.by = button('by category', 'show categories at the peak instead of memory over time', () => { this.byCategory = !this.byCategory; this.show(); }, {'aria-pressed': 'false'});
    this.axis = el('p', {class: 'heat-axis'});
    this.title = el('h2', {});
    this.search = el('input', {type: 'search', class: 'find', placeholder: 'rank or capture (text or /regexp/)', 'aria-label': 'show ranks and captures by name', oninput: () => this.show()});
    this.only = el('input', {type: 'checkbox', onchange: () => this.show()});
    this.onlyLabel = el('label', {hidden: true}, this.only, el('span', {}, 'highlighted only'));
    this.note = el('span', {class: 'note', role: 'status'});
    this.scale = el('canvas', {'aria-hidden': 'true'});
    this.most = el('span');
    this.heatSection = el('section', {id: 'map'}, el('div', {class: 'bar'}, this.title, choice, this.by, this.search, this.onlyLabel, this.note, el('span', {class: 'push'}),
      el('span', {class: 'heat-scale'}, '0 B', this.scale, this.most)), this.heat.element,
    this.axis, this.now);
    return this.heatSection;
  }

  // show shows the rows that match the fields above the map.
  show() {
    const {rows, kinds, findings} = this.fleet;
    const match = matcher(this.search.value);
    this.search.classList.toggle('wrong', !match);
    const ofKind = rows.filter((row) => row.kind === this.kind);
    const lit = new Set(this.lit < 0 ? [] : findings[this.lit].rows.map((i) => rows[i]).filter((row) => row.kind === this.kind));
    const shown = ofKind.filter((row) => (!match || match(row.rank) || match(row.capture) || match(row.memory)) && (!(this.only.checked && lit.size) || lit.has(row)));
    this.onlyLabel.hidden = !lit.size;
    const categories = kinds[this.kind]?.categories ?? [];
    this.by.hidden = !categories.length;
    this.byCategory &&= categories.length > 0;
    this.by.setAttribute('aria-pressed', String(this.byCategory));
    this.title.textContent = this.byCategory ? 'Categories at the peak' : 'Memory over time';
    this.axis.classList.toggle('columns', this.byCategory);
    replace(this.axis, ...(this.byCategory ? categories : ['beginning of each recording', 'end']).map((text) => el('span', {title: text}, text)));
    this.heat.parts = this.byCategory ? categories.length : parts;
    this.heat.lit = lit;
    this.heat.show(shown);
    this.heat.drawScale(this.scale);
    this.most.textContent = bytes(kinds[this.kind]?.peaks[3] ?? 0);
    this.note.textContent = shown.length === ofKind.length ? several(shown.length, 'row') : `${count(shown.length)} of ${several(ofKind.length, 'row')}`;
    replace(this.now, shown.length ? 'Click on a row, or move with the arrow keys.' : 'No rank or capture matches.');
  }

  // light highlights the rows that have a finding. A second call removes the highlight.
  light(i) {
    this.lit = this.lit === i ? -1 : i;
    this.lights.forEach((b, k) => b.setAttribute('aria-pressed', String(k === this.lit)));
    const {rows, findings} = this.fleet;
    if (this.lit < 0) this.only.checked = false;
    else if (!findings[i].rows.some((k) => rows[k].kind === this.kind)) this.choose(rows[findings[i].rows[0]]?.kind ?? this.kind);
    this.show();
  }

  choose(kind) {
    this.kind = kind;
    if (this.choice) this.choice.value = String(kind);
  }

  // goTo clears the filters and scrolls to a row.
  goTo(row) {
    this.choose(row.kind);
    this.search.value = '';
    this.only.checked = false;
    this.show();
    this.heatSection.scrollIntoView({block: 'nearest'});
    this.heat.scroller.focus({preventScroll: true});
    const steps = this.byCategory ? row.categories : row.steps;
    this.heat.move(this.heat.rows.indexOf(row), steps.indexOf(Math.max(...steps)));
  }

  hover(row, part, e) {
    this.card.hidden = !row;
    if (!row) return;
    const facts = [['memory ID', row.memory], ['capture', row.capture], ['peak', bytes(row.peak)], ['at the end', bytes(row.end)], ['growth', bytes(row.growth)], row.leaked > 0 && ['leaked', bytes(row.leaked)]];
    replace(this.card, el('strong', {}, row.rank), part >= 0 && `: ${this.levelText(row, part)}`, el('dl', {class: 'facts'}, facts.filter(Boolean).map(([name, text]) => [el('dt', {}, name), el('dd', {}, text)])),
      row.page && el('p', {class: 'note'}, 'Click to open its page.'));
    const {innerWidth, innerHeight} = window, {offsetWidth, offsetHeight} = this.card;
    const x = e.clientX + 16 + offsetWidth > innerWidth ? e.clientX - offsetWidth - 12 : e.clientX + 16;
    Object.assign(this.card.style, {left: `${Math.max(4, x)}px`, top: `${Math.max(4, Math.min(e.clientY + 16, innerHeight - offsetHeight - 8))}px`});
  }

  levelText(row, part) {
    const level = this.fleet.levelAt(row, part, this.byCategory);
    if (this.byCategory) return `${level < 0 ? 'unknown' : bytes(level)} ${this.fleet.kinds[row.kind].categories[part]} at the peak`;
    return `${level < 0 ? 'unknown' : `up to ${bytes(level)}`} in part ${part + 1} of ${parts}`;
  }

  // tell describes the active row under the map.
  tell(row, part) {
    replace(this.now, el('strong', {}, row.rank), ` · ${row.memory} · ${this.levelText(row, part)} · peak ${bytes(row.peak)}, ${bytes(row.end)} at the end${row.leaked > 0 ? `, ${bytes(row.leaked)} leaked` : ''} · ${row.capture}`,
      row.page && el('a', {href: row.page}, 'its page'));
  }

  // madeOf shows the distribution of the peaks of a kind, and their largest places.
  madeOf(kind) {
    const [least, median, ninetieth, most] = kind.peaks;
    const size = (name, of, title) => ({name, title, number: true, value: of, text: (row) => (row.memories ? bytes(of(row)) : '')});
    const table = new Table({
      label: `places of ${kind.name || 'memory'}`,
      columns: [
        {name: 'at the peaks', title: 'bytes at the peaks of all memory IDs', number: true, value: (r) => r.bytes, text: (r) => bytes(r.bytes)},
        {name: 'share', title: 'of all peaks', number: true, value: (r) => r.share, text: (r) => percent(r.share)},
        {name: 'memory IDs', title: 'with bytes of this place at their peak', number: true, value: (r) => r.memories, text: (r) => (r.memories ? count(r.memories) : '')},
        size('least', (r) => r.least, 'over these memory IDs'), size('median', (r) => r.median, 'over these memory IDs'),
        size('90 %', (r) => r.ninetieth, '90 % of these memory IDs have at most this'), size('most', (r) => r.most, 'over these memory IDs'),
        {name: 'allocated by', always: true, shorten: true, value: (r) => r.place, text: (r) => r.place},
      ],
    });
    const figures = [['least', least], ['median', median], ['90 % at most', ninetieth], ['most', most]];
    const section = el('section', {class: 'kind'}, el('h2', {}, `Peaks of ${kind.name || 'memory'}`),
      el('dl', {class: 'summary'}, figures.map(([name, n]) => el('div', {class: 'figure'}, el('dt', {}, name), el('dd', {}, bytes(n))))), table.element,
      kind.more > 0 && el('p', {class: 'note'}, `${several(kind.more, 'place')} more: see fleet.json.`));
    table.show(kind.places.map(([place, bytes, share, memories, least, median, ninetieth, most]) => ({place, bytes, share, memories, least, median, ninetieth, most})));
    return section;
  }

  troubles() {
    const {troubles, absent} = this.fleet;
    if (!troubles.length && !absent.length) return null;
    const table = new Table({
      label: 'captures that were not read', descending: false,
      columns: [
        {name: 'state', value: (r) => r[3], text: (r) => r[0]}, {name: 'capture', always: true, shorten: true, value: (r) => r[1], text: (r) => r[1]}, {name: 'reason', value: (r) => r[2], text: (r) => r[2]},
      ],
    });
    const most = 200;
    const section = el('section', {id: 'troubles'}, el('h2', {}, 'Not read, or damaged'), troubles.length > 0 && table.element,
      absent.length > 0 && el('p', {}, el('strong', {}, `${several(absent.length, 'rank')} without a capture: `), absent.slice(0, most).join(', '), absent.length > most && ` and ${count(absent.length - most)} more`));
    table.show(troubles.map((t, i) => [...t, i]));
    return section;
  }

  losses() {
    const {losses} = this.fleet;
    return losses.length > 0 && el('section', {}, el('h2', {}, 'Warnings'), el('ul', {class: 'losses'}, losses.map((l) => el('li', {}, l))));
  }
}

async function start() {
  setTheme(matchMedia('(prefers-color-scheme: dark)').matches);
  const main = el('main');
  document.body.append(main);
  const doc = JSON.parse(new TextDecoder().decode(await unpack('fleet')));
  const page = new Page(new Fleet(doc, new Columns(await unpack('usage'))), main);
  page.ready = performance.now();
  globalThis.memlane = page; // for tests and the console
  document.body.dataset.ready = 'true';
}

start();
