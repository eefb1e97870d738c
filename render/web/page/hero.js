// The picture of a space, the same as that of memlane svg. The mouse chooses on it an instant, or a part of the time, which the charts
// below show.

import {el} from './dom.js';
import {bytes, since} from './format.js';

const least = 4; // pixels of a part

export class Hero {
  // bytes is the SVG. on.time(t) and on.range(from, to) get what is chosen.
  constructor(space, svg, on) {
    this.space = space;
    this.svg = svg;
    this.on = on;
    this.extra = 0; // pixels of the picture above it, for a line that is higher
    const text = new TextDecoder().decode(svg), alt = space.capture.headline || `memory over time: peak ${bytes(space.info.peak.bytes)}`;
    this.images = ['light', 'dark'].map((theme) => el('img', {class: theme, alt, src: url(themed(text, theme)), width: space.picture.width || null, height: space.picture.height || null, draggable: 'false'}));
    this.shade = [el('i', {class: 'shade'}), el('i', {class: 'shade'})];
    this.line = el('i', {class: 'mark'});
    this.label = el('output', {class: 'value', hidden: true});
    this.element = el('div', {class: 'hero'}, this.images, this.shade, this.line, this.label);
    if (this.follows()) this.listen();
    else for (const part of [...this.shade, this.line]) part.hidden = true;
  }

  // follows reports whether the picture has the axis of the space that is shown.
  follows() {
    const {left, right} = this.space.picture;
    return right > left && (this.space.time !== undefined) === (this.space.crowded && !this.space.static);
  }

  listen() {
    const {element} = this;
    element.classList.add('live');
    let begin = null; // where the mouse went down
    element.addEventListener('pointerdown', (e) => {
      if (e.button !== 0 || !this.inside(e)) return;
      begin = this.timeAt(e);
      element.setPointerCapture(e.pointerId);
      e.preventDefault();
    });
    element.addEventListener('pointermove', (e) => {
      this.value(this.inside(e) || begin !== null ? this.timeAt(e) : null);
      if (begin !== null) this.shadeFor(...ordered(begin, this.timeAt(e)));
    });
    element.addEventListener('pointerleave', () => this.value(null));
    element.addEventListener('pointercancel', () => { begin = null; this.on.again(); });
    element.addEventListener('pointerup', (e) => {
      if (begin === null) return;
      const [from, to] = ordered(begin, this.timeAt(e));
      begin = null;
      if (Math.abs(this.share(from) - this.share(to)) * this.scale() * this.space.picture.width < least) {
        this.on.again();
        this.on.time(to);
      } else this.on.range(from, to);
    });
  }

  // scale returns the pixels on the page per pixel of the picture.
  scale() {
    return this.element.clientWidth / this.space.picture.width;
  }

  inside(e) {
    const {left, right, top, bottom} = this.space.picture, box = this.element.getBoundingClientRect(), scale = this.scale();
    const x = (e.clientX - box.left) / scale, y = (e.clientY - box.top) / scale - this.extra;
    return x >= left && x <= right && y >= top && y <= bottom + 60; // with the phases and the axis
  }

  timeAt(e) {
    const {left, right} = this.space.picture, x = (e.clientX - this.element.getBoundingClientRect().left) / this.scale();
    return Math.max(0, Math.min(1, (x - left) / (right - left))) * this.space.length;
  }

  // share returns where a time is on the picture, from 0 to 1.
  share(t) {
    const {left, right, width} = this.space.picture;
    return (left + t / this.space.length * (right - left)) / width;
  }

  // outline draws over the picture what would be in use after a change: heights in pixels of the picture at equal distances, and its peak in
  // words; null removes it. Where it is above the plot, the plot goes on above the picture, whose heading is covered.
  outline(line, peak) {
    this.drawn?.remove();
    this.drawn = null;
    this.extra = 0;
    this.element.style.paddingTop = '';
    this.on.again();
    if (!line?.length) return;
    const {left, right, top, width, height} = this.space.picture, step = (right - left) / line.length, high = Math.min(...line);
    this.extra = high < top ? Math.max(0, 24 - high) : 0;
    this.element.style.paddingTop = `${100 * this.extra / width}%`;
    const points = line.map((y, i) => `${left + i * step},${y} ${left + (i + 1) * step},${y}`).join(' ');
    const make = (tag, attributes) => {
      const element = document.createElementNS('http://www.w3.org/2000/svg', tag);
      for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
      return element;
    };
    this.drawn = make('svg', {class: 'outline', viewBox: `0 ${-this.extra} ${width} ${height + this.extra}`, 'aria-hidden': 'true'});
    if (high < top) this.drawn.append(make('rect', {x: 0, y: -this.extra, width, height: top + this.extra - 1}));
    const label = make('text', {x: left + 4, y: Math.min(high, top) - 8});
    label.textContent = `with the change: ${peak}`;
    this.drawn.append(make('polyline', {points, class: 'halo'}), make('polyline', {points}), high < top ? label : '');
    this.element.append(this.drawn);
    this.on.again();
  }

  // value shows the memory in use at a time; null hides it.
  value(t) {
    const {space, label} = this;
    label.hidden = t === null;
    if (t === null) return;
    const at = Math.min(Math.round(t), space.length - 1), i = space.levelAt(at), share = this.share(t);
    label.textContent = `${bytes(i < 0 ? 0 : space.curve.bytes[i])} at ${since(space, at)}`;
    Object.assign(label.style, {left: `${100 * share}%`, transform: `translateX(${share > 0.5 ? '-100%' : '0'})`, top: this.percent(space.picture.top)});
  }

  percent(y) {
    return `${100 * (y + this.extra) / (this.space.picture.height + this.extra)}%`;
  }

  // show marks an instant and the part of the time that the charts show.
  show(time, {from, to, zoomed}) {
    if (!this.follows()) return;
    const {top, bottom, height} = this.space.picture;
    Object.assign(this.line.style, {left: `${100 * this.share(time)}%`, top: this.percent(top), height: `${100 * (bottom - top) / (height + this.extra)}%`});
    if (zoomed) this.shadeFor(from, to);
    else for (const part of this.shade) part.hidden = true;
  }

  // shadeFor shades what is outside of a part.
  shadeFor(from, to) {
    const {top, bottom, height} = this.space.picture;
    [[0, from], [to, this.space.length]].forEach(([begin, end], i) => {
      this.shade[i].hidden = end <= begin;
      Object.assign(this.shade[i].style, {left: `${100 * this.share(begin)}%`, width: `${100 * (this.share(end) - this.share(begin))}%`, top: this.percent(top), height: `${100 * (bottom - top) / (height + this.extra)}%`});
    });
  }

  // reveal scrolls the picture, where it is wider than its place, to an instant.
  reveal(t) {
    const place = this.element.parentElement;
    if (place && this.follows()) place.scrollLeft = this.share(t) * this.element.clientWidth - place.clientWidth / 2;
  }

  // canvas returns the picture, twice as large, in the colours that the page has.
  canvas(dark) {
    const image = this.images[dark ? 1 : 0], canvas = el('canvas', {width: 2 * image.naturalWidth, height: 2 * image.naturalHeight});
    canvas.getContext('2d').drawImage(image, 0, 0, canvas.width, canvas.height);
    return canvas;
  }

  close() {
    for (const image of this.images) URL.revokeObjectURL(image.src);
  }
}

const ordered = (a, b) => (a < b ? [a, b] : [b, a]);
const url = (text) => URL.createObjectURL(new Blob([text], {type: 'image/svg+xml'}));

// themed returns a picture with the colours of a theme, whatever the browser prefers.
const themed = (text, theme) => text.replace('@media(prefers-color-scheme:dark)', theme === 'dark' ? '@media all' : '@media not all');
