// The page of the captures: combines its parts and holds their state, which the address
// mirrors.

import {bufferTable, siteTable, stackOf} from './breakdown.js';
import {Timeline} from './chart.js';
import {code, copyPicture, copyText, escape, tableText} from './copy.js';
import {Legend, modes, usualColor} from './colors.js';
import {Compare} from './compare.js';
import {HoverCard, pinned} from './details.js';
import {devices} from './devices.js';
import {button, el, replace} from './dom.js';
import {byEvent} from './events.js';
import {findingsList, firstFindings} from './findings.js';
import {Flame} from './flame.js';
import {bytes, count, several, since} from './format.js';
import {Growth, growthText, rangeOf} from './growth.js';
import {help, listen} from './keys.js';
import {entry, follow, link, read, write} from './link.js';
import {MemoryMap} from './map.js';
import {fileName, save} from './save.js';
import {hasSegments} from './segments.js';
import {preferred, Selectors} from './select.js';
import {shorten} from './shorten.js';
import {allFigures, damage, died, endOnly, headline, losses, settings, summary} from './summary.js';
import {frameText} from './space.js';
import {matcher, Table} from './table.js';
import {setTheme, style} from './theme.js';
import {describe, layoutsOf, View} from './view.js';
import {whatIf} from './whatif.js';

export class App {
  // tools are more elements for the header.
  constructor(captures, main, tools = []) {
    this.captures = captures; // some may have no space
    this.main = main;
    this.commands = true; // has who reads the page the program?
    this.closing = new AbortController();
    this.dark = matchMedia('(prefers-color-scheme: dark)');
    setTheme(this.dark.matches);
    this.card = new HoverCard();
    this.selectors = new Selectors(captures.filter((c) => c.spaces.length), (space) => this.open(space, {tab: this.tab}));
    this.search = el('input', {type: 'search', class: 'find', placeholder: 'name, /regexp/ or 0x address', 'aria-label': 'highlight buffers by function, operation, name or regular expression, or find an address',
      oninput: () => this.find(this.search.value)});
    this.help = help();
    this.header = el('header', {class: 'top'}, el('strong', {class: 'brand'}, 'memlane'), this.selectors.element, this.search, tools,
      button('dark / light', 'the colours of the page', () => this.toggleTheme(), {class: 'theme'}), button('?', 'keys and mouse', () => this.help.showModal()));
    document.body.prepend(this.header);
    document.body.append(this.help);
    this.listen();
    follow((fields) => this.go(fields), this.closing.signal);
  }

  listen() {
    const jump = (name) => () => this.setTime(name === 'peak' ? this.space.peak : this.space.length - 1);
    const tab = (n) => () => this.tabs[n] && this.showTab(this.tabs[n].key);
    const cycle = (names, now, set) => () => set(names[(names.indexOf(now()) + 1) % names.length]);
    const move = (share) => () => this.timeline.move(share), zoom = (factor) => () => this.timeline.zoom(factor, this.time);
    listen({
      ArrowLeft: move(-0.15), a: move(-0.15), ArrowRight: move(0.15), d: move(0.15), '+': zoom(1 / 1.5), '=': zoom(1 / 1.5), w: zoom(1 / 1.5), '-': zoom(1.5), s: zoom(1.5), 0: () => this.whole(), p: jump('peak'), e: jump('end'), ',': () => this.step(-1), '.': () => this.step(1),
      '[': () => this.timeline.show(this.time, this.timeline.to), ']': () => this.timeline.show(this.timeline.from, this.time), g: () => this.showTab('growth'), '/': () => this.search.focus(), ...Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8, 9].map((n) => [n, tab(n - 1)])), '?': () => this.help.showModal(),
      l: () => cycle(this.layouts(), () => this.options.layout, (v) => this.setLayout(v))(), c: () => cycle(Object.keys(modes), () => this.color, (v) => this.setColor(v))(),
      Escape: () => { this.pin(null); this.unlight(); document.activeElement?.blur(); },
    }, this.closing.signal);
    const {signal} = this.closing;
    this.dark.addEventListener('change', () => this.restyle(this.dark.matches), {signal});
    let before = false; // whether the page was dark before it was printed
    addEventListener('beforeprint', () => { before = style('scheme') === 'dark'; this.print(false, true); }, {signal});
    addEventListener('afterprint', () => this.print(before, false), {signal});
  }

  // close removes the page of these captures, so that nothing of them stays in memory.
  close() {
    this.closing.abort();
    this.observer?.disconnect();
    this.view?.close();
    for (const part of (this.tabs ?? []).map((tab) => tab.part)) for (const plot of part?.plots ?? []) plot.destroy();
    for (const element of [this.header, this.help, this.card.element]) element.remove();
    replace(this.main);
  }

  // go shows the state in an address, with defaults for missing fields.
  async go(fields) {
    if (this.space && same(fields, this.state())) {
      this.goTo(fields);
      return;
    }
    const capture = [entry(this.captures, fields.capture || (this.captures.length > 2 ? '' : '0')), ...worst(this.captures)].find((c) => c?.spaces.length);
    const finding = entry(capture.findings, fields.finding);
    const space = finding ? capture.spaces[finding.space] : capture.spaces.find((s) => s.id === fields.space) || preferred(capture);
    if (Object.keys(fields).length === 0 && space.ooms.length) {
      await this.open(space, {t: space.instant(space.ooms[0].begin)});
      return;
    }
    const two = this.captures.filter((c) => c.spaces.length).length === 2 && Object.keys(fields).length === 0;
    await this.open(space, {...fields, tab: fields.tab || (finding ? 'findings' : two ? 'compare' : undefined)});
  }

  // goTo shows the range and the time of an address.
  goTo(fields) {
    const {space, timeline} = this, from = relative(space, fields.from), to = relative(space, fields.to);
    this.setTime(relative(space, fields.t) ?? space.peak);
    timeline.show(from ?? 0, to ?? space.length);
    this.view.showBytes(...verticalOf(this.view, fields));
  }

  async open(space, fields = {}) {
    space = space.time ?? space;
    const [svg] = await Promise.all([space.drawn(), space.load()]);
    this.axis = axes[fields.axis] && timed(space) ? fields.axis : usualAxis(space);
    this.space = space = this.axis === 'event' ? space.events ||= byEvent(space) : space;
    this.selectors.show(space);
    this.time = Math.max(0, Math.min(relative(space, fields.t) ?? space.peak, Math.max(space.length - 1, 0)));
    this.function = fields.function || null;
    this.fields = {}; // of the highlight: q, site or finding
    this.color = modes[fields.color] ? fields.color : usualColor(this.space);
    const layout = this.layouts().includes(fields.layout) ? fields.layout : this.layouts()[0];
    this.options = {layout, color: this.color, legend: null, lit: null, buffer: null, time: this.time};
    this.timeline = new Timeline(space, () => this.moved());
    this.view?.close();
    this.view = new View(this.space, svg, this.timeline, this.options, {hover: (id, e) => this.card.show(this.space, id, e), pick: (id, t) => this.pick(id, t), zoomed: () => this.write()});
    this.build();
    const from = relative(space, fields.from), to = relative(space, fields.to);
    if (from !== null && to !== null) this.timeline.show(from, to);
    if (fields.low) this.view.showBytes(...verticalOf(this.view, fields));
    this.restore(fields);
    this.showTab(this.tabs.some((t) => t.key === fields.tab) ? fields.tab : 'sites');
    const failed = this.space.ooms.at(-1);
    this.view.reveal(failed ? failed.begin : this.space.peak);
  }

  // restore restores the highlight and the pinned buffer of an address.
  restore(fields) {
    this.search.value = fields.q || '';
    const {capture} = this.space, f = entry(capture.findings, fields.finding);
    if (f) this.light(f.sites.length ? f.sites : null, `${f.rule.replaceAll('_', ' ')}: ${f.sites.length ? capture.siteName(f.sites[0]) : 'the whole memory'}`, {finding: fields.finding});
    else if (fields.q) this.find(fields.q);
    else if (entry(capture.sites, fields.site)) this.light([Number(fields.site)], capture.siteName(Number(fields.site)), {site: fields.site});
    if (/^\d+$/.test(fields.buffer) && Number(fields.buffer) < this.space.count) this.pin(Number(fields.buffer));
  }

  // showFailure opens the memory map at the first request that failed.
  async showFailure() {
    const space = failedSpace(this.space.capture);
    if (space !== (this.space.time ?? this.space)) await this.open(space, {tab: 'map'});
    else this.showTab('map');
    this.setTime(this.space.ooms[0].begin);
    this.panel.scrollIntoView();
  }

  layouts() {
    return Object.keys(layoutsOf(this.space));
  }

  // build creates the parts of the page for a space.
  build() {
    const {space} = this;
    this.moment = el('p', {class: 'moment', role: 'status', id: 'moment'});
    this.rangePlace = el('p', {class: 'moment', id: 'range'});
    this.litPlace = el('p', {class: 'lit-bar', role: 'status', id: 'lit'});
    this.pinPlace = el('div', {id: 'pin'});
    this.tabPlace = el('div', {role: 'tablist', class: 'tabs'});
    this.panel = el('div', {role: 'tabpanel', class: 'panel', id: 'panel'});
    const choice = (name, names, value, set) => el('label', {}, el('span', {}, name), el('select', {'aria-label': name, 'data-choice': name, onchange: (e) => set(e.target.value)},
      Object.entries(names).map(([key, text]) => el('option', {value: key, selected: key === value}, text))));
    const markdown = () => doing('Copy as Markdown', 'the answer, the first rows of the table and the stack, to paste into an issue', async () => { await copyText(this.markdown()); return 'copied'; });
    const toFinding = (i) => link({...this.place(), finding: i, tab: 'findings'});
    const first = firstFindings(space.capture, toFinding, space), leaks = space.capture.findings.some((f) => f.leak && f.severity !== 'info');
    const changes = whatIf(space, (saving) => this.change(saving));
    const beside = [died(space.capture, () => this.showFailure(), this.commands), leaks && first, changes.lower, !leaks && first].filter(Boolean);
    const {still} = this.view, timeless = still || timed(space.time ?? space) === false, layouts = layoutsOf(space);
    replace(this.main, el('section', {class: 'headline', 'aria-label': 'answer'}, headline(space.capture), summary(space, (t) => this.setTime(t))),
      devices(this.captures, space.time ?? space, (other) => this.open(other, {tab: this.tab === 'map' || this.tab === 'compare' ? undefined : this.tab})), damage(space.capture, () => this.showTab('capture')),
      el('section', {'aria-label': 'memory over time', class: 'over'},
        el('div', {class: 'charts'},
          el('div', {class: 'bar'}, !timeless && choice('axis', axes, this.axis, (v) => this.open(space, {...this.state(), axis: v})), !still && Object.keys(layouts).length > 1 && choice('layout', layouts, this.options.layout, (v) => this.setLayout(v)),
            !space.noBlocks && choice('colours', modes, this.color, (v) => this.setColor(v)), !still && button('whole', 'the whole recording (0)', () => this.whole()), el('span', {class: 'push'}),
            this.view.svg && button('Save SVG', 'this picture, as memlane svg draws it', () => save(`${fileName(this.space)}.svg`, 'image/svg+xml', this.svg())),
            (this.view.svg || !still) && doing('Copy picture', 'this picture, to paste into an issue', () => copyPicture(space, this.view.canvas())), markdown()),
          el('div', {class: 'stage', tabindex: '0', role: 'group', 'aria-label': 'the picture, which scrolls'}, this.view.element),
          space.notRecorded && endOnly(space), space.static && this.commands && el('p', {class: 'note'}, 'What-if is not drawn: memlane whatif lists changes.'), el('div', {class: 'now'}, !still && this.moment, this.rangePlace, this.litPlace, changes.switches), this.pinPlace),
        beside.length > 0 && el('aside', {class: 'beside', 'aria-label': 'what to do'}, beside)),
      el('section', {'aria-label': 'details', class: 'details'}, el('div', {class: 'bar'}, this.tabPlace, el('span', {class: 'push'}), this.csvButton = button('Save CSV', 'all rows of this table', () => save(`${fileName(this.space)}.${this.tab}.csv`, 'text/csv', this.csv()))), this.panel));
    if (!space.noBlocks) this.setLegend();
    this.view.make();
    this.buildTabs();
    this.observer?.disconnect();
    this.observer = new ResizeObserver(() => this.resized());
    this.observer.observe(this.view.element);
    this.width = this.view.element.clientWidth;
    for (const {parentElement: list, offsetTop} of this.main.querySelectorAll('.device[aria-current=true]')) list.scrollTop = offsetTop - list.offsetTop;
  }

  buildTabs() {
    const {space} = this, on = {activate: (row) => this.chooseRow(row), lit: (row) => this.isLit(row)};
    const lit = (sites, name) => (sites ? this.light(sites, name, {}) : this.unlight()), named = (holders, name) => (holders ? this.light([], name, {}, holders) : this.unlight());
    const chosen = (of) => { this.function = of; this.write(); };
    const n = space.capture.findings.length;
    this.tabs = [
      {key: 'sites', name: 'Breakdown', timed: true, make: () => siteTable(space, on)},
      !space.noBlocks && {key: 'buffers', name: 'Each buffer', timed: true, make: () => bufferTable(space, on)},
      {key: 'flame', name: 'Flame graph', timed: true, make: () => new Flame(space, lit, chosen)},
      space.named && {key: 'names', name: 'Names', timed: true, make: () => new Flame(space, named, () => {}, true)},
      space.length > 1 && !space.notRecorded && {key: 'growth', name: 'What grew', make: () => new Growth(space, this.timeline, lit, chosen, on)},
      hasSegments(space) && {key: 'map', name: 'Memory map', timed: true, make: () => new MemoryMap(space, this.options, {hover: (id, e) => this.card.show(space, id, e), pin: (i) => this.pin(i), go: (t) => this.setTime(t)})},
      {key: 'findings', name: `Findings (${count(n)})`, make: () => ({element: findingsList(space.capture, (i) => link({...this.place(), finding: i, tab: 'findings'}), space)})},
      this.captures.filter((c) => c.spaces.length).length > 1 && {key: 'compare', name: 'Compare', make: () => new Compare(this.captures.filter((c) => c.spaces.length), (shown, sites, name) => this.lightIn(shown, sites, name))},
      {key: 'capture', name: `Recording (${several(space.capture.info.losses.length, 'warning')})`, make: () => ({element: el('div', {}, allFigures(space), losses(space.capture), settings(space.capture))})},
    ].filter(Boolean);
    replace(this.tabPlace, this.tabs.map((tab) => tab.button = button(tab.name, '', () => this.showTab(tab.key), {role: 'tab', 'data-tab': tab.key})));
  }

  showTab(key) {
    this.tab = key;
    for (const tab of this.tabs) tab.button.setAttribute('aria-selected', String(tab.key === key));
    const tab = this.current();
    tab.part ||= tab.make();
    replace(this.panel, tab.part.element);
    this.main.classList.toggle('comparing', key === 'compare');
    this.csvButton.hidden = !(tab.part.csv || key === 'compare');
    if (key === 'compare' || key === 'growth') tab.part.show();
    this.fillTab();
    const flame = tab.part.flame ?? tab.part;
    if (flame instanceof Flame && !flame.named && flame.of !== this.function) flame.choose(this.function);
    this.write();
  }

  current() {
    return this.tabs.find((tab) => tab.key === this.tab);
  }

  fillTab() {
    const tab = this.current();
    if (tab?.timed) tab.part.at(this.time);
    this.moment.textContent = describe(this.space, this.time);
  }

  // setTime moves all parts to time t.
  setTime(t) {
    const {space} = this;
    this.time = this.options.time = Math.max(0, Math.min(Math.round(t), space.length - 1));
    if (this.time < this.timeline.from || this.time >= this.timeline.to) {
      const half = (this.timeline.to - this.timeline.from) / 2;
      this.timeline.show(this.time - half, this.time + half);
    }
    this.fillTab();
    this.view.show();
    this.write();
  }

  // step goes to the previous or the next change.
  step(direction) {
    const {at} = this.space.curve, i = this.space.levelAt(this.time) + direction;
    const here = direction < 0 && i >= -1 && at[i + 1] < this.time ? i + 1 : i;
    if (at[here] !== undefined) this.setTime(at[here]);
  }

  moved() {
    this.view.update();
    clearTimeout(this.settling); // once the wheel stops: it takes longer than a frame
    this.settling = setTimeout(() => this.settled(), 100);
    this.write();
  }

  // settled shows what grew in the visible range.
  settled() {
    if (this.closing.signal.aborted) return;
    const {space, timeline} = this;
    replace(this.rangePlace, timeline.zoomed && space.length > 1 && [`${growthText(space, ...rangeOf(timeline))} `, button('what grew', 'g', () => this.showTab('growth'))]);
    if (this.tab === 'growth') this.current().part.show();
  }

  whole() {
    this.view.whole();
    this.timeline.from = 0;
    this.timeline.to = this.space.length;
    this.moved();
  }

  pick(id, t) {
    if (id !== null && id >= 0) this.pin(id);
    else this.setTime(t);
  }

  chooseRow(row) {
    if (row.buffer !== undefined) this.pin(row.buffer);
    else if (row.holders) this.light([], row.name, {}, row.holders);
    else if (!row.category) this.light(row.sites ?? [row.site], this.space.capture.siteName(row.site), {site: row.site});
  }

  pin(i) {
    this.options.buffer = i;
    replace(this.pinPlace, i === null ? null : pinned(this.space, i, () => this.light([this.space.site[i]], this.space.capture.siteName(this.space.site[i]), {site: this.space.site[i]}), () => this.pin(null)));
    this.view.redraw();
    if (this.tab === 'map') this.current().part.draw();
    this.write();
  }

  // find highlights the buffers that match a text, or pins the buffer at an address.
  find(text) {
    if (/^0x[\da-f]+$/i.test(text) && this.space.addresses) this.findAddress(text);
    else this.searched(text);
  }

  // findAddress pins the buffer that covers an address at this time, or else the next one, and offers the others.
  findAddress(text) {
    const {space} = this, all = space.covering(Number(BigInt(text) - space.lowestAddress));
    const chosen = all.find((i) => space.aliveAt(i, this.time)) ?? all.find((i) => space.begin[i] > this.time) ?? all.at(-1);
    this.search.classList.remove('wrong');
    this.options.lit = null;
    this.fields = {q: text};
    this.pin(chosen ?? null);
    replace(this.litPlace, el('span', {class: 'lamp'}), ` ${text}: ${all.length ? `in ${several(all.length, 'buffer')}` : 'in no recorded buffer'} `,
      all.slice(0, 8).map((i) => button(`${bytes(space.size[i])} since ${since(space, Math.max(space.begin[i], 0))}`, 'go there and pin it', () => { this.setTime(Math.max(space.begin[i], 0)); this.pin(i); })),
      button('×', 'clear (Esc)', () => this.unlight(), {class: 'close'}));
    this.lightChanged();
  }

  // searched highlights the buffers whose site, name or holder matches a text.
  searched(text) {
    const match = matcher(text), {capture} = this.space;
    this.search.classList.toggle('wrong', !match);
    if (text && match) this.light(capture.sitesMatching(match), text, {q: text}, capture.holdersMatching(match));
    else this.unlight({q: text});
  }

  // light highlights the buffers of sites and of holders; null clears the highlight.
  light(sites, name, fields, holders = []) {
    if (!sites) return this.unlight(fields);
    const {space} = this, mask = (list, n) => { const one = new Uint8Array(n); for (const k of list) one[k] = 1; return one; };
    this.lit = {sites: mask(sites, space.capture.sites.length), holders: mask(holders, space.capture.holders.length)};
    this.shine(name, fields, (i) => this.lit.sites[space.site[i]] || this.lit.holders[space.holder[i]]);
  }

  // change draws what would be in use after a change, and highlights the buffers that it changes; null removes both.
  change(saving) {
    this.view.outline(saving?.line, saving?.peak);
    if (!saving?.marks.length) return this.unlight();
    const marked = new Set();
    saving.marks.reduce((last, step) => { marked.add(last + step); return last + step; }, 0);
    this.lit = {sites: [], holders: []};
    this.shine(saving.change, {}, (i) => marked.has(i));
  }

  // shine highlights the buffers that are chosen.
  shine(name, fields, chosen) {
    const {space} = this, lit = this.options.lit = new Uint8Array(space.count);
    this.fields = fields;
    let n = 0, at = 0;
    for (let i = 0; i < space.count; i++) {
      if (!chosen(i)) continue;
      lit[i] = 1;
      n++;
      if (space.aliveAt(i, this.time)) at += space.size[i];
    }
    const most = space.most(lit);
    replace(this.litPlace, el('span', {class: 'lamp'}), ` ${name}: ${several(n, 'buffer')}, ${bytes(at)} at this moment`, most.bytes > at && [`; most: ${bytes(most.bytes)} at ${since(space, most.t)} `, button('go', 'go to the time at which they hold most', () => this.setTime(most.t))], ' ', button('×', 'clear highlight (Esc)', () => this.unlight(), {class: 'close'}));
    this.lightChanged();
  }

  // isLit reports whether buffers of a row of a table are highlighted.
  isLit(row) {
    const {lit} = this.options;
    if (!lit || row.category) return false;
    if (row.buffer !== undefined) return lit[row.buffer] === 1;
    if (row.holders) return row.holders.some((holder) => this.lit.holders[holder]);
    return (row.sites ?? [row.site]).some((site) => this.lit.sites[site]);
  }

  unlight(fields = {}) {
    this.options.lit = null;
    this.fields = fields;
    replace(this.litPlace);
    this.lightChanged();
  }

  lightChanged() {
    this.view.redraw();
    this.current()?.part?.draw?.();
    this.write();
  }

  // lightIn leaves the comparison and highlights sites in a space.
  async lightIn(space, sites, name) {
    if (space !== (this.space.time ?? this.space)) await this.open(space, {tab: 'sites'});
    else this.showTab('sites');
    this.light(sites, name, {});
  }

  setLayout(layout) {
    if (this.view.still) return;
    this.options.layout = layout;
    this.mirror('layout', layout);
    this.view.relayout();
    this.write();
  }

  setColor(color) {
    if (this.space.noBlocks) return;
    this.color = this.options.color = color;
    this.mirror('colours', color);
    this.setLegend();
    this.view.recolor();
    if (this.tab === 'map') this.current().part.draw();
    this.write();
  }

  // mirror shows what is chosen.
  mirror(choice, value) {
    const select = document.querySelector(`[data-choice=${choice}]`);
    if (select) select.value = value;
  }

  setLegend() {
    const {space} = this, legend = this.options.legend = new Legend(space, this.color);
    const names = shorten(legend.rows.map((row) => row.name), longestKey);
    const text = (row, name) => `${row.leak ? 'leak: ' : ''}${name}${row.bytes ? ` ${bytes(row.bytes)}` : ''}`;
    replace(this.view.keys, legend.rows.map((row, i) => key(text(row, names[i]), row.fill, row.leak, row.sites.length && (() => this.light(row.sites, row.name, {})), text(row, row.name))));
  }

  toggleTheme() {
    this.restyle(style('scheme') !== 'dark');
  }

  // restyle makes the page dark or light and redraws it.
  restyle(dark) {
    setTheme(dark);
    this.view.make();
    const tab = this.current();
    if (tab.key === 'compare' || tab.key === 'map') this.showTab(tab.key);
  }

  // print prepares the page for printing: light, with the first rows of its table; that of call sites if the tab has none.
  print(dark, begins) {
    this.restyle(dark);
    const {part} = this.current(), table = this.table();
    part.draw?.(begins);
    if (part === table || part.table === table) return;
    if (begins) this.panel.prepend(table.element);
    else table.element.remove();
    table.draw(begins);
  }

  resized() {
    const {clientWidth} = this.view.element;
    if (!clientWidth || this.width === clientWidth) return;
    this.width = clientWidth;
    this.view.resize();
  }

  // svg returns the picture, csv the table.
  svg() {
    return this.view.svg;
  }

  csv() {
    return this.table().csv();
  }

  // table returns the table that is shown, by default that of call sites.
  table() {
    const {part} = this.current(), shown = part.table instanceof Table ? part.table : part;
    if (shown instanceof Table) return shown;
    const [sites] = this.tabs;
    sites.part ||= sites.make();
    sites.part.at(this.time);
    return sites.part;
  }

  // markdown returns the answer, the first rows of the table and the stack of the pinned buffer, else of the first row.
  markdown() {
    const {space, timeline} = this, {capture} = space, table = this.table(), [rows, numbers] = table.first(10);
    const growth = this.tab === 'growth' || timeline.zoomed;
    const pinned = this.options.buffer, site = pinned !== null ? space.site[pinned] : table.shown[0]?.sites?.[0] ?? table.shown[0]?.site;
    const frames = site ? capture.folded(stackOf(space, capture.sites[site])).frames.map(frameText) : [];
    return [
      `**${escape(capture.name.split(/[\\/]/).pop())}**, ${escape(space.id)}`, capture.headline && capture.headline.split('\n').map(escape).join('\n\n'), escape(describe(space, this.time)),
      growth && escape(growthText(space, ...rangeOf(timeline))), tableText(rows, numbers),
      frames.length > 0 && `${pinned !== null ? 'The pinned buffer' : 'The first row'} was allocated by:\n\n${code(frames)}`, `View:\n\n${code([link(this.state()).replace(/^[^#]*/, '')])}`,
    ].filter(Boolean).join('\n\n') + '\n';
  }

  // place returns the fields of the address for capture, space and time.
  place() {
    const {space, timeline} = this;
    return {
      capture: space.capture.number || null, space: space.id, axis: this.axis === usualAxis(space) ? null : this.axis, t: this.time === space.peak ? null : space.instant(this.time),
      from: timeline.zoomed ? space.instant(timeline.from) : null, to: timeline.zoomed ? space.instant(timeline.to) : null,
    };
  }

  write() {
    write(this.state());
  }

  // state returns the fields of the address.
  state() {
    const {space, view} = this, vertical = view.zoomed && {low: Math.round(view.low), high: Math.round(view.high)};
    return {...this.place(), ...vertical, ...this.fields, buffer: this.options.buffer, layout: this.options.layout === this.layouts()[0] ? null : this.options.layout,
      color: this.color === usualColor(this.space) ? null : this.color, tab: this.tab === 'sites' ? null : this.tab, function: this.tab === 'growth' || this.tab === 'flame' ? this.function : null};
  }

  async start() {
    if (this.captures.some((c) => c.spaces.length)) {
      await this.go(read());
      return;
    }
    replace(this.main, this.captures.map((c) => damage(c, () => {})), el('p', {class: 'empty'}, 'No memory was recorded.'), this.captures.map((c) => [losses(c), findingsList(c, () => '#')]));
  }
}

// worst returns captures, first those that ran out of memory, then those with the highest peaks.
function worst(captures) {
  const died = (c) => c.spaces.some((s) => s.ooms.length), peak = (c) => Math.max(0, ...c.spaces.map((s) => s.info.peak.bytes));
  return [...captures].sort((a, b) => died(b) - died(a) || peak(b) - peak(a));
}

// failedSpace returns the first space with segments in which a request failed.
const failedSpace = (capture) => capture.spaces.find((s) => s.ooms.length && s.regions.length && s.buffers);

// doing is a button that tells for a moment what it did.
function doing(text, title, action) {
  const one = button(text, title, async () => {
    one.textContent = await action();
    setTimeout(() => { one.textContent = text; }, 1500);
  }, {'aria-live': 'polite'});
  return one;
}

// same reports whether an address has the fields of a state, but for the range and the time.
function same(fields, state) {
  const rest = ({from, to, low, high, t, ...others}) => JSON.stringify(Object.entries(others).filter(([, value]) => value !== null && value !== undefined && value !== '').map(([name, value]) => [name, String(value)]).sort());
  return rest(fields) === rest(state);
}

// relative returns the time in an address relative to the window of a space; null without one.
const relative = (space, text) => (/^-?\d+$/.test(text || '') ? space.placeOf(Number(BigInt(text) - (space.time ?? space).origin)) : null);

// The axes of spaces with times. Events are usual if half of them take a twentieth of the time, as in pictures.
const axes = {time: 'time', event: 'events'};
const timed = (space) => space.unit === 'ns' && !space.usageOnly && space.count > 0;
const usualAxis = (space) => (space.crowded ? 'event' : 'time');

// verticalOf returns the bytes or places that an address shows, by default all.
const verticalOf = (view, {low, high}) => (/^\d+$/.test(low) && /^\d+$/.test(high) ? [Number(low), Number(high)] : [0, view.top]);

const longestKey = 44; // characters of a name, which with "leak: " and bytes fit .key of page.css

// key is one entry of a legend.
function key(name, color, leak, onclick, title = name) {
  return el(onclick ? 'button' : 'span', {class: leak ? 'key leak' : 'key', type: onclick ? 'button' : null, title, onclick: onclick || (() => {})}, el('i', {style: {background: color}}), name);
}
