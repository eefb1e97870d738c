// The picture of a space. It is the SVG of memlane svg until a reader chooses a part of it, another layout or other colours, or highlights
// buffers: then the same plot is drawn here, in the same place and on the same scale.

import {hexOf} from './breakdown.js';
import {axes, cursor, follow, uPlot} from './chart.js';
import {colored, usualColor} from './colors.js';
import {el} from './dom.js';
import {Extremes} from './extremes.js';
import {bytes, since} from './format.js';
import {placesOf} from './places.js';
import {byAddress, stacked} from './raster.js';
import {lastUpTo} from './space.js';
import {style} from './theme.js';

// layoutsOf returns the layouts of a space, the usual one first.
export function layoutsOf(space) {
  const all = {};
  if (space.picture) all.picture = 'picture';
  if (!space.noBlocks) all.stacked = 'each buffer';
  if (!space.noBlocks && space.addresses) all.address = 'by address';
  return all;
}

const usual = {width: 960, height: 420, left: 86, right: 724, top: 66, bottom: 358}; // of a space without a picture
const heading = 52; // pixels of a picture that have its title

// View calls on.hover(buffer, event), on.pick(buffer, t) and on.zoomed() after bytes were zoomed. svg has the bytes of the picture, null for none.
export class View {
  constructor(space, svg, timeline, options, on) {
    Object.assign(this, {space, svg, timeline, options, on}); // options: {layout, color, legend, lit: Uint8Array of buffers or null, buffer, time}
    const {picture} = space, text = svg && new TextDecoder().decode(svg), alt = space.capture.headline || `memory over time: peak ${bytes(space.info.peak.bytes)}`;
    this.still = space.notRecorded || svg && picture.right <= picture.left; // it has no axis: the picture is all
    this.frame = svg && !this.still ? picture : usual;
    this.extra = 0; // pixels of the picture above it, for a line that is higher
    this.images = svg ? ['light', 'dark'].map((theme) => el('img', {class: theme, alt, src: url(themed(text, theme)), draggable: 'false'})) : [];
    this.line = el('i', {class: 'mark'});
    this.label = el('output', {class: 'value', hidden: true});
    this.keys = el('div', {class: 'legend', id: 'legend'});
    const {width, height, right, top} = this.frame, share = (n, of) => `${100 * n / of}%`;
    Object.assign(this.keys.style, {left: share(right + 16, width), top: share(top, height), maxHeight: share(height - top, height)});
    this.plotted = el('div', {class: 'plotted', style: this.still ? {} : {aspectRatio: `${width} / ${height}`}}, this.images, !this.still && [this.keys, this.line, this.label]);
    const all = this.still && text ? Number(/ width="(\d+)"/.exec(text)[1]) : width;
    if (this.still) for (const image of this.images) image.style.maxWidth = `${all}px`; // its texts are as large as those of others
    const shown = this.still ? 600 : right + 24; // of a phone
    this.narrow = picture && picture !== space.wide; // keys are below it, in the place of those of the picture
    if (this.narrow) this.keys.style.marginTop = share(this.frame.bottom + 50 - height, width);
    this.element = el('div', {class: 'hero', role: 'group', 'aria-label': 'the picture'}, this.plotted, this.narrow && !this.still && this.keys);
    this.element.style.setProperty('--wide', share(Math.max(all, shown), shown));
    this.whole();
  }

  // plain reports whether the picture shows what is chosen.
  get plain() {
    const {space, options, timeline} = this;
    return this.images.length > 0 && (this.still || options.layout === 'picture' && options.color === usualColor(space) && !options.lit && options.buffer === null &&
      !timeline.zoomed && !this.zoomed && (space.time !== undefined) === (space.crowded && !space.static));
  }

  get address() {
    return this.options.layout === 'address' || this.options.layout === 'picture' && this.space.picture.address;
  }

  // whole shows all bytes.
  whole() {
    const {space, frame} = this;
    if (this.address) this.places ||= placesOf(space);
    this.low = 0;
    this.high = this.top = this.address ? Math.max(this.places.height, 1) : frame.ceiling || Math.max(1, space.curve.bytes[space.levelAt(space.peak)] * 1.04 || 1);
  }

  // range returns the vertical axis for chart.js.
  range() {
    return {low: this.low, high: this.high};
  }

  zoom(factor, at = (this.low + this.high) / 2) {
    this.showBytes(at - (at - this.low) * factor, at + (this.high - at) * factor);
  }

  moveFrom({low, high}, share) {
    this.showBytes(low + (high - low) * share, high + (high - low) * share);
  }

  showBytes(low, high) {
    const length = Math.min(Math.max(high - low, 64), this.top);
    low = Math.max(0, Math.min(low, this.top - length));
    if (low === this.low && low + length === this.high) return;
    this.low = low;
    this.high = low + length;
    this.update();
    this.on.zoomed();
  }

  get zoomed() {
    return this.low > 0 || this.high < this.top;
  }

  // px converts pixels of the picture.
  px(n) {
    return n * this.plotted.clientWidth / this.frame.width;
  }

  get size() {
    return {width: Math.max(this.px(this.frame.width), 1), height: Math.max(this.px(this.frame.height), 1)};
  }

  make() {
    this.plot?.destroy();
    if (this.still) return;
    const {space, frame} = this, relative = space.usageOnly && space.info.allocations + space.info.frees > 0, place = (n) => (this.address ? this.addressText(n) : relative ? n && `+${bytes(n)}` || '' : bytes(n));
    const [x, y] = axes(space, {grid: false, place, space: 40});
    x.size = () => this.px(frame.height - frame.bottom);
    y.size = () => this.px(frame.left);
    this.lines = this.address ? [] : linesOf(space).filter((line) => !line.most || line.most <= this.top);
    this.raster = null;
    this.plot = new uPlot({
      ...this.size, legend: {show: false}, cursor: cursor('time', true), padding: [() => this.px(frame.top), () => this.px(frame.width - frame.right), 0, 0], axes: [x, y],
      scales: {x: {time: false, range: () => [this.timeline.from, this.timeline.to]}, y: {range: () => [this.low, this.high]}},
      series: [{}, ...this.lines.map((line) => ({stroke: style(line.color), width: 1.5, fill: line.fill && style(line.fill), paths: uPlot.paths.stepped({align: 1}), points: {show: false}})),
        {paths: () => null, points: {show: false}}],
      hooks: {drawClear: [(u) => this.draw(u)], draw: [(u) => this.drawMarks(u)], setSelect: [(u) => this.brushed(u)]},
    }, this.data(), this.plotted);
    const {over} = this.plot;
    follow(this.plot, this.timeline, this);
    over.addEventListener('mousemove', (e) => { this.value(this.timeAt(e)); this.on.hover(this.at(e), e); });
    over.addEventListener('mouseleave', (e) => { this.value(null); this.on.hover(null, e); });
    over.addEventListener('click', (e) => this.on.pick(this.at(e), this.timeAt(e)));
    this.show();
  }

  addressText(place) {
    const address = this.places.address(place);
    return this.space.static ? bytes(address) : `…${hexOf(this.space, address).slice(-7)}`; // there is room for the end
  }

  timeAt(e) {
    return this.plot.posToVal(e.clientX - this.plot.over.getBoundingClientRect().left, 'x');
  }

  // at returns the buffer or ground under the mouse.
  at(e) {
    const box = this.plot.over.getBoundingClientRect(), {raster} = this;
    if (!raster || this.plain) return null;
    const x = Math.floor((e.clientX - box.left) * raster.width / box.width), y = Math.floor((e.clientY - box.top) * raster.height / box.height);
    return x < 0 || y < 0 || x >= raster.width || y >= raster.height ? null : raster.pixels[y * raster.width + x];
  }

  // value shows the memory in use at a time; null hides it.
  value(t) {
    const {space, label} = this;
    label.hidden = t === null;
    if (t === null) return;
    const at = Math.max(0, Math.min(Math.round(t), space.length - 1)), i = space.levelAt(at), share = this.share(at);
    label.textContent = `${bytes(i < 0 ? 0 : space.curve.bytes[i])} at ${since(space, at)}`;
    Object.assign(label.style, {left: `${100 * share}%`, transform: `translateX(${share > 0.5 ? '-100%' : '0'})`, top: `${100 * this.frame.top / this.frame.height}%`});
  }

  // data returns the visible lines. Of the values in a pixel column it has the lowest, the highest and the last, so that no peak is lost.
  data() {
    const {from, to} = this.timeline, columns = Math.max(200, Math.round(this.plotted.clientWidth * devicePixelRatio));
    const times = Float64Array.from([from, to, ...(this.plain ? [] : this.lines.flatMap((line) => shownTimes(line, from, to, columns)))]).sort();
    const x = times.filter((t, i) => i === 0 || t !== times[i - 1]);
    return [x, ...this.lines.map((line) => valuesAt(line, x)), x.map(() => null)];
  }

  // update draws another part, or the same in another size.
  update() {
    if (!this.plot) return;
    this.raster = null;
    this.plot.setData(this.data());
    this.show();
  }

  // redraw draws the same part with other colours or marks.
  redraw() {
    if (!this.plot) return;
    if (this.plain !== this.element.classList.contains('plain')) this.update();
    else this.plot.redraw(false);
    this.show();
  }

  // recolor shows another legend. By address, it also chooses what pixels with several buffers show.
  recolor() {
    this.raster = null;
    this.redraw();
  }

  relayout() {
    this.whole();
    this.make();
  }

  resize() {
    if (!this.plot) return;
    this.plot.setSize(this.size);
    this.update();
  }

  // show shows the picture or the plot, and marks the instant.
  show() {
    const {plain, frame, options, line} = this, share = this.share(options.time);
    this.element.classList.toggle('plain', plain);
    for (const image of this.images) image.style.clipPath = plain ? '' : `inset(0 0 ${100 - 100 * heading / frame.height}% 0)`;
    line.hidden = share < frame.left / frame.width || share > frame.right / frame.width;
    Object.assign(line.style, {left: `${100 * share}%`, top: `${100 * frame.top / frame.height}%`, height: `${100 * (frame.bottom - frame.top) / frame.height}%`});
  }

  // share returns where a time is on the picture, from 0 to 1.
  share(t) {
    const {left, right, width} = this.frame, {from, to} = this.timeline;
    return (left + (t - from) / (to - from) * (right - left)) / width;
  }

  brushed(u) {
    const {left, top, width, height} = u.select;
    if (width < 4 && height < 4) return;
    u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
    if (height >= 4 && height < u.over.clientHeight) this.showBytes(u.posToVal(top + height, 'y'), u.posToVal(top, 'y'));
    if (width >= 4 && width < u.over.clientWidth) this.timeline.show(u.posToVal(left, 'x'), u.posToVal(left + width, 'x'));
  }

  // draw draws the buffers.
  draw(u) {
    const {space, options, timeline: {from, to}, low, high} = this;
    if (this.plain || space.noBlocks) return;
    const width = Math.max(1, Math.round(u.bbox.width)), height = Math.max(1, Math.round(u.bbox.height));
    if (!this.raster || width !== this.raster.width || height !== this.raster.height) {
      const view = {from, to, low, high, width, height};
      this.raster = {width, height, pixels: this.address ? byAddress(space, view, this.places, options.legend) : stacked(space, view, options.legend.tiers(height / this.top))};
    }
    u.ctx.putImageData(this.paint(), Math.round(u.bbox.left), Math.round(u.bbox.top));
  }

  paint() {
    return colored(this.space, this.raster, this.options);
  }

  // drawMarks draws steps, failures, the peak and the chosen buffer.
  drawMarks(u) {
    if (this.plain) return;
    const {space, timeline: {from, to}, options: {buffer}} = this, {bbox} = u, inside = (t) => t >= from && t <= to;
    const steps = space.steps.filter((m) => inside(m.begin)), ooms = space.ooms.filter((m) => inside(m.begin));
    if (steps.length < bbox.width / 8) for (const step of steps) line(u, step.begin, style('grid'), [2, 4]);
    for (const oom of ooms) {
      line(u, oom.begin, style('bad'), [4, 3]);
      label(u, oom.begin, bbox.top + 12 * devicePixelRatio, oom.requested ? `OOM, ${bytes(oom.requested)} requested` : 'OOM', style('bad'));
    }
    const i = space.levelAt(space.peak);
    if (i >= 0 && inside(space.peak) && space.curve.bytes[i] <= this.high && !this.address) {
      const y = u.valToPos(space.curve.bytes[i], 'y', true);
      dot(u, space.peak, y, style('fg'));
      label(u, space.peak, Math.max(y - 6 * devicePixelRatio, bbox.top + (ooms.length ? 26 : 0) * devicePixelRatio), `peak ${bytes(space.curve.bytes[i])}`, style('fg'));
    }
    const ends = buffer === null ? [] : [[Math.max(space.begin[buffer], 0), 'allocated'], [Math.min(space.end[buffer], space.length), space.end[buffer] < space.length ? 'freed' : 'alive at the end']];
    ends.forEach(([t, text], row) => {
      if (!inside(t)) return;
      line(u, t, style('accent'), [3, 3]);
      label(u, t, bbox.top + bbox.height - (5 + 14 * row) * devicePixelRatio, text, style('accent'));
    });
  }

  // outline draws over the picture what would be in use after a change: heights in pixels of the picture at equal distances, and its peak in
  // words; null removes it. Where it is above the plot, the plot goes on above the picture, whose heading is covered.
  outline(line, peak) {
    this.drawn?.remove();
    this.drawn = null;
    this.element.style.paddingTop = '';
    if (!line?.length) return;
    const {left, right, top, bottom, width, height, band = 0} = this.frame, {wide} = this.space, step = (right - left) / line.length;
    if (this.narrow) line = line.map((y) => bottom - band - (wide.bottom - y - band) * (bottom - top - band) / (wide.bottom - wide.top - band)); // its heights are those of the wide picture
    const high = Math.min(...line), extra = high < top ? Math.max(0, 24 - high) : 0;
    this.element.style.paddingTop = `${100 * extra / width}%`;
    const points = line.map((y, i) => `${left + i * step},${y} ${left + (i + 1) * step},${y}`).join(' ');
    const make = (tag, attributes) => {
      const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      return element;
    };
    this.drawn = make('svg', {class: 'outline', viewBox: `0 ${-extra} ${width} ${height + extra}`, 'aria-hidden': 'true'});
    if (high < top) this.drawn.append(make('rect', {x: 0, y: -extra, width, height: top + extra - 1}));
    const label = make('text', {x: left + 4, y: Math.min(high, top) - 8});
    label.textContent = `with the change: ${peak}`;
    this.drawn.append(make('polyline', {points, class: 'halo'}), make('polyline', {points}), high < top ? label : '');
    this.element.append(this.drawn);
  }

  // reveal scrolls the picture to an instant that is out of sight.
  reveal(t) {
    const place = this.element.parentElement, x = this.share(t) * this.element.clientWidth;
    if (!this.still) place.scrollLeft = x < place.clientWidth ? 0 : x - place.clientWidth / 2;
  }

  // canvas returns what is shown, twice as large.
  canvas() {
    const {width, height} = this.images[0] ? {width: this.images[0].naturalWidth, height: this.images[0].naturalHeight} : this.frame;
    const canvas = el('canvas', {width: 2 * width, height: 2 * height}), ctx = canvas.getContext('2d'), image = this.images[style('scheme') === 'dark' ? 1 : 0];
    ctx.scale(2, 2);
    ctx.fillStyle = style('picture');
    ctx.fillRect(0, 0, width, height);
    if (image) ctx.drawImage(image, 0, 0, width, height);
    if (this.plain) return canvas;
    ctx.fillRect(0, image ? heading : 0, width, height);
    ctx.drawImage(this.plot.ctx.canvas, 0, 0, width, height);
    ctx.font = '12px system-ui, sans-serif';
    this.options.legend?.rows.forEach((row, i) => {
      const x = this.frame.right + 16, y = this.frame.top + 20 * i;
      ctx.fillStyle = row.fill;
      ctx.fillRect(x, y, 11, 11);
      ctx.fillStyle = style('fg');
      ctx.fillText(row.name, x + 17, y + 10, width - x - 17);
    });
    return canvas;
  }

  close() {
    this.plot?.destroy();
    for (const image of this.images) URL.revokeObjectURL(image.src);
  }
}

// linesOf returns the lines that a plot of a space has over its buffers: {color, at, values}.
function linesOf({curve, reserved, reported, usageOnly, static: compiled}) {
  const lines = [];
  if (reserved.at.length && !compiled) lines.push({color: 'reserved', at: reserved.at, values: reserved.bytes, most: reserved.bytes.reduce((a, b) => Math.max(a, b), 0)});
  if (usageOnly) lines.push({color: 'allocated', fill: 'allocated-soft', at: curve.at, values: curve.bytes});
  return lines;
}

// shownTimes returns the times of a line for a picture with this number of columns: those
// of the lowest, the highest and the last value of each column.
function shownTimes(line, from, to, columns) {
  const {at} = line;
  line.extremes ||= new Extremes(line.values);
  const times = [];
  const step = (to - from) / columns;
  for (let i = lastUpTo(at, from) + 1; i < at.length && at[i] <= to;) {
    const next = from + step * (Math.floor((at[i] - from) / step) + 1);
    const end = Math.max(lastUpTo(at, Math.min(next, to)) + 1, i + 1);
    const {low, high} = line.extremes.between(i, end);
    times.push(at[low], at[high], at[end - 1]);
    i = end;
  }
  return times;
}

// valuesAt returns the values of a line at these times, null before its first value.
function valuesAt(line, times) {
  let i = 0;
  return Array.from(times, (t) => {
    i = lastUpTo(line.at, t, i);
    return i < 0 || line.values[i] < 0 ? null : line.values[i];
  });
}

function line(u, t, color, dash) {
  const x = Math.round(u.valToPos(t, 'x', true)) + 0.5;
  u.ctx.strokeStyle = color;
  u.ctx.lineWidth = devicePixelRatio;
  u.ctx.setLineDash(dash.map((n) => n * devicePixelRatio));
  u.ctx.beginPath();
  u.ctx.moveTo(x, u.bbox.top);
  u.ctx.lineTo(x, u.bbox.top + u.bbox.height);
  u.ctx.stroke();
  u.ctx.setLineDash([]);
}

function dot(u, t, y, color) {
  u.ctx.fillStyle = color;
  u.ctx.beginPath();
  u.ctx.arc(u.valToPos(t, 'x', true), y, 3.5 * devicePixelRatio, 0, 7);
  u.ctx.fill();
}

// label writes next to time t, on the side that has room, on a ground so that edges of blocks do not cross it.
function label(u, t, y, text, color) {
  const x = u.valToPos(t, 'x', true), pad = 6 * devicePixelRatio, {ctx, bbox} = u;
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  const width = ctx.measureText(text).width, left = Math.max(bbox.left, x + pad + width > bbox.left + bbox.width ? x - pad - width : x + pad);
  y = Math.max(y, bbox.top + 11 * devicePixelRatio);
  ctx.fillStyle = style('picture');
  ctx.fillRect(left - pad / 3, y - 11 * devicePixelRatio, width + pad * 2 / 3, 14 * devicePixelRatio);
  ctx.fillStyle = color;
  ctx.textAlign = 'left';
  ctx.textBaseline = 'alphabetic';
  ctx.fillText(text, left, y);
}

// describe returns one line about a time.
export function describe(space, t) {
  const i = space.levelAt(t);
  const instruction = space.static && space.instructionAt(t);
  const parts = [instruction ? `${since(space, t)}: ${instruction}` : since(space, t)];
  if (i >= 0) parts.push(`${space.static ? 'padded' : 'allocated'} ${bytes(space.curve.bytes[i])}`);
  if (i >= 0 && !space.usageOnly && bytes(space.curve.requested[i]) !== bytes(space.curve.bytes[i])) parts.push(`${space.static ? 'unpadded' : 'requested'} ${bytes(space.curve.requested[i])}`);
  const reserved = space.static ? null : space.reservedAt(t);
  if (reserved !== null) parts.push(`reserved ${bytes(reserved)}`);
  if (space.stack.length) parts.push(`stack ${bytes(space.stackAt(t))}`);
  return parts.join(' · ');
}

const url = (text) => URL.createObjectURL(new Blob([text], {type: 'image/svg+xml'}));

// themed returns a picture with the colours of a theme, whatever the browser prefers.
const themed = (text, theme) => text.replace('@media(prefers-color-scheme:dark)', theme === 'dark' ? '@media all' : '@media not all');
