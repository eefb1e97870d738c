// The heat map: a row for each memory, a column for each part of its window. It draws only
// visible rows, so that ten thousand are as fast as ten.

import {mix, pixelColor, shades} from '../../../../render/web/page/colors.js';
import {el} from '../../../../render/web/page/dom.js';
import {style} from '../../../../render/web/page/theme.js';

const colours = 256;
const barWidth = 4; // of the marks left of the names
const overviewWidth = 64;

// rowHeight is how tall each of n rows is, in pixels.
const rowHeight = (n) => (n <= 32 ? 22 : n <= 100 ? 14 : n <= 400 ? 8 : 5);

// Heat shows rows {label, outlier} whose usage(row, part) is a share from 0 to 1, or below 0
// if it is unknown. on.hover(row, part, event), on.open(row) and on.move(row) are
// called for the mouse and the keyboard.
export class Heat {
  constructor(parts, usage, on) {
    Object.assign(this, {parts, usage, on});
    this.rows = [];
    this.lit = new Set(); // highlighted rows
    this.active = -1;
    this.part = 0;
    this.canvas = el('canvas');
    this.space = el('div', {'aria-hidden': 'true'});
    this.scroller = el('div', {class: 'heat-rows', tabindex: 0, role: 'application', 'aria-label': 'ranks over time: arrow keys move, Enter opens the page of a rank', 'aria-describedby': 'now-row'}, this.canvas, this.space);
    this.overview = el('canvas', {class: 'heat-all', 'aria-hidden': 'true'});
    this.element = el('div', {class: 'heat'}, this.scroller, this.overview);
    this.pixels = el('canvas'); // one pixel for each part of each visible row
    this.scroller.addEventListener('scroll', () => this.draw());
    this.scroller.addEventListener('mousemove', (e) => this.hover(e));
    this.scroller.addEventListener('mouseleave', () => on.hover(null));
    this.scroller.addEventListener('click', (e) => this.click(e));
    this.scroller.addEventListener('keydown', (e) => this.key(e));
    const drag = (e) => e.buttons & 1 && this.scrollTo((e.offsetY / this.overview.clientHeight) * this.rows.length);
    this.overview.addEventListener('pointerdown', drag);
    this.overview.addEventListener('pointermove', drag);
    new ResizeObserver(() => this.layout()).observe(this.element);
  }

  show(rows) {
    this.rows = rows;
    this.active = -1;
    this.height = rowHeight(rows.length);
    this.scroller.scrollTop = 0;
    this.layout();
  }

  light(rows) {
    this.lit = rows;
    this.layout();
  }

  restyle() {
    this.layout();
  }

  // layout computes sizes and colours, and draws everything.
  layout() {
    if (!this.height) return;
    const dark = style('scheme') === 'dark', paper = style('paper');
    const scale = dark ? [...shades].reverse() : shades;
    const ramp = Array.from({length: colours}, (_, i) => {
      const at = i / (colours - 1) * (scale.length - 1), k = Math.min(Math.floor(at), scale.length - 2);
      return mix(scale[k], scale[k + 1], at - k);
    });
    this.ramp = ramp;
    this.bright = Uint32Array.from(ramp, (hex) => pixelColor(hex));
    this.dim = Uint32Array.from(ramp, (hex) => pixelColor(mix(hex, paper, 0.75)));
    const total = this.rows.length * this.height;
    this.gutter = this.element.clientWidth < 480 ? 76 : 96;
    this.overview.hidden = true;
    this.seen = Math.min(total, Math.floor(0.7 * innerHeight) - 2);
    this.overview.hidden = total <= this.seen || this.element.clientWidth < 480;
    const axis = (this.element.parentElement ?? this.element).style; // where the columns are
    axis.setProperty('--heat-left', `${this.gutter}px`);
    axis.setProperty('--heat-right', this.overview.hidden ? '0' : `${overviewWidth + 10}px`);
    this.scroller.style.height = `${Math.max(this.seen, 24) + 2}px`;
    this.space.style.height = `${Math.max(0, total - this.seen)}px`;
    this.width = this.scroller.clientWidth;
    size(this.canvas, this.width, Math.max(this.seen, 1));
    if (!this.overview.hidden) this.drawOverview();
    this.draw();
  }

  colour(row, part, table) {
    const share = this.usage(row, part);
    return share < 0 ? 0 : table[Math.min(colours - 1, Math.round(share * (colours - 1)))];
  }

  tableOf(row) {
    return this.lit.size && !this.lit.has(row) ? this.dim : this.bright;
  }

  draw() {
    const {height, gutter, width, parts, rows} = this, context = this.canvas.getContext('2d');
    context.clearRect(0, 0, width, this.seen);
    const first = Math.floor(this.scroller.scrollTop / height), last = Math.min(rows.length, first + Math.ceil(this.seen / height) + 1);
    if (last <= first) return;
    this.pixels.width = parts;
    this.pixels.height = last - first;
    const image = new ImageData(parts, last - first), colour = new Uint32Array(image.data.buffer);
    for (let i = first; i < last; i++) {
      const table = this.tableOf(rows[i]);
      for (let part = 0; part < parts; part++) colour[(i - first) * parts + part] = this.colour(rows[i], part, table);
    }
    this.pixels.getContext('2d').putImageData(image, 0, 0);
    const top = first * height - this.scroller.scrollTop;
    context.imageSmoothingEnabled = false;
    context.drawImage(this.pixels, gutter, top, width - gutter, (last - first) * height);
    this.label(context, first, last, top);
    if (!this.overview.hidden) this.drawFrame();
  }

  // label writes names, marks outliers and highlighted rows, and draws the active row.
  label(context, first, last, top) {
    const {height, gutter, width, rows} = this;
    const every = Math.ceil(13 / height);
    context.font = '11px system-ui, sans-serif';
    context.textBaseline = 'middle';
    for (let i = first; i < last; i++) {
      const y = top + (i - first) * height, row = rows[i];
      if (height >= 8) {
        context.fillStyle = style('paper');
        context.fillRect(gutter, y + height - 1, width - gutter, 1);
      }
      this.mark(context, row, y, height, barWidth);
      if (i % every === 0 && height * every >= 11) {
        context.fillStyle = this.lit.size && !this.lit.has(row) ? style('muted') : style('fg');
        context.fillText(fitting(context, row.label, gutter - 2 * barWidth - 8), 2 * barWidth + 4, y + height * (every > 1 ? 1 : 0.5) + (every > 1 ? 1 : 0));
      }
    }
    if (this.active >= first && this.active < last) {
      const y = top + (this.active - first) * height, cell = (width - gutter) / this.parts;
      context.strokeStyle = style('accent');
      context.lineWidth = 1.5;
      context.strokeRect(1, y + 0.5, width - 2, Math.max(height - 1, 3));
      if (document.activeElement === this.scroller) context.strokeRect(gutter + this.part * cell, y + 0.5, cell, Math.max(height - 1, 3));
    }
  }

  mark(context, row, y, height, width) {
    if (row.outlier) {
      context.fillStyle = style(row.outlier === 'info' ? 'muted' : row.outlier === 'critical' ? 'bad' : 'warn');
      context.fillRect(0, y, width, Math.max(height, 1));
    }
    if (this.lit.has(row)) {
      context.fillStyle = style('accent');
      context.fillRect(width, y, width, Math.max(height, 1));
    }
  }

  // drawOverview draws all rows into the height of the visible ones. Rows that share a pixel
  // show the highest level.
  drawOverview() {
    const {rows, parts, seen} = this;
    const image = new ImageData(parts, seen), colour = new Uint32Array(image.data.buffer);
    const lines = Array.from({length: seen}, (_, y) => [Math.floor(y * rows.length / seen), Math.max(Math.floor((y + 1) * rows.length / seen), Math.floor(y * rows.length / seen) + 1)]);
    lines.forEach(([from, to], y) => {
      const some = rows.slice(from, to);
      const lit = some.filter((row) => this.lit.has(row));
      for (let part = 0; part < parts; part++) {
        let most = -1;
        for (const row of lit.length ? lit : some) most = Math.max(most, this.usage(row, part));
        if (most >= 0) colour[y * parts + part] = (this.lit.size && !lit.length ? this.dim : this.bright)[Math.min(colours - 1, Math.round(most * (colours - 1)))];
      }
    });
    this.all = el('canvas');
    size(this.all, overviewWidth, seen);
    this.pixels.width = parts;
    this.pixels.height = seen;
    this.pixels.getContext('2d').putImageData(image, 0, 0);
    const context = this.all.getContext('2d');
    context.drawImage(this.pixels, 2 * barWidth, 0, overviewWidth - 2 * barWidth, seen);
    lines.forEach(([from, to], y) => {
      for (let i = from; i < to; i++) this.mark(context, rows[i], y, 1, barWidth);
    });
    size(this.overview, overviewWidth, seen);
  }

  // drawFrame draws the overview with a frame around the visible rows.
  drawFrame() {
    const context = this.overview.getContext('2d'), {seen} = this, total = this.rows.length * this.height;
    context.clearRect(0, 0, overviewWidth, seen);
    context.drawImage(this.all, 0, 0, overviewWidth, seen);
    context.strokeStyle = style('accent');
    context.lineWidth = 1.5;
    context.strokeRect(1, this.scroller.scrollTop / total * seen + 1, overviewWidth - 2, Math.max(seen * seen / total - 2, 3));
  }

  // drawScale draws the colours into the canvas of the legend.
  drawScale(canvas) {
    canvas.width = colours;
    canvas.height = 1;
    const context = canvas.getContext('2d');
    this.ramp.forEach((hex, i) => {
      context.fillStyle = hex;
      context.fillRect(i, 0, 1, 1);
    });
  }

  // at returns the row and the part of the window under the mouse.
  at(e) {
    const box = this.canvas.getBoundingClientRect();
    const row = Math.floor((e.clientY - box.top + this.scroller.scrollTop) / this.height);
    const part = Math.floor((e.clientX - box.left - this.gutter) / (this.width - this.gutter) * this.parts);
    return row >= 0 && row < this.rows.length && part < this.parts ? [row, part] : null;
  }

  hover(e) {
    const at = this.at(e);
    this.scroller.classList.toggle('open', !!at && !!this.rows[at[0]].page);
    if (at) this.on.hover(this.rows[at[0]], at[1], e);
    else this.on.hover(null);
  }

  click(e) {
    const at = this.at(e);
    if (!at) return;
    this.move(at[0], Math.max(0, at[1]));
    this.on.open(this.rows[at[0]]);
  }

  // move makes a row active and scrolls to it.
  move(row, part = this.part) {
    this.active = Math.max(0, Math.min(this.rows.length - 1, row));
    this.part = Math.max(0, Math.min(this.parts - 1, part));
    const top = this.active * this.height, {scroller} = this;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    if (top + this.height > scroller.scrollTop + this.seen) scroller.scrollTop = top + this.height - this.seen;
    this.draw();
    this.on.move(this.rows[this.active], this.part);
  }

  scrollTo(row) {
    this.scroller.scrollTop = row * this.height - this.seen / 2;
  }

  key(e) {
    const page = Math.max(1, Math.floor(this.seen / this.height) - 1);
    const rows = {ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity}[e.key], parts = {ArrowRight: 1, ArrowLeft: -1}[e.key];
    if (!this.rows.length || e.ctrlKey || e.metaKey || e.altKey) return;
    if (rows) this.move(this.active < 0 ? 0 : this.active + rows);
    else if (parts) this.move(Math.max(0, this.active), this.part + parts);
    else if (e.key === 'Enter' && this.active >= 0) this.on.open(this.rows[this.active]);
    else return;
    e.preventDefault();
  }
}

// size sets the size of a canvas in CSS pixels, and its resolution to that of the screen.
function size(canvas, width, height) {
  canvas.width = Math.round(width * devicePixelRatio);
  canvas.height = Math.round(height * devicePixelRatio);
  Object.assign(canvas.style, {width: `${width}px`, height: `${height}px`});
  canvas.getContext('2d').setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
}

// fitting removes the beginning of a text until it fits: file names differ at their ends.
function fitting(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let end = text.slice(-40);
  while (end.length > 1 && context.measureText(`…${end}`).width > room) end = end.slice(1);
  return `…${end}`;
}
