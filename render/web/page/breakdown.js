// The Memory Breakdown Table: the memory at a time, by site or by buffer.

import {bytes, count, percent, several, since, span} from './format.js';
import {frameText} from './space.js';
import {el} from './dom.js';
import {Table} from './table.js';

// stackText writes a stack in one line, leaf first, folded.
export function stackText(capture, stack) {
  capture.stackTexts ||= [];
  return capture.stackTexts[stack] ??= foldedText(capture.folded(stack));
}

function foldedText({frames, hidden}) {
  return frames.map(frameText).join(' ← ') + (hidden ? ` + ${hiddenText(hidden)}` : '');
}

export const hiddenText = (n) => several(n, 'library frame');

// stackOf returns the stack to show: of an instruction of a compiled program that in the source code.
export const stackOf = (space, site) => (space.static && site.source ? site.source : site.stack);

// columnsOfSites returns the columns that the tables of sites, of buffers and of growth share.
export function columnsOfSites(space) {
  const {capture} = space;
  const sites = (row) => (row.sites ?? [row.site]).map((id) => capture.sites[id]);
  const stacks = (row) => [...new Set(sites(row).map((site) => stackOf(space, site)))];
  const all = (get) => (row) => [...new Set(sites(row).map(get).filter(Boolean))].join(', ');
  return [
    text('category', 'what the memory is for: recorded, or inferred by rules', (row) => space.categoriesOf(row)),
    text('dtype', 'type of the elements', all((site) => site.dtype)),
    text('shape', 'shape of the tensor, in the notation of the producer', all((site) => site.shape)),
    {...text('op', 'operation', all((site) => site.op)), shorten: true},
    {...text('stack', 'call stack of the allocation, innermost call first', (row) => {
      const [first, ...more] = stacks(row);
      return stackText(capture, first) + (more.length ? ` (and ${several(more.length, 'more stack')})` : '');
    }), hint: (row) => stacks(row).map((stack) => capture.framesOf(stack).map(frameText).join('\n')).join('\n\n')},
  ];
}

const text = (name, title, get) => ({name, title, text: get, value: (row) => get(row).toLowerCase()});
const number = (name, title, get, text = get) => ({name, title, number: true, value: get, text});

// requestedColumn is shown where a row reads another figure in it than in that of the allocated bytes.
const requestedColumn = (space) => ({...number(space.static ? 'unpadded' : 'requested', 'bytes that the program requested', (row) => row.requested, (row) => bytes(row.requested)),
  shown: (rows) => rows.some((row) => bytes(row.requested) !== bytes(row.bytes))});

// siteTable is the table of rows by place, the same as "memlane peak".
export function siteTable(space, on) {
  const total = {bytes: 0};
  let by = 'line', time = 0;
  const nameOf = (row) => space.groupName(row, by);
  const bytesColumn = number('bytes', 'allocated bytes', (row) => row.bytes, (row) => bytes(row.bytes));
  const table = new Table({
    label: 'memory breakdown', sort: bytesColumn, on,
    columns: [
      bytesColumn,
      number('share', 'share of all bytes at this time', (row) => row.bytes, (row) => percent(total.bytes ? row.bytes / total.bytes : 0)),
      number('buffers', 'number of buffers', (row) => row.count, (row) => count(row.count)),
      requestedColumn(space),
      {name: 'allocated by', always: true, shorten: true, title: 'the innermost function of the program itself, or the operation', text: (row) => nameOf(row), value: (row) => nameOf(row).toLowerCase()},
      ...columnsOfSites(space),
    ],
  });
  const keys = space.groups();
  if (keys.length > 1) {
    const select = el('select', {'aria-label': 'sum up by', onchange: () => { by = select.value; table.at(time); }}, keys.map((key) => el('option', {value: key}, `by ${key}`)));
    table.search.before(select);
  }
  table.at = (t) => {
    time = t;
    const rows = space.places(t, by);
    total.bytes = rows.reduce((sum, row) => sum + row.bytes, 0);
    table.total = total.bytes;
    table.show(rows);
  };
  return table;
}

// bufferTable is the table of the live buffers at a time.
export function bufferTable(space, on) {
  const {capture} = space;
  const size = number('size', 'allocated bytes', (row) => row.bytes, (row) => bytes(row.bytes));
  const table = new Table({
    label: 'buffers', sort: size, on,
    columns: [
      size,
      requestedColumn(space),
      number('allocated', 'time of the allocation', (row) => space.begin[row.buffer], (row) => since(space, space.begin[row.buffer])),
      number('lifetime', 'length of the lifetime', (row) => Math.min(space.end[row.buffer], space.length) - space.begin[row.buffer], (row) => lifeText(space, row.buffer)),
      number('offset', 'address', (row) => space.addr[row.buffer], (row) => offsetText(space, row.buffer).hex),
      {name: 'allocated by', always: true, shorten: true, title: 'the innermost function of the program itself, or the operation', text: (row) => capture.siteName(row.site), value: (row) => capture.siteName(row.site).toLowerCase()},
      text('name', 'what the program calls it, as memlane.record found it', (row) => capture.holders[space.holder[row.buffer]].name),
      text('held by', 'what keeps it alive', (row) => capture.holders[space.holder[row.buffer]].by),
      ...columnsOfSites(space),
    ],
  });
  table.at = (t) => table.show(space.liveAt(t).map((i) => ({...space.rowOf(i), buffer: i, bytes: space.size[i], requested: space.requested[i]})));
  return table;
}

export function lifeText(space, i) {
  const {time = space} = space, text = span(Math.min(time.end[i], time.length) - Math.max(time.begin[i], 0), time.unit);
  return space.end[i] === Infinity ? `${text}, to the end` : text;
}

// offsetText returns the address of a buffer: decimal and hexadecimal.
export function offsetText(space, i) {
  if (!space.addresses) return {decimal: 'not recorded', hex: ''};
  return {decimal: addressOf(space, space.addr[i]).toLocaleString('en-US'), hex: hexOf(space, space.addr[i])};
}

const addressOf = (space, addr) => space.lowestAddress + BigInt(Math.round(addr));

// hexOf writes an address, which the columns have relative to the lowest.
export const hexOf = (space, addr) => '0x' + addressOf(space, addr).toString(16);

// facts returns the lines of a hover card and of the pinned buffer: pairs of name and text.
export function facts(space, i) {
  const {capture} = space, site = capture.sites[space.site[i]], held = capture.holders[space.holder[i]];
  const offset = offsetText(space, i), waste = space.size[i] - space.requested[i];
  const source = capture.framesOf(site.source).find((f) => f.kind === 'user') || capture.framesOf(site.stack).find((f) => f.file && f.kind === 'user');
  return [
    ['name', held.name],
    ['held by', held.by === held.name ? '' : held.by],
    ['tensor', held.tensor],
    [site.instr ? 'instruction' : 'function', site.instr || site.name],
    ['op', [site.op, site.opcode && `(${site.opcode})`].filter(Boolean).join(' ')],
    ['size', `${bytes(space.size[i])} (${count(space.size[i])} B)`],
    [space.static ? 'unpadded' : 'requested', `${bytes(space.requested[i])} (${count(space.requested[i])} B)${waste && space.requested[i] ? `, ${percent(waste / space.size[i])} of the size is ${space.static ? 'padding' : 'rounding'}` : ''}`],
    ['offset', offset.hex ? `${offset.decimal} (${offset.hex})` : ''],
    ['lifetime', `${since(space, Math.max(space.begin[i], 0))} to ${space.end[i] >= space.length ? 'the end' : since(space, space.end[i])} (${lifeText(space, i)})`],
    ['category', space.categoryOf(space.rowOf(i))],
    ['phase', capture.purposes[space.purpose[i]][1]],
    ['module', space.moduleOf(space.rowOf(i))],
    ['shape', site.shape.startsWith(site.dtype) ? site.shape : `${site.dtype} ${site.shape}`],
    ['source', source ? `${source.file}${source.line ? `:${source.line}` : ''}` : site.place],
    ['noted', space.edgesOf(i).join(', ')],
  ].filter(([, text]) => text);
}
