// The page of many runs: what changed, all ranks by run, and the medians of the runs.

import {el} from '../../../../render/web/page/dom.js';
import {bytes, count, several} from '../../../../render/web/page/format.js';
import {RankMap} from './map.js';
import {Table} from '../../../../render/web/page/table.js';
import {open} from './open.js';

// Trend has kinds of memory {name, columns, most, units, runs} with the names of the runs in each column, changes, and rows.
class Trend {
  constructor(doc, columns) {
    Object.assign(this, doc);
    this.rows = doc.rows.map(([rank, memory, kind, capture, grew]) => ({rank, memory, kind, capture, label: rank, outlier: grew ? 'warning' : ''}));
    for (const row of this.rows) row.values = doc.measures.map(() => columns.readSteps(doc.kinds[row.kind].columns.length));
    for (const c of doc.changes) for (let i = 1; i < c.rows.length; i++) c.rows[i] += c.rows[i - 1];
    const ranks = new Set(this.rows.map((row) => `${row.kind} ${row.rank}`));
    if (ranks.size < this.rows.length) for (const row of this.rows) row.label = `${row.rank} ${row.memory}`;
    this.modes = doc.measures.map((name, i) => this.mode(name, i));
  }

  // mode shows a measure by run.
  mode(name, i) {
    const level = (row, part) => row.values[i][part] > 0 ? (row.values[i][part] - 1) * this.kinds[row.kind].units[i] : -1;
    return {
      name, title: 'Ranks by run', hint: `${name} of each run`, level, columns: (kind) => kind.columns.length <= 12,
      parts: (kind) => kind.columns.length, most: (kind) => kind.most[i],
      axis: (kind) => kind.columns.length <= 12 ? kind.columns : [kind.columns[0], kind.columns.at(-1)],
      text: (row, part) => `${name} ${level(row, part) < 0 ? 'unknown' : bytes(level(row, part))} in ${this.kinds[row.kind].columns[part]}`,
    };
  }
}

class Page {
  constructor(trend, main) {
    this.trend = trend;
    const last = (row) => trend.modes.map((mode, i) => [trend.measures[i], mode.level(row, trend.kinds[row.kind].columns.length - 1)]).filter(([, level]) => level >= 0);
    this.map = new RankMap(trend.rows, trend.kinds, trend.modes, {
      facts: (row) => [...last(row).map(([name, level]) => [`${name}, last`, bytes(level)]), ['last capture', row.capture]],
      says: (row) => `${last(row).map(([name, level]) => `${name} ${bytes(level)}, `).join('')}${row.capture}`,
    });
    main.append(this.changes(), this.map.element, ...trend.kinds.map((k) => this.medians(k)));
    this.map.show();
  }

  changes() {
    const {changes, rows, modes, more} = this.trend;
    const items = changes.map((c) => el('li', {class: `finding ${c.severity}`}, el('h3', {}, el('span', {class: 'severity'}, c.severity), ' ', this.map.light(c.rows.map((i) => rows[i]), modes[c.measure])),
      el('p', {}, c.text), el('p', {class: 'note'}, `first in ${c.capture}`)));
    return el('section', {id: 'changes'}, el('h2', {}, several(changes.length, 'lasting change')),
      items.length ? el('ol', {class: 'findings', tabindex: 0}, items) : el('p', {class: 'empty'}, 'No figure of a rank changed for good.'), more > 0 && el('p', {class: 'note'}, `${count(more)} more.`));
  }

  medians(kind) {
    const size = (name, i) => ({name, title: 'median over the ranks', number: true, value: (r) => r[i], text: (r) => bytes(r[i])});
    const table = new Table({
      label: `medians of ${kind.name}`, descending: true,
      columns: [{name: 'run', always: true, shorten: true, value: (r) => r[7], text: (r) => r[0]}, {name: 'devices', number: true, value: (r) => r[1], text: (r) => count(r[1])},
        size('peak', 2), size('reserved', 3), size('leaked', 4), size('per step', 5), {name: 'most of', title: 'the category with the most bytes at the peaks', value: (r) => r[6], text: (r) => r[6]}],
    });
    const section = el('section', {class: 'kind'}, el('h2', {}, `Medians of ${kind.name || 'memory'}`), table.element);
    table.show(kind.runs.map((run, i) => [...run, i]));
    return section;
  }
}

open('trend', (doc, columns, main) => new Page(new Trend(doc, columns), main));
