// Makes names fit a number of characters, as package internal/shorten does: the same
// results for the same names.

const freed = 'freed in ', inferred = ', inferred';
const least = 4; // characters of a name before its place
const placeAtEnd = /^[^]+?( \([^()]*:[0-9]+\)| of [^ ]+| [^ ]+:[0-9]+)(, inferred|\?)?( on [^ ]+)?$/;
const longest = 1000; // characters up to which a place is found
const nowhere = {lo: Infinity, hi: Infinity};

// Texts are arrays of characters below, and a span {lo, hi} is a range of them.
const split = (text) => Array.from(text);

// shorten returns names in at most n characters each. Different names stay different.
export function shorten(names, n) {
  const texts = names.map((name) => drop(name, n));
  for (const group of equals(names, texts)) for (const i of group) texts[i] = names[i];
  const out = texts.map((text) => cut(split(text), n, nowhere));
  for (let round = 0; round < 4; round++) {
    for (const group of equals(texts, out)) {
      const all = group.map((i) => split(texts[i]));
      const [lo, after] = common(all);
      group.forEach((i, k) => { out[i] = cut(all[k], n, {lo, hi: all[k].length - after}); });
    }
  }
  return numbered(names, n, out);
}

// equals returns the groups of different texts that became equal.
function equals(texts, out) {
  const index = new Map();
  out.forEach((s, i) => index.has(s) ? index.get(s).push(i) : index.set(s, [i]));
  return [...index.values()].filter((group) => group.some((i) => texts[i] !== texts[group[0]]));
}

// common returns how many characters texts have in common at their begin and end.
function common(all) {
  const [first] = all;
  let before = first.length, after = first.length;
  for (const s of all) {
    for (let k = 0; k < before; k++) if (s[k] !== first[k]) before = k;
    for (let k = 0; k < after; k++) if (s[s.length - 1 - k] !== first[first.length - 1 - k]) after = k;
  }
  for (const s of all) after = Math.min(after, s.length - before);
  return [before, after];
}

// numbered adds " #2" to names that became equal to another.
function numbered(names, n, out) {
  const owner = new Map(names.filter((name, i) => out[i] === name).map((name) => [name, name]));
  const done = new Map(), last = new Map();
  return names.map((name, i) => {
    if (!done.has(name)) {
      let s = out[i];
      const free = () => !owner.has(s) || owner.get(s) === name;
      for (let k = (last.get(out[i]) ?? 1) + 1; !free(); k++) {
        const mark = ` #${k}`;
        s = out[i];
        if (mark.length > n) break;
        s = cut(split(s), n - mark.length, nowhere) + mark;
        last.set(out[i], k);
      }
      owner.set(s, name);
      done.set(name, s);
    }
    return done.get(name);
  });
}

// drop leaves out words that people do not miss, until the name fits.
function drop(name, n) {
  const fits = () => name.length <= n || split(name).length <= n;
  if (fits()) return name;
  const layout = name.lastIndexOf(']{'), word = name.indexOf(' (backward)');
  if (layout > 0 && name.endsWith('}')) name = name.slice(0, layout + 1);
  if (word >= 0 && name.slice(0, word).includes('Backward')) name = name.replace(' (backward)', '');
  for (const [words, rest] of [['allocated ', 'before the recording'], ['before the recording, ', freed]]) {
    if (name.startsWith(words + rest) && !fits()) name = name.slice(words.length);
  }
  return name;
}

// cut makes a text fit. It keeps the place, and if possible a part of where the text differs from its neighbours.
function cut(text, n, differ) {
  if (text.length <= n) return text.join('');
  const start = freed.length;
  if (text.slice(0, start).join('') === freed && n - start >= 4 * least) {
    return freed + cut(text.slice(start), n - start, {lo: Math.max(differ.lo - start, 0), hi: Math.max(differ.hi - start, 0)});
  }
  const at = placeAtEnd.exec(text.slice(-longest).join(''));
  if (!at) return path(text, n, differ);
  const [, where, mark = '', memory = ''] = at;
  const length = split(where + mark + memory).length, head = text.slice(0, text.length - length);
  const short = mark === inferred && n - length < Math.min(head.length, 3 * least);
  const place = where + (short ? '?' : mark) + memory, room = n - split(place).length;
  return room >= least ? path(head, room, differ) + place : middle(text, n, differ);
}

// partsOf splits a path at "/" and "::": characters [lo, hi), with the separator [lo, end).
function partsOf(text) {
  const parts = [];
  let lo = 0;
  for (let i = 0; i < text.length; i++) {
    const size = text[i] === '/' ? 1 : text[i] === ':' && text[i + 1] === ':' ? 2 : 0;
    if (!size) continue;
    parts.push({lo, hi: i, end: i + size});
    lo = i + size;
    i = lo - 1;
  }
  return [...parts, {lo, hi: text.length, end: text.length}];
}

// path omits parts of a path, from the middle outwards: first those without a number, last the first part.
function path(text, n, differ) {
  if (text.length <= n) return text.join('');
  const parts = partsOf(text);
  let total = text.length;
  for (const i of inOrder(text, parts, differ)) {
    if (total <= n) break;
    const part = parts[i], before = parts[i - 1];
    let change = 1 - (part.hi - part.lo);
    if (before?.omitted) change -= 1 + part.lo - before.hi;
    if (parts[i + 1].omitted) change -= 1 + part.end - part.hi;
    if (i === 0 && total + change > n) continue;
    part.omitted = true;
    total += change;
  }
  const kept = [];
  let moved = nowhere;
  parts.forEach((part, i) => {
    if (!part.omitted && differ.lo <= part.end && differ.hi >= part.lo) {
      const lo = moved === nowhere ? kept.length + Math.max(differ.lo - part.lo, 0) : moved.lo;
      moved = {lo, hi: kept.length + Math.min(differ.hi, part.end) - part.lo};
    }
    const shown = part.omitted ? parts[i + 1].omitted ? [] : ['…', ...text.slice(part.hi, part.end)] : text.slice(part.lo, part.end);
    for (const c of shown) kept.push(c);
  });
  return middle(kept, n, moved);
}

// inOrder returns the parts that path may omit, in this order.
function inOrder(text, parts, differ) {
  const rank = (i) => (i === 0 ? 2 : text.slice(parts[i].lo, parts[i].hi).some((c) => c >= '0' && c <= '9') ? 1 : 0);
  const distance = (i) => Math.abs(2 * i - parts.length + 1);
  return parts.slice(0, -1).map((part, i) => ({i, rank: rank(i), distance: distance(i)}))
    .filter(({i}) => differ.lo > parts[i].hi || differ.hi < parts[i].lo)
    .sort((a, b) => a.rank - b.rank || a.distance - b.distance).map(({i}) => i);
}

// middle omits characters in the middle. It keeps the ends, and the begin of differ.
function middle(text, n, differ) {
  if (text.length <= n) return text.join('');
  if (n < 1) return '';
  const [head, tail] = ends(n - 1);
  const {lo} = differ;
  if (differ.hi <= head || lo >= text.length - tail || n - 2 < least) return shown(0, head) + '…' + shown(text.length - tail);
  const size = Math.min(Math.max(Math.min(differ.hi, text.length) - lo, 1), Math.floor((n - 2) / 2));
  const [first, last] = ends(n - 2 - size);
  const begin = first < lo ? shown(0, first) + '…' : shown(0, lo);
  return text.length - last > lo + size ? begin + shown(lo, lo + size) + '…' + shown(text.length - last) : begin + shown(lo);

  function ends(room) {
    const head = Math.floor(room / 3);
    return [head, room - head];
  }
  function shown(from, to) {
    return text.slice(from, to).join('');
  }
}
