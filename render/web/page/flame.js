// Flame graphs of bytes by call stack: callers above, callees below. They show an instant, or what grew and shrank between
// two. One function has two graphs: its callers, and below it its callees. By name they show what is in memory: a model, its layers
// and their parameters.

import {stackOf} from './breakdown.js';
import {button, el, replace} from './dom.js';
import {bytes, percent, several} from './format.js';
import {frameText} from './space.js';

const rowHeight = 25;
const smallest = 24; // narrower frames, in pixels, are no buttons: keys reach them after a zoom
const narrowest = 0.0005; // narrower frames, as a share of the width, are not drawn

// callsOf returns the calls of a row, outermost first: a name, and the function whatever its line.
function callsOf(space, row) {
  const {capture} = space, site = capture.sites[row.site];
  capture.calls ||= [];
  const calls = capture.calls[row.site] ||= site.unseen ? [call(capture.siteName(row.site))] : capture.folded(stackOf(space, site)).frames.map((f) => call(frameText(f), functionOf(f))).reverse();
  const leaf = row.category || [site.instr || site.op, site.shape].filter(Boolean).join(' ');
  const all = leaf ? [...calls, call(leaf)] : calls;
  return all.length ? all : [call('(no stack recorded)')];
}

const call = (name, of = name) => ({name, of});

// functionOf returns "function (file.py)".
const functionOf = (frame) => frameText({...frame, line: 0});

// levelsOf returns what leads to the buffers of a row, as calls.
function levelsOf(space, row) {
  const {levels} = space.capture.holders[row.holder].group;
  return levels.length ? levels.map((level) => call(level)) : [call(row.category || '(no name recorded)')];
}

// pathsOf returns the stacks of rows with their bytes, or named what leads to them; rows of one stack are one. sites are holders if named.
function pathsOf(space, rows, named) {
  const paths = new Map();
  for (const row of rows) {
    const calls = named ? levelsOf(space, row) : callsOf(space, row), key = calls.map((c) => c.name).join('\0');
    if (!paths.has(key)) paths.set(key, {calls, bytes: 0, sites: []});
    const path = paths.get(key);
    path.bytes += row.bytes;
    if (!row.category) path.sites.push(named ? row.holder : row.site);
  }
  return [...paths.values()].filter((path) => path.bytes);
}

// treeOf sums the sizes of paths by their first calls, the second, and so on.
function treeOf(root, paths) {
  for (const path of paths) {
    let node = root;
    add(node, path);
    for (const {name, of} of path.calls) {
      if (!node.children.has(name)) node.children.set(name, nodeOf(name, {of, parent: node, kind: root.kind}));
      add(node = node.children.get(name), path);
    }
  }
  return root;
}

const nodeOf = (name, more) => ({name, bytes: 0, children: new Map(), sites: [], ...more});

function add(node, {bytes, sites}) {
  node.bytes += Math.abs(bytes);
  node.sites.push(...sites);
}

// forest returns the trees of paths: one of what an instant has, or one of what grew and one of what shrank.
function forest(paths, change) {
  if (!change) return [treeOf(nodeOf('all'), paths)];
  return [treeOf(nodeOf('grew', {kind: 'grew'}), paths.filter((p) => p.bytes > 0)), treeOf(nodeOf('shrank', {kind: 'shrank'}), paths.filter((p) => p.bytes < 0))].filter((tree) => tree.bytes);
}

// Flame draws the graph. A click calls picked(sites, name), or with holders if it is by name; a chosen function calls chosen(function).
export class Flame {
  constructor(space, picked, chosen, named = false) {
    Object.assign(this, {space, picked, chosen, named, focus: [], of: null});
    this.graph = el('div', {class: 'flame', tabindex: 0, role: 'region', 'aria-label': named ? 'bytes by name' : 'bytes by call stack'});
    this.note = el('div', {class: 'bar note', role: 'status'});
    this.element = el('div', {}, this.note, this.graph);
  }

  at(t) {
    this.show(this.space.breakdown(t, this.named ? 'name' : 'line'), false);
  }

  // show draws rows with bytes; change tells that they are differences.
  show(rows, change) {
    this.paths = pathsOf(this.space, rows, this.named);
    this.change = change;
    this.draw();
  }

  // choose shows the callers and callees of a function; null shows all stacks.
  choose(of) {
    this.of = of || null;
    this.focus = [];
    if (this.paths) this.draw();
    this.chosen(this.of);
  }

  draw() {
    const {of} = this;
    this.trees = forest(this.paths, this.change);
    this.total = this.trees.reduce((sum, tree) => sum + tree.bytes, 0);
    const boxes = [];
    let rows;
    if (of) {
      const [callers, callees] = sandwich(this.paths, of, this.change), above = Math.max(0, ...callers.map(depthOf));
      this.place(callers, (depth) => above - depth, boxes);
      rows = above + 1 + this.place(callees, (depth) => above + depth, boxes, 1);
    } else {
      rows = this.place(this.focused(), (depth) => depth, boxes) + 1;
    }
    this.graph.style.height = `${rows * rowHeight}px`;
    replace(this.graph, boxes);
    this.describe();
  }

  // focused returns the trees from the focus on, below its callers.
  focused() {
    let trees = this.trees;
    this.top = null;
    for (const name of this.focus) {
      const next = (this.top ? [...this.top.children.values()] : trees).find((node) => node.name === name);
      if (!next) break;
      this.top = next;
    }
    if (this.top) trees = [this.top];
    return trees;
  }

  // place adds the boxes of trees side by side, each as wide as its bytes, without the first rows skipped. It returns the depth.
  place(trees, rowOf, boxes, skipped = 0) {
    const total = trees.reduce((sum, tree) => sum + tree.bytes, 0);
    let deepest = 0, base = 0;
    for (let node = trees.length === 1 ? trees[0].parent : null; node; node = node.parent) base++;
    for (let node = base ? trees[0].parent : null, depth = base - 1; node; node = node.parent, depth--) boxes.push(this.box(node, 0, 1, rowOf(depth)));
    const put = (node, left, depth) => {
      const width = total ? node.bytes / total : 0;
      if (width < narrowest) return;
      deepest = Math.max(deepest, depth);
      if (depth - base >= skipped) boxes.push(this.box(node, left, width, rowOf(depth)));
      for (const child of [...node.children.values()].sort((a, b) => b.bytes - a.bytes || (a.name < b.name ? -1 : 1))) {
        put(child, left, depth + 1);
        left += child.bytes / total;
      }
    };
    let left = 0;
    for (const tree of trees) {
      put(tree, left, base);
      left += total ? tree.bytes / total : 0;
    }
    return deepest;
  }

  box(node, left, width, row) {
    const share = this.total ? node.bytes / this.total : 0;
    const sign = {grew: '+', shrank: '−'}[node.kind] || '';
    const text = `${node.name} · ${sign}${bytes(node.bytes)}, ${percent(share)}`;
    const small = width * this.graph.clientWidth < smallest;
    return el(small ? 'div' : 'button', {
      type: small ? null : 'button', title: text, class: node.parent ? node.kind || `flame-${hue(node.name)}` : 'flame-all', 'data-bytes': node.bytes,
      style: {left: `${100 * left}%`, width: `${100 * width}%`, top: `${row * rowHeight}px`}, onclick: () => this.click(node),
    }, width > 0.02 ? text : '');
  }

  // click zooms in to a call and highlights its buffers; a second click goes back.
  click(node) {
    if (this.of) {
      if (node.of) this.choose(node.of);
      return;
    }
    const again = this.top === node;
    this.focus = [];
    for (let at = again ? node.parent : node; at; at = at.parent) this.focus.unshift(at.name);
    this.draw();
    this.picked(this.top?.parent || this.top?.kind ? [...new Set(this.top.sites)] : null, node.name);
    this.graph.querySelectorAll('button')[Math.max(0, this.focus.length - 1)]?.focus();
  }

  // describe writes what a click does, and offers the two graphs of the function that was clicked.
  describe() {
    const {top, of} = this;
    if (of) {
      const paths = this.paths.filter((path) => path.calls.some((c) => c.of === of)), sum = paths.reduce((n, path) => n + path.bytes, 0);
      replace(this.note, el('span', {}, el('strong', {}, of), `: ${this.change && sum > 0 ? '+' : ''}${bytes(sum)} in ${several(paths.length, 'stack')}. Callers are above it, callees below. Click one for its own.`),
        button('all stacks', 'back to the flame graph', () => this.choose(null)));
    } else if (top?.parent) {
      replace(this.note, el('span', {}, el('strong', {}, top.name), ': its buffers are highlighted above.'), !this.named && button('callers and callees', `all stacks with ${top.of}`, () => this.choose(top.of)));
    } else {
      replace(this.note, `${this.named ? 'What is in memory, by what holds it. Click a name' : 'Click a call'} to zoom in and highlight its buffers above. Click it again to go back.`);
    }
  }
}

// depthOf returns the number of rows of a tree below its root.
const depthOf = (node) => Math.max(0, ...[...node.children.values()].map((child) => 1 + depthOf(child)));

// sandwich returns the trees of the callers of a function, from it outwards, and of its callees. A stack with the function
// twice counts once: its callers are those of the outermost call.
function sandwich(paths, of, change) {
  const callers = [], callees = [];
  for (const path of paths) {
    const i = path.calls.findIndex((c) => c.of === of);
    if (i < 0) continue;
    callers.push({...path, calls: path.calls.slice(0, i).reverse()});
    callees.push({...path, calls: path.calls.slice(i + 1)});
  }
  const named = (trees) => trees.map((tree) => Object.assign(tree, {name: change ? `${of} ${tree.kind}` : of, of}));
  return [named(forest(callers, change)), named(forest(callees, change))];
}

// hue returns one of eight colour classes, always the same for a name.
function hue(name) {
  let sum = 0;
  for (const c of name) sum = (sum * 31 + c.codePointAt(0)) >>> 0;
  return sum % 8;
}
