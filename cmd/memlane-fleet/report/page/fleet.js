// The page of a fleet: ranks that differ, findings, all ranks over time, and captures that were not read.

import {button, el} from '../../../../render/web/page/dom.js';
import {bytes, count, percent, several} from '../../../../render/web/page/format.js';
import {RankMap} from './map.js';
import {Table} from '../../../../render/web/page/table.js';
import {open} from './open.js';

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

  // levelIn returns the bytes of a step, -1 if they are unknown.
  levelIn(row, step) {
    return step > 0 ? (step - 1) * this.kinds[row.kind].unit : -1;
  }

  // levelAt returns the peak in a part of the window in bytes, -1 if it is unknown.
  levelAt(row, part) {
    return this.levelIn(row, row.steps[part]);
  }

  modes() {
    const {kinds} = this, most = (kind) => kind.peaks[3];
    const text = (level) => level < 0 ? 'unknown' : bytes(level);
    const atPeak = (row, part) => this.levelIn(row, row.categories[part]);
    return [
      {name: 'over time', title: 'Memory over time', hint: 'the highest level in each part of the recording', parts: () => parts, axis: () => ['beginning of each recording', 'end'], columns: () => false,
        level: (row, part) => this.levelAt(row, part), most, text: (row, part) => `${this.levelAt(row, part) < 0 ? '' : 'up to '}${text(this.levelAt(row, part))} in part ${part + 1} of ${parts}`},
      {name: 'by category', title: 'Categories at the peak', hint: 'categories at the peak', parts: (kind) => kind.categories.length, axis: (kind) => kind.categories, columns: () => true,
        level: atPeak, most, text: (row, part) => `${text(atPeak(row, part))} ${kinds[row.kind].categories[part]} at the peak`},
    ];
  }
}

class Page {
  constructor(fleet, main) {
    this.fleet = fleet;
    this.map = new RankMap(fleet.rows, fleet.kinds, fleet.modes(), {
      facts: (row) => [['capture', row.capture], ['peak', bytes(row.peak)], ['at the end', bytes(row.end)], ['growth', bytes(row.growth)], row.leaked > 0 && ['leaked', bytes(row.leaked)]],
      says: (row) => `peak ${bytes(row.peak)}, ${bytes(row.end)} at the end${row.leaked > 0 ? `, ${bytes(row.leaked)} leaked` : ''} · ${row.capture}`,
    });
    main.append(...[this.figures(), this.standing(), this.map.element, ...fleet.kinds.map((k) => this.madeOf(k)), this.troubles(), this.losses()].filter(Boolean));
    this.map.show();
  }

  figures() {
    return el('section', {}, el('dl', {class: 'summary'}, this.fleet.figures.map(([name, n]) => el('div', {class: 'figure'}, el('dt', {}, name), el('dd', {'data-figure': name}, count(n))))));
  }

  // standing lists the ranks that differ, and findings with the ranks that have them.
  standing() {
    const {outliers, findings, minor, rows} = this.fleet;
    const items = outliers.map((o) => {
      const row = rows[o.row];
      return el('li', {class: `finding ${o.severity}`}, el('h3', {}, el('span', {class: 'severity'}, o.severity), ' ', row ? button(row.rank, 'show it in the map', () => this.map.goTo(row)) : 'rank outlier'),
        el('p', {}, o.text), row && el('p', {class: 'note'}, `${row.capture} · ${row.memory}`, row.page && [' · ', el('a', {href: row.page}, 'its page')]));
    });
    const shared = findings.map((f) => el('li', {class: `finding ${f.severity}`}, el('h3', {}, el('span', {class: 'severity'}, f.severity), ' ', this.map.light(f.rows.map((i) => rows[i]))), el('p', {}, f.text)));
    return el('div', {class: 'standing'},
      el('section', {id: 'outliers'}, el('h2', {}, several(outliers.length, 'rank'), outliers.length === 1 ? ' that differs' : ' that differ'), outliers.length ? el('ol', {class: 'findings', tabindex: 0}, items) : el('p', {class: 'empty'}, 'No rank differs from the others.')),
      el('section', {id: 'findings'}, el('h2', {}, several(findings.length, 'finding')), findings.length ? el('ol', {class: 'findings', tabindex: 0}, shared) : el('p', {class: 'empty'}, 'No findings above info.'),
        minor > 0 && el('p', {class: 'note'}, `${count(minor)} more of severity info: see fleet.json.`)));
  }

  // madeOf shows the distribution of the peaks of a kind, and their largest places.
  madeOf(kind) {
    const [least, median, ninetieth, most] = kind.peaks;
    const size = (name, of, title) => ({name, title, number: true, value: of, text: (row) => (row.memories ? bytes(of(row)) : '')});
    const table = new Table({
      label: `places of ${kind.name || 'memory'}`,
      columns: [
        {name: 'at the peaks', title: 'bytes at the peaks of all devices', number: true, value: (r) => r.bytes, text: (r) => bytes(r.bytes)},
        {name: 'share', title: 'of all peaks', number: true, value: (r) => r.share, text: (r) => percent(r.share)},
        {name: 'devices', title: 'with bytes of this place at their peak', number: true, value: (r) => r.memories, text: (r) => (r.memories ? count(r.memories) : '')},
        size('least', (r) => r.least, 'over these devices'), size('median', (r) => r.median, 'over these devices'),
        size('90 %', (r) => r.ninetieth, '90 % of these devices have at most this'), size('most', (r) => r.most, 'over these devices'),
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

open('fleet', (doc, columns, main) => new Page(new Fleet(doc, columns), main));
