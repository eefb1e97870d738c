// The facts about one buffer: the card at the mouse, and the pinned buffer with its stack.

import {facts, hiddenText, stackOf} from './breakdown.js';
import {button, el, replace} from './dom.js';
import {bytes, count} from './format.js';
import {BASE, NOTHING, REGION, STACK} from './raster.js';
import {frameText} from './space.js';

// HoverCard follows the mouse.
export class HoverCard {
  constructor() {
    this.element = el('div', {class: 'card hover', role: 'tooltip', hidden: true});
    document.body.append(this.element);
  }

  show(space, id, e) {
    const content = id === null || id === NOTHING ? null : contentOf(space, id);
    this.element.hidden = !content;
    if (!content) return;
    replace(this.element, content);
    const {innerWidth, innerHeight} = window, {offsetWidth, offsetHeight} = this.element;
    const x = e.clientX + 16 + offsetWidth > innerWidth ? e.clientX - offsetWidth - 12 : e.clientX + 16;
    const y = Math.min(e.clientY + 16, innerHeight - offsetHeight - 8);
    Object.assign(this.element.style, {left: `${Math.max(4, x)}px`, top: `${Math.max(4, y)}px`});
  }
}

function contentOf(space, id) {
  switch (id) {
    case BASE: return `older buffers (only a sum): ${bytes(space.base)}, without events`;
    case STACK: return 'stack of compiled programs';
    case REGION: return space.static ? 'unused part of an allocation' : 'reserved by the allocator, free';
    default: return typeof id === 'string' ? id : [factList(space, id), stackList(space.capture, stackOf(space, space.capture.sites[space.site[id]]), hovered)];
  }
}

function factList(space, i) {
  return el('dl', {class: 'facts'}, facts(space, i).map(([name, text]) => [el('dt', {}, name), el('dd', {}, text)]));
}

// pinned returns the panel of the pinned buffer. light highlights its site, close unpins it.
export function pinned(space, i, light, close) {
  const site = space.capture.sites[space.site[i]];
  return el('aside', {class: 'card pinned', 'aria-label': 'pinned buffer'},
    el('div', {class: 'bar'}, el('strong', {}, 'pinned buffer'), button('highlight its site', 'highlight all buffers of this site', light), button('×', 'unpin (Esc)', close, {class: 'close'})),
    factList(space, i),
    ...stackList(space.capture, stackOf(space, site)), ...freeList(space, i));
}

const hovered = 5; // frames beside the mouse

// stackList returns the folded list of a stack, and a button that shows all frames; with most, only so many frames.
export function stackList(capture, stack, most = 0) {
  if (!stack) return [];
  const {frames, hidden} = capture.folded(stack);
  const items = (shown) => shown.map((f) => el('li', {class: f.kind, title: f.file ? `${f.file}:${f.line}` : ''}, frameText(f)));
  if (most) return [el('ol', {class: 'stack'}, items(frames.slice(0, most)), frames.length > most && el('li', {}, `${count(frames.length - most)} more`))];
  const list = el('ol', {class: 'stack'}, items(frames));
  if (!hidden) return [list];
  const more = button(`+ ${hiddenText(hidden)}`, 'show all frames of the stack', () => {
    replace(list, items(capture.framesOf(stack)));
    more.remove();
  }, {class: 'more'});
  return [list, more];
}

// freeList returns the stack of the free of a buffer, if it was recorded.
function freeList(space, i) {
  if (!space.freeSite || space.end[i] === Infinity) return [];
  const {stack} = space.capture.sites[space.freeSite[i] || space.site[i]];
  return stack ? [el('h3', {}, 'freed by'), ...stackList(space.capture, stack)] : [];
}
