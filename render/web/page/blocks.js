// The block timeline: the width of a buffer is its lifetime, its height its size.

import {hexOf} from './breakdown.js';
import {axes, cursor, follow, uPlot} from './chart.js';
import {grounds, mix, pixelColor} from './colors.js';
import {bytes} from './format.js';
import {placesOf} from './places.js';
import {byAddress, stacked} from './raster.js';
import {style} from './theme.js';

export const layouts = {stacked: 'stacked', address: 'by address'};
const height = 340;

// BlockView shows the buffers of a space. It calls on.hover(buffer, event), on.pick(buffer, t) and on.zoomed() after bytes were zoomed.
export class BlockView {
  constructor(parent, space, timeline, options, on) {
    this.parent = parent;
    this.space = space;
    this.timeline = timeline;
    this.options = options; // {layout, legend, lit: Uint8Array of buffers or null, buffer, time}
    this.on = on;
    this.whole();
    this.make();
  }

  // whole shows all bytes.
  whole() {
    const {space} = this;
    if (this.options.layout === 'address') this.places ||= placesOf(space);
    this.low = 0;
    this.high = this.top = this.options.layout === 'address' ? Math.max(this.places.height, 1) : Math.max(1, space.curve.bytes[space.levelAt(space.peak)] * 1.04 || 1);
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

  make() {
    this.plot?.destroy();
    const place = (n) => (this.options.layout === 'address' ? this.addressText(n) : bytes(n));
    this.plot = new uPlot({
      width: this.parent.clientWidth, height, legend: {show: false}, cursor: cursor('time', true),
      scales: {x: {time: false, range: () => [this.timeline.from, this.timeline.to]}, y: {range: () => [this.low, this.high]}, share: {range: [0, 1]}},
      axes: axes(this.space, {grid: false, place, space: 40}),
      series: [{}, {scale: 'y', show: true, paths: () => null, points: {show: false}}],
      hooks: {draw: [(u) => this.draw(u)], setSelect: [(u) => this.brushed(u)]},
    }, [[this.timeline.from, this.timeline.to], [null, null]], this.parent);
    follow(this.plot, this.timeline, this);
    this.plot.over.addEventListener('mousemove', (e) => this.on.hover(this.at(e), e));
    this.plot.over.addEventListener('mouseleave', (e) => this.on.hover(null, e));
    this.plot.over.addEventListener('click', (e) => this.on.pick(this.at(e), this.timeAt(e)));
  }

  addressText(place) {
    const address = this.places.address(place);
    if (this.space.static) return bytes(address);
    return hexOf(this.space, address);
  }

  timeAt(e) {
    return this.plot.posToVal(e.clientX - this.plot.over.getBoundingClientRect().left, 'x');
  }

  // at returns the buffer or ground under the mouse.
  at(e) {
    const box = this.plot.over.getBoundingClientRect(), {bbox} = this.plot;
    if (!this.pixels) return null;
    const x = Math.floor((e.clientX - box.left) * bbox.width / box.width), y = Math.floor((e.clientY - box.top) * bbox.height / box.height);
    return x < 0 || y < 0 || x >= this.width || y >= this.height ? null : this.pixels[y * this.width + x];
  }

  update() {
    this.pixels = null;
    this.plot.setData([[this.timeline.from, this.timeline.to], [null, null]]);
  }

  // redraw colours the same pixels again.
  redraw() {
    this.plot.redraw(false);
  }

  // recolor shows another legend. By address, it also chooses what pixels with several buffers show.
  recolor() {
    if (this.options.layout === 'address') this.update();
    else this.redraw();
  }

  relayout() {
    this.whole();
    this.pixels = null;
    this.make();
  }

  resize() {
    this.pixels = null;
    this.plot.setSize({width: this.parent.clientWidth, height});
  }

  brushed(u) {
    const {left, top, width, height} = u.select;
    if (width < 4 && height < 4) return;
    u.setSelect({left: 0, top: 0, width: 0, height: 0}, false);
    if (height >= 4 && height < u.over.clientHeight) this.showBytes(u.posToVal(top + height, 'y'), u.posToVal(top, 'y'));
    if (width >= 4 && width < u.over.clientWidth) this.timeline.show(u.posToVal(left, 'x'), u.posToVal(left + width, 'x'));
  }

  draw(u) {
    const width = Math.max(1, Math.round(u.bbox.width)), height = Math.max(1, Math.round(u.bbox.height));
    if (!this.pixels || width !== this.width || height !== this.height) {
      const view = {from: this.timeline.from, to: this.timeline.to, low: this.low, high: this.high, width, height};
      this.width = width;
      this.height = height;
      this.pixels = this.options.layout === 'address' ? byAddress(this.space, view, this.places, this.options.legend) : stacked(this.space, view);
    }
    u.ctx.putImageData(this.paint(), Math.round(u.bbox.left), Math.round(u.bbox.top));
    if (this.options.time === null) return;
    u.ctx.fillStyle = style('accent');
    const x = u.valToPos(this.options.time, 'x', true);
    if (x >= u.bbox.left && x <= u.bbox.left + u.bbox.width) u.ctx.fillRect(Math.round(x), u.bbox.top, devicePixelRatio, u.bbox.height);
  }

  paint() {
    return colored(this.space, this, this.options);
  }
}

// colored colours the map of pixels. The first pixels of a block that is large enough are darker, and leaks are hatched. If
// sites are highlighted, all others are paler.
export function colored(space, {width, height, pixels}, {legend, lit, buffer}) {
  const dark = style('scheme') === 'dark', grounded = grounds(dark), paper = grounded[-1];
  const ground = new Uint32Array(8); // by -id
  for (const [id, color] of Object.entries(grounded)) ground[-id] = pixelColor(color);
  const tones = new Uint32Array(8 * legend.rows.length); // of each row: the fill, its edge, its hatch; the same paler
  legend.rows.forEach(({fill, leak}, row) => {
    const colors = [fill, mix(fill, dark ? '#000000' : '#28323c', 0.35), leak ? mix(fill, '#ffffff', 0.35) : fill];
    [...colors, fill, ...[0.82, 0.7, 0.82].map((share) => mix(fill, paper, share))].forEach((color, k) => { tones[8 * row + k] = pixelColor(color); });
  });
  const chosen = pixelColor(style('accent')), pinned = buffer ?? -1;
  const {classes} = legend, {site} = space, thick = 3;
  const image = new ImageData(width, height), out = new Uint32Array(image.data.buffer);
  for (let y = 0, p = 0; y < height; y++) {
    const top = y > 0 && y + thick < height;
    for (let x = 0; x < width; x++, p++) {
      const id = pixels[p];
      if (id < 0) {
        out[p] = ground[-id];
        continue;
      }
      const edge = top && pixels[p - width] !== id && pixels[p + thick * width] === id || x > 0 && x + thick < width && pixels[p - 1] !== id && pixels[p + thick] === id;
      const tone = 8 * classes[id] + (lit !== null && !lit[id] ? 4 : 0);
      out[p] = id === pinned ? chosen : tones[tone + (edge ? 1 : (x + y & 7) < 2 ? 2 : 0)];
    }
  }
  return image;
}
