// A flame graph of bytes by call stack at a time: callers above, callees below.

import {el, replace} from './dom.js';
import {bytes, percent} from './format.js';
import {stackOf} from './breakdown.js';
import {frameText} from './space.js';

const rowHeight = 20;
const narrowest = 0.0005; // narrower frames, as a share of the width, are not drawn

// treeOf sums rows of a breakdown by their stacks, outermost call first.
function treeOf(space, rows) {
  const {capture} = space;
  const root = {name: 'all', bytes: 0, children: new Map(), sites: []};
  for (const row of rows) {
    const site = capture.sites[row.site];
    const path = site.unseen ? [capture.siteName(row.site)] : capture.folded(stackOf(space, site)).frames.map(frameText).reverse();
    const leaf = row.category || [site.instr || site.op, site.shape].filter(Boolean).join(' ');
    if (leaf) path.push(leaf);
    if (!path.length) path.push('(no stack recorded)');
    let node = root;
    add(node, row);
    for (const name of path) {
      if (!node.children.has(name)) node.children.set(name, {name, bytes: 0, children: new Map(), sites: [], parent: node});
      node = node.children.get(name);
      add(node, row);
    }
  }
  return root;
}

function add(node, row) {
  node.bytes += row.bytes;
  if (!row.category) node.sites.push(row.site);
}

// Flame draws the graph. A click calls picked(sites, name).
export class Flame {
  constructor(space, picked) {
    this.space = space;
    this.picked = picked;
    this.graph = el('div', {class: 'flame', tabindex: 0, role: 'region', 'aria-label': 'bytes by call stack'});
    this.note = el('p', {class: 'note'}, 'Click a call to zoom in and highlight its buffers above. Click "all" to go back.');
    this.element = el('div', {}, this.note, this.graph);
  }

  at(t) {
    this.root = treeOf(this.space, this.space.breakdown(t));
    this.draw(this.root);
  }

  draw(focus) {
    const boxes = [];
    const ancestors = [];
    for (let node = focus.parent; node; node = node.parent) ancestors.unshift(node);
    ancestors.forEach((node, depth) => boxes.push(this.box(node, 0, 1, depth)));
    let deepest = ancestors.length;
    const put = (node, left, width, depth) => {
      if (width < narrowest) return;
      deepest = Math.max(deepest, depth);
      boxes.push(this.box(node, left, width, depth));
      const children = [...node.children.values()].sort((a, b) => b.bytes - a.bytes || (a.name < b.name ? -1 : 1));
      for (const child of children) {
        const share = focus.bytes ? child.bytes / focus.bytes : 0;
        put(child, left, share, depth + 1);
        left += share;
      }
    };
    put(focus, 0, 1, ancestors.length);
    this.graph.style.height = `${(deepest + 1) * rowHeight}px`;
    replace(this.graph, boxes);
  }

  box(node, left, width, depth) {
    const share = this.root.bytes ? node.bytes / this.root.bytes : 0;
    const text = `${node.name} · ${bytes(node.bytes)}, ${percent(share)}`;
    return el('button', {
      type: 'button', title: text, class: `flame-${node.parent ? hue(node.name) : 'all'}`,
      style: {left: `${100 * left}%`, width: `${100 * width}%`, top: `${depth * rowHeight}px`},
      onclick: () => {
        this.draw(node);
        this.picked(node.parent ? [...new Set(node.sites)] : null, node.name);
      },
    }, width > 0.02 ? text : '');
  }
}

// hue returns one of eight colour classes, always the same for a name.
function hue(name) {
  let sum = 0;
  for (const c of name) sum = (sum * 31 + c.codePointAt(0)) >>> 0;
  return sum % 8;
}
