// Reads the data that package web wrote into the page: documents of captures, and the
// columns of their spaces (columns.go).

import {Space} from './space.js';

// gunzip returns the bytes of compressed data in base64.
async function gunzip(base64) {
  const plain = new Blob([bytesOf(base64)]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(plain).arrayBuffer());
}

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64); // faster, but new
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

// unpack returns the bytes of an element of the page, and empties the element to free
// memory.
export async function unpack(id) {
  const element = document.getElementById(id);
  const base64 = element.textContent;
  element.textContent = '';
  return gunzip(base64);
}

// Capture is one capture: a document of package web.
class Capture {
  constructor(number, doc, parts) {
    Object.assign(this, doc);
    this.parts = parts;
    this.number = number;
    this.frames = doc.frames.map(([name, file, line, kind, folded]) => ({name, file, line, kind, folded}));
    this.sites = doc.sites.map(([stack, op, region, shape, dtype, instr, opcode, source, name, place, unseen], id) =>
      ({id, stack, op, region, shape, dtype, instr, opcode, source, name, place, unseen}));
    this.holders = doc.holders.map(([name, by, tensor, group]) => ({name, by, tensor, group: doc.groups[group]}));
    this.spaces = doc.spaces.map((head, i) => new Space(this, head, i, doc.info.spaces[i]));
  }

  // framesOf returns the frames of a stack, leaf first.
  framesOf(stack) {
    const frames = [];
    for (let at = stack; at; at = this.stacks[at][1]) frames.push(this.frames[this.stacks[at][0]]);
    return frames;
  }

  // folded returns the frames of a stack that people read, and how many it leaves out, as frame.Fold does.
  folded(stack) {
    const all = this.framesOf(stack);
    for (const keep of [(f) => !f.folded, (f) => f.kind === 'framework', (f) => f.kind === 'operator' || f.kind === 'runtime']) {
      const frames = all.filter(keep);
      if (frames.length) return {frames, hidden: all.length - frames.length};
    }
    return {frames: all, hidden: 0};
  }

  // sitesMatching returns the sites with a matching name: a function or file on the stack,
  // the operation, instruction, shape or region.
  sitesMatching(match) {
    const frames = this.frames.map((f) => match(f.name) || match(f.file));
    const stacks = [];
    for (const [frame, caller] of this.stacks) stacks.push(frames[frame] || stacks[caller]); // callers come first
    return this.sites.filter((s) => stacks[s.stack] || stacks[s.source] || [s.op, s.instr, s.shape, s.region].some((part) => part && match(part)) || match(this.siteName(s.id))).map((s) => s.id);
  }

  // holdersMatching returns the holders whose name, or what holds it, matches.
  holdersMatching(match) {
    return [...this.holders.keys()].filter((k) => k && (match(this.holders[k].name) || match(this.holders[k].by)));
  }

  // siteName returns the name of a site in one line.
  siteName(id) {
    const s = this.sites[id];
    if (s.instr) return s.op ? `${s.instr} · ${s.op}` : s.instr;
    if (s.name || s.place) return s.place ? `${s.name || '?'} (${s.place})` : s.name;
    return [s.op, s.dtype, s.shape].filter(Boolean).join(' ') || '(not recorded)';
  }
}

// elements are the parts in the elements of the page.
const elements = {has: (id) => document.getElementById(id) !== null, take: unpack};

// captures returns all captures of the page, in order. The columns of a space are read
// when the space is first shown.
export async function captures(parts = elements) {
  const all = [];
  while (parts.has(`capture-${all.length}`)) {
    const bytes = await parts.take(`capture-${all.length}`);
    all.push(new Capture(all.length, JSON.parse(new TextDecoder().decode(bytes)), parts));
  }
  return all;
}

// columnsOf returns a reader of the columns of a space.
export async function columnsOf(space) {
  return new Columns(await space.capture.parts.take(`capture-${space.capture.number}-${space.number}`));
}

// Columns reads signed varints in the format of encoding/binary. Numbers above 2^53 lose
// their last digits.
export class Columns {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  // read reads n numbers. Most have at most 28 bits and use integer operations; the others
  // use floating-point numbers.
  read(n) {
    const {bytes} = this, out = new Float64Array(n);
    let at = this.at;
    for (let i = 0; i < n; i++) {
      let byte = bytes[at++], value = byte & 127, shift = 7;
      for (; byte > 127 && shift < 28; shift += 7) {
        byte = bytes[at++];
        value |= (byte & 127) << shift;
      }
      if (byte < 128) {
        out[i] = (value >>> 1) ^ -(value & 1);
        continue;
      }
      let large = value;
      for (let scale = 2 ** 28; byte > 127; scale *= 128) {
        byte = bytes[at++];
        large += (byte & 127) * scale;
      }
      out[i] = large % 2 ? -(large + 1) / 2 : large / 2;
    }
    this.at = at;
    return out;
  }

  // readSteps reads a column of differences.
  readSteps(n) {
    const out = this.read(n);
    for (let i = 1; i < n; i++) out[i] += out[i - 1];
    return out;
  }
}
