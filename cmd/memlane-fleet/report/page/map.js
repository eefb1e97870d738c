// The heat map with the fields above it, and the row at the mouse or the keyboard below it.

import {button, el, replace} from '../../../../render/web/page/dom.js';
import {bytes, count, several} from '../../../../render/web/page/format.js';
import {Heat} from './heat.js';
import {matcher} from '../../../../render/web/page/table.js';

// RankMap shows rows {rank, memory, kind, capture, page, label, outlier} of kinds of memory. Modes are what columns can be: {name, title, hint,
// parts(kind), axis(kind), columns(kind), level(row, part), most(kind), text(row, part)}. columns(kind) is true if each column has a name.
// about has facts(row) and says(row).
export class RankMap {
  constructor(rows, kinds, modes, about) {
    Object.assign(this, {rows, kinds, modes, about});
    this.kind = 0;
    this.mode = modes[0];
    this.lit = null; // button of the rows that are lit
    this.lights = [];
    this.card = el('div', {class: 'card hover', role: 'tooltip', hidden: true});
    document.body.append(this.card);
    this.now = el('p', {class: 'now-row', id: 'now-row', role: 'status'});
    this.heat = new Heat(0, (row, part) => this.mode.level(row, part) / Math.max(1, this.mode.most(kinds[row.kind])), {
      hover: (row, part, e) => this.hover(row, part, e), move: (row, part) => this.tell(row, part), open: (row) => { if (row.page) location.href = row.page; },
    });
    const choice = kinds.length > 1 && el('select', {'aria-label': 'kind of memory', onchange: () => { this.kind = Number(choice.value); this.show(); }}, kinds.map((k, i) => el('option', {value: i}, k.name || 'memory')));
    this.choice = choice;
    this.by = modes.map((mode) => button(mode.name, `show ${mode.hint}`, () => { this.mode = mode; this.show(); }, {'aria-pressed': 'false'}));
    this.axis = el('p', {class: 'heat-axis'});
    this.title = el('h2', {});
    this.search = el('input', {type: 'search', class: 'find', placeholder: 'rank or capture (text or /regexp/)', 'aria-label': 'show ranks and captures by name', oninput: () => this.show()});
    this.only = el('input', {type: 'checkbox', onchange: () => this.show()});
    this.onlyLabel = el('label', {hidden: true}, this.only, el('span', {}, 'highlighted only'));
    this.note = el('span', {class: 'note', role: 'status'});
    this.scale = el('canvas', {'aria-hidden': 'true'});
    this.most = el('span');
    this.element = el('section', {id: 'map'}, el('div', {class: 'bar'}, this.title, choice, this.by, this.search, this.onlyLabel, this.note, el('span', {class: 'push'}),
      el('span', {class: 'heat-scale'}, '0 B', this.scale, this.most)), this.heat.element,
    this.axis, this.now);
  }

  // show shows the rows that match the fields above the map.
  show() {
    const {rows, kinds, modes} = this, kind = kinds[this.kind];
    const match = matcher(this.search.value);
    this.search.classList.toggle('wrong', !match);
    const ofKind = rows.filter((row) => row.kind === this.kind);
    const lit = new Set(this.lit?.rows.filter((row) => row.kind === this.kind));
    const shown = ofKind.filter((row) => (!match || match(row.rank) || match(row.capture) || match(row.memory)) && (!(this.only.checked && lit.size) || lit.has(row)));
    this.onlyLabel.hidden = !lit.size;
    this.by.forEach((b, i) => { b.hidden = !kind || !modes[i].parts(kind); });
    if (kind && !this.mode.parts(kind)) this.mode = modes[0];
    this.by.forEach((b, i) => b.setAttribute('aria-pressed', String(modes[i] === this.mode)));
    this.title.textContent = this.mode.title;
    this.axis.classList.toggle('columns', !!kind && this.mode.columns(kind));
    replace(this.axis, ...(kind ? this.mode.axis(kind) : []).map((text) => el('span', {title: text}, text)));
    this.heat.parts = kind ? this.mode.parts(kind) : 1;
    this.heat.lit = lit;
    this.heat.show(shown);
    this.heat.drawScale(this.scale);
    this.most.textContent = bytes(kind ? this.mode.most(kind) : 0);
    this.note.textContent = shown.length === ofKind.length ? several(shown.length, 'row') : `${count(shown.length)} of ${several(ofKind.length, 'row')}`;
    replace(this.now, shown.length ? 'Click on a row, or move with the arrow keys.' : 'No rank or capture matches.');
  }

  // light returns a button that highlights rows, and then removes the highlight. mode is what columns are then.
  light(rows, mode) {
    const light = button('show the ranks', 'highlight the ranks that have it', () => {
      this.lit = this.lit === light ? null : light;
      for (const b of this.lights) b.setAttribute('aria-pressed', String(b === this.lit));
      if (!this.lit) this.only.checked = false;
      else {
        if (mode) this.mode = mode;
        if (!rows.some((row) => row.kind === this.kind)) this.choose(rows[0]?.kind ?? this.kind);
      }
      this.show();
    }, {'aria-pressed': 'false'});
    light.rows = rows;
    this.lights.push(light);
    return light;
  }

  choose(kind) {
    this.kind = kind;
    if (this.choice) this.choice.value = String(kind);
  }

  // goTo clears the filters and scrolls to a row, to its highest level.
  goTo(row) {
    this.choose(row.kind);
    this.search.value = '';
    this.only.checked = false;
    this.show();
    this.element.scrollIntoView({block: 'nearest'});
    this.heat.scroller.focus({preventScroll: true});
    const levels = Array.from({length: this.heat.parts}, (_, part) => this.mode.level(row, part));
    this.heat.move(this.heat.rows.indexOf(row), levels.indexOf(Math.max(...levels)));
  }

  hover(row, part, e) {
    this.card.hidden = !row;
    if (!row) return;
    const facts = [['device', row.memory], ...this.about.facts(row)];
    replace(this.card, el('strong', {}, row.rank), part >= 0 && `: ${this.mode.text(row, part)}`, el('dl', {class: 'facts'}, facts.filter(Boolean).map(([name, text]) => [el('dt', {}, name), el('dd', {}, text)])),
      row.page && el('p', {class: 'note'}, 'Click to open its page.'));
    const {innerWidth, innerHeight} = window, {offsetWidth, offsetHeight} = this.card;
    const x = e.clientX + 16 + offsetWidth > innerWidth ? e.clientX - offsetWidth - 12 : e.clientX + 16;
    Object.assign(this.card.style, {left: `${Math.max(4, x)}px`, top: `${Math.max(4, Math.min(e.clientY + 16, innerHeight - offsetHeight - 8))}px`});
  }

  // tell describes the active row under the map.
  tell(row, part) {
    replace(this.now, el('strong', {}, row.rank), ` · ${row.memory} · ${this.mode.text(row, part)} · ${this.about.says(row)}`, row.page && el('a', {href: row.page}, 'its page'));
  }
}
