// Reads what package web wrote into the page: documents of captures, and the
// columns of their spaces (columns.go).

import {Space} from './space.js';

// gunzip returns the bytes of compressed data in base64.
async function gunzip(base64) {
  const text = atob(base64);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const plain = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(plain).arrayBuffer());
}

// unpack returns the bytes of an element of the page, which it empties: they are
// not needed twice.
async function unpack(id) {
  const element = document.getElementById(id);
  const base64 = element.textContent;
  element.textContent = '';
  return gunzip(base64);
}

// Capture is one capture: what package web calls its document.
class Capture {
  constructor(number, doc) {
    Object.assign(this, doc);
    this.number = number;
    this.frames = doc.frames.map(([name, file, line, kind]) => ({name, file, line, kind}));
    this.sites = doc.sites.map(([stack, op, region, shape, dtype, instr, opcode, source, name, place], id) =>
      ({id, stack, op, region, shape, dtype, instr, opcode, source, name, place}));
    this.spaces = doc.spaces.map((head, i) => new Space(this, head, i, doc.info.spaces[i]));
  }

  // framesOf returns the frames of a stack, leaf first.
  framesOf(stack) {
    return (this.stacks[stack] || []).map((id) => this.frames[id]);
  }

  // sitesMatching returns the sites of which a name matches: a function or file on the
  // stack, the operation, instruction, shape or region.
  sitesMatching(match) {
    const frames = this.frames.map((f) => match(f.name) || match(f.file));
    const stacks = this.stacks.map((stack) => stack.some((f) => frames[f]));
    return this.sites.filter((s) => stacks[s.stack] || stacks[s.source] || [s.op, s.instr, s.shape, s.region].some((part) => part && match(part)) || match(this.siteName(s.id))).map((s) => s.id);
  }

  // siteName says in one line who allocated.
  siteName(id) {
    const s = this.sites[id];
    if (s.instr) return s.op ? `${s.instr} · ${s.op}` : s.instr;
    if (s.name || s.place) return s.place ? `${s.name || '?'} (${s.place})` : s.name;
    return [s.op, s.dtype, s.shape].filter(Boolean).join(' ') || '(not recorded)';
  }
}

// captures returns all captures of the page, in their order. The columns of a space
// are read when it is first looked at.
export async function captures() {
  const all = [];
  while (document.getElementById(`capture-${all.length}`)) {
    const bytes = await unpack(`capture-${all.length}`);
    all.push(new Capture(all.length, JSON.parse(new TextDecoder().decode(bytes))));
  }
  return all;
}

// columnsOf returns a reader of the columns of a space.
export async function columnsOf(space) {
  return new Columns(await unpack(`capture-${space.capture.number}-${space.number}`));
}

// Columns reads signed varints, as encoding/binary writes them. Numbers beyond
// 2^53 lose their last digits.
class Columns {
  constructor(bytes) {
    this.bytes = bytes;
    this.at = 0;
  }

  read(out) {
    const {bytes} = this;
    let at = this.at;
    for (let i = 0; i < out.length; i++) {
      let byte = bytes[at++];
      let value = byte & 127;
      for (let scale = 128; byte > 127; scale *= 128) {
        byte = bytes[at++];
        value += (byte & 127) * scale;
      }
      out[i] = value % 2 ? -(value + 1) / 2 : value / 2;
    }
    this.at = at;
    return out;
  }

  // readSteps reads a column of differences.
  readSteps(out) {
    this.read(out);
    for (let i = 1; i < out.length; i++) out[i] += out[i - 1];
    return out;
  }
}
