// The selectors of a capture and of its memory ID: host, rank, module and memory.

import {el, replace} from './dom.js';

const parts = [['host', 'host'], ['process', 'rank or process'], ['module', 'module'], ['memory', 'memory space']];

// preferred returns the space to show first, whose picture memlane svg draws.
export const preferred = (capture) => capture.spaces[capture.main];

// captureNames returns the names of captures, without folders if they differ then. Files that were dropped have no folders: alike ones are
// numbered.
export function captureNames(captures) {
  const short = captures.map((c) => c.name.split(/[\\/]/).pop()), differ = new Set(short).size === captures.length, seen = new Map();
  return new Map(captures.map((c, i) => {
    const name = differ ? short[i] : c.name, n = (seen.get(name) ?? 0) + 1;
    seen.set(name, n);
    return [c, n > 1 ? `${name} (${n})` : name];
  }));
}

// Selectors shows the choices and calls chosen(space).
export class Selectors {
  constructor(captures, chosen) {
    this.captures = captures;
    this.chosen = chosen;
    this.element = el('div', {class: 'selectors'});
  }

  show(space) {
    const all = [];
    const names = captureNames(this.captures);
    if (this.captures.length > 1) {
      all.push(this.select('capture', this.captures.map((c) => [String(c.number), c.info.damaged ? `${names.get(c)} (damaged)` : names.get(c)]), String(space.capture.number),
        (number) => this.chosen(preferred(this.captures.find((c) => c.number === Number(number))))));
    } else {
      all.push(el('span', {class: 'fixed', title: space.capture.name}, names.get(space.capture)));
    }
    let spaces = space.capture.spaces;
    for (const [part, name] of parts) {
      const among = spaces;
      const values = [...new Set(among.map((s) => s[part]))];
      const only = values.length === 1;
      if (part === 'memory' || !only) {
        all.push(this.select(name, values.map((v) => [v, v || '(none)']), space[part], (value) => {
          const fitting = among.filter((s) => s[part] === value);
          this.chosen(fitting.find((s) => s.memory === space.memory) || fitting[0]);
        }));
      } else if (values[0]) {
        all.push(el('span', {class: 'fixed', title: name}, values[0]));
      }
      spaces = among.filter((s) => s[part] === space[part]);
    }
    replace(this.element, all);
  }

  select(name, options, value, change) {
    const select = el('select', {'aria-label': name, 'data-part': name, onchange: () => change(select.value)}, options.map(([v, text]) => el('option', {value: v, selected: v === value}, text)));
    return el('label', {}, el('span', {}, name), select);
  }
}
