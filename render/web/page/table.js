// A table that sorts, searches and shows any number of rows. Only visible rows are in the
// document.

import {el, replace} from './dom.js';
import {count, several} from './format.js';
import {shorten} from './shorten.js';

const rowHeight = 26;
const printed = 20; // rows on paper
const longest = 60; // characters of a name, which fit the cells of page.css

// Table shows rows under columns {name, title, value(row), text(row), number}. Columns with
// shorten show names, shortened so that visible rows stay different.
// Clicks and Enter call on.activate(row). on.lit(row) returns whether to highlight a row.
export class Table {
  constructor({columns, sort, on = {}, label}) {
    Object.assign(this, {columns, all: columns, sort, on, descending: true});
    this.rows = this.shown = [];
    this.active = -1;
    this.needle = null;
    this.header = el('tr', {}, columns.map((column) => this.heading(column)));
    this.body = el('tbody');
    this.scroller = el('div', {class: 'scroller', tabindex: 0, role: 'region', 'aria-label': label}, el('table', {class: 'rows'}, el('thead', {}, this.header), this.body));
    this.note = el('span', {class: 'note', role: 'status'});
    this.search = el('input', {type: 'search', class: 'find', placeholder: 'search (text or /regexp/)', 'aria-label': `search in ${label}`, oninput: () => this.find(this.search.value)});
    this.element = el('div', {class: 'table'}, el('div', {class: 'bar'}, this.search, this.note), this.scroller);
    this.scroller.addEventListener('scroll', () => this.draw());
    this.scroller.addEventListener('keydown', (e) => this.key(e));
    new ResizeObserver(() => this.draw()).observe(this.scroller);
  }

  heading(column) {
    const sortBy = () => {
      this.descending = this.sort === column ? !this.descending : !!column.number;
      this.sort = column;
      this.arrange();
    };
    column.heading = el('th', {class: column.number ? 'number' : '', title: column.title, scope: 'col'}, el('button', {type: 'button', onclick: sortBy}, column.name));
    return column.heading;
  }

  show(rows) {
    this.rows = rows;
    this.columns = this.all.filter((c) => c.shown ? c.shown(rows) : c.number || c.always || rows.some((row) => c.text(row) !== '')); // omits empty columns
    replace(this.header, this.columns.map((c) => c.heading));
    this.arrange();
  }

  find(text) {
    this.needle = matcher(text);
    this.search.classList.toggle('wrong', !this.needle);
    this.active = -1;
    this.arrange();
  }

  arrange() {
    const match = this.needle;
    this.shown = match ? this.rows.filter((row) => this.columns.some((c) => match(String(c.find ? c.find(row) : c.text(row))))) : [...this.rows];
    const column = this.sort || this.columns[0], sign = this.descending ? -1 : 1;
    const keys = new Map(this.shown.map((row) => [row, column.value(row)]));
    this.shown.sort((a, b) => {
      const x = keys.get(a), y = keys.get(b);
      return x < y ? -sign : x > y ? sign : 0;
    });
    for (const c of this.columns) c.heading.setAttribute('aria-sort', c === column ? (this.descending ? 'descending' : 'ascending') : 'none');
    this.note.textContent = this.shown.length === this.rows.length ? several(this.rows.length, 'row') : `${count(this.shown.length)} of ${several(this.rows.length, 'row')}`;
    this.scroller.scrollTop = 0;
    this.draw();
  }

  draw(all = false) {
    const {scroller, shown} = this;
    const first = all ? 0 : Math.max(0, Math.floor(scroller.scrollTop / rowHeight) - 10);
    const last = all ? Math.min(shown.length, printed) : Math.min(shown.length, first + Math.ceil((scroller.clientHeight || 600) / rowHeight) + 20);
    const space = (n) => el('tr', {class: 'space', 'aria-hidden': 'true'}, el('td', {colspan: this.columns.length, style: {height: `${n * rowHeight}px`}}));
    const rows = shown.slice(first, last), cells = this.columns.map((c) => {
      const texts = rows.map((row) => c.text(row));
      return c.shorten ? shorten(texts, longest) : texts;
    });
    replace(this.body, space(first), rows.map((row, i) => this.row(row, first + i, cells.map((column) => column[i]))), all ? null : space(shown.length - last));
  }

  row(row, i, texts) {
    const lit = this.on.lit?.(row);
    return el('tr', {class: [i === this.active && 'active', lit && 'lit'].filter(Boolean).join(' '), 'data-row': i, onclick: () => this.activate(i)},
      this.columns.map((c, k) => el('td', {class: c.number ? 'number' : '', title: c.hint?.(row) ?? c.text(row)}, texts[k])));
  }

  activate(i) {
    this.active = i;
    this.on.activate?.(this.shown[i]);
    this.draw();
  }

  key(e) {
    const step = {ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10}[e.key];
    if (step && this.shown.length) {
      this.active = Math.max(0, Math.min(this.shown.length - 1, this.active + step));
      const top = this.active * rowHeight, {scroller} = this;
      if (top < scroller.scrollTop) scroller.scrollTop = top;
      if (top + 2 * rowHeight > scroller.scrollTop + scroller.clientHeight) scroller.scrollTop = top + 2 * rowHeight - scroller.clientHeight;
      this.draw();
    } else if (e.key === 'Enter' && this.shown[this.active]) {
      this.activate(this.active);
    } else {
      return;
    }
    e.preventDefault();
    e.stopPropagation();
  }

  // first returns the names of the columns before the stack, the first n rows as shown, and whether each column is a number.
  first(n) {
    const columns = this.columns.filter((c) => c.name !== 'stack');
    return [[columns.map((c) => c.name), ...this.shown.slice(0, n).map((row) => columns.map((c) => c.text(row)))], columns.map((c) => !!c.number)];
  }

  // csv returns all rows as shown.
  csv() {
    const lines = [this.columns.map((c) => c.name), ...this.shown.map((row) => this.columns.map((c) => (c.csv ? c.csv(row) : c.number ? c.value(row) : c.text(row))))];
    return lines.map((line) => line.map(cell).join(',')).join('\r\n') + '\r\n';
  }
}

// cell quotes a value. It marks names of a capture that a spreadsheet would evaluate as
// formulas as text.
function cell(value) {
  let text = String(value ?? '');
  if (typeof value !== 'number' && /^[=+\-@\t\r]/.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

// matcher returns a test for a text, or for a regular expression between slashes. It
// returns null for an invalid expression.
export function matcher(text) {
  if (!text) return () => true;
  const expression = /^\/(.*)\/?$/.exec(text);
  if (!expression) {
    const needle = text.toLowerCase();
    return (s) => s.toLowerCase().includes(needle);
  }
  try {
    const re = new RegExp(expression[1].replace(/\/$/, ''), 'i');
    return (s) => re.test(s);
  } catch {
    return null;
  }
}
