// What grew in the visible range: the bytes in use at its end minus those at its start, by stack and in a table.

import {columnsOfSites} from './breakdown.js';
import {el, replace} from './dom.js';
import {Flame} from './flame.js';
import {bytes, count, since} from './format.js';
import {Table} from './table.js';

// signed returns a size with its sign: "+4.00 MiB".
export const signed = (n) => `${n > 0 ? '+' : ''}${bytes(n)}`;

// rangeOf returns the first and the last instant of the visible range.
export function rangeOf({from, to, space}) {
  const first = Math.round(from);
  return [first, Math.max(first, Math.min(Math.round(to), space.length - 1))];
}

// growthText describes in one line what grew between two times.
export function growthText(space, from, to) {
  const level = (t) => space.curve.bytes[Math.max(0, space.levelAt(t))] || 0;
  return `${since(space, from)} to ${since(space, to)}: ${signed(level(to) - level(from))} in use (${bytes(level(from))} to ${bytes(level(to))})`;
}

// Growth shows the range of a timeline. Clicks call picked(sites, name), chosen(function) and on of tables.
export class Growth {
  constructor(space, timeline, picked, chosen, on) {
    Object.assign(this, {space, timeline, by: 'line'});
    this.verdict = el('p', {class: 'verdict', role: 'status'});
    this.flame = new Flame(space, picked, chosen);
    this.table = this.tableOf(on);
    this.element = el('div', {class: 'growth'}, this.verdict, this.flame.element, this.table.element);
  }

  tableOf(on) {
    const {space} = this;
    const number = (name, title, get, text = (row) => bytes(get(row))) => ({name, title, number: true, value: get, text});
    const growth = number('growth', 'bytes in use at the end of the range minus those at its start', (row) => row.bytes, (row) => signed(row.bytes));
    const nameOf = (row) => space.groupName(row, this.by);
    const table = new Table({
      label: 'growth', sort: growth, on,
      columns: [
        growth, number('buffers', 'difference of the numbers of buffers', (row) => row.count, (row) => `${row.count > 0 ? '+' : ''}${count(row.count)}`),
        number('at the start', 'bytes at the start of the range', (row) => row.before), number('at the end', 'bytes at the end of the range', (row) => row.after),
        {name: 'allocated by', always: true, shorten: true, title: 'the innermost function of the program itself, or the operation', text: nameOf, value: (row) => nameOf(row).toLowerCase()},
        ...columnsOfSites(space),
      ],
    });
    const keys = space.groups();
    if (keys.length > 1) {
      const select = el('select', {'aria-label': 'sum up growth by', onchange: () => { this.by = select.value; this.show(); }}, keys.map((key) => el('option', {value: key}, `by ${key}`)));
      table.search.before(select);
    }
    return table;
  }

  // show computes the growth in the visible range.
  show() {
    const [from, to] = rangeOf(this.timeline), rows = this.space.growth(from, to, this.by);
    const places = this.space.grouped(rows, this.by).filter((row) => row.bytes || row.count);
    const part = (sign) => places.filter((row) => row.bytes * sign > 0);
    const sum = (list) => bytes(Math.abs(list.reduce((n, row) => n + row.bytes, 0)));
    const [grew, shrank] = [part(1), part(-1)];
    replace(this.verdict, `${growthText(this.space, from, to)}. By ${this.by}: ${count(grew.length)} grew by ${sum(grew)}, ${count(shrank.length)} shrank by ${sum(shrank)}.`);
    this.flame.show(rows, true);
    this.table.show(places);
  }

  draw(all) {
    this.table.draw(all);
  }

  csv() {
    return this.table.csv();
  }
}
