// Saves the timeline as SVG, and tables as CSV.

import {grounds, mix} from './colors.js';
import {bytes, since, timeTicks} from './format.js';
import {style} from './theme.js';
import {valuesAt} from './usage.js';

const names = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;'};
// escape escapes text of a capture for XML, and replaces characters that XML forbids.
const escape = (s) => String(s).replace(/[^\t\n\r\x20-\ud7ff\ue000-\ufffd]/g, '?').replace(/[&<>"]/g, (c) => names[c]);

// save offers a file to the browser.
export function save(name, type, text) {
  saveBlob(name, new Blob([text], {type}));
}

export function saveBlob(name, blob) {
  const url = URL.createObjectURL(blob);
  const a = document.createElement('a');
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// fileName returns a file name for a space.
export function fileName(space) {
  return `${space.capture.name.split(/[\\/]/).pop()}-${space.id}`.replace(/[^\w.-]+/g, '-').slice(0, 80);
}

// timelineSVG returns the graph and the blocks as shown.
export function timelineSVG(space, graph, view) {
  const width = graph.plot.over.clientWidth, left = 104, top = 34, graphHeight = 150, blocksTop = top + graphHeight + 46;
  const blocksHeight = view ? view.plot.over.clientHeight : 0;
  const total = blocksTop + blocksHeight + 10;
  const title = `${space.capture.name} ${space.id}`;
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${left + width + 44} ${total}" width="${left + width + 44}" height="${total}" role="img" font-family="sans-serif" font-size="11">`,
    `<title>${escape(title)}</title><rect width="100%" height="100%" fill="${style('paper')}"/>`,
    `<text x="${left}" y="20" font-size="14" fill="${style('fg')}">${escape(title)}, peak ${bytes(space.info.peak.bytes)} at ${escape(since(space, space.peak))}</text>`,
    ...graphParts(space, graph, left, top, width, graphHeight),
    ...(view ? blockParts(space, view, left, blocksTop, width, blocksHeight) : []),
    '</svg>\n',
  ];
  return parts.join('\n');
}

function graphParts(space, graph, left, top, width, height) {
  const {from, to} = graph.timeline;
  const [x] = graph.data();
  const lines = graph.lines.map((line) => ({...line, shown: valuesAt(line, x)}));
  const most = Math.max(1, ...lines.filter((l) => l.scale === 'y').flatMap((l) => l.shown.map((v) => v ?? 0)));
  const px = (t) => (left + (t - from) / (to - from) * width).toFixed(1);
  const parts = lines.map((line) => {
    const py = (v) => (top + height - v / (line.scale === 'y' ? most : 1) * height).toFixed(1);
    let path = '';
    x.forEach((t, i) => { if (line.shown[i] !== null) path += path ? `H${px(t)}V${py(line.shown[i])}` : `M${px(t)} ${py(line.shown[i])}`; });
    return `<path d="${path}" fill="none" stroke="${style(line.color)}" stroke-width="1.3"${line.dash ? ' stroke-dasharray="4 3"' : ''}><title>${line.name}</title></path>`;
  });
  const ticks = [0, 1, 2, 3, 4].map((i) => from + (to - from) * i / 4);
  timeTicks(space, ticks.map(Math.round)).forEach((text, i) => parts.push(`<text x="${px(ticks[i])}" y="${top + height + 16}" text-anchor="middle" fill="${style('muted')}">${escape(text)}</text>`));
  for (const share of [0, 0.5, 1]) parts.push(`<text x="${left - 6}" y="${top + height - share * height + 4}" text-anchor="end" fill="${style('muted')}">${bytes(Math.round(most * share))}</text>`);
  lines.forEach((line, i) => parts.push(`<text x="${left + 110 * i}" y="${top + height + 34}" fill="${style(line.color)}">■ ${line.name}</text>`));
  return parts;
}

// blockParts converts the map of pixels to rectangles. Each is a run of one buffer in a row,
// extended down over rows with the same run.
function blockParts(space, view, left, top, width, height) {
  const {pixels, options: {legend, lit, buffer}} = view, columns = view.width, rows = view.height;
  const ground = grounds(style('scheme') === 'dark');
  const fill = (id) => {
    if (id < 0) return ground[id];
    if (id === buffer) return style('accent');
    const color = legend.rows[legend.classes[id]].fill;
    return lit && !lit[id] ? mix(color, ground[-1], 0.82) : color;
  };
  const parts = [`<rect x="${left}" y="${top}" width="${width}" height="${height}" fill="${ground[-1]}"/>`, `<g transform="translate(${left} ${top}) scale(${width / columns} ${height / rows})" shape-rendering="crispEdges">`];
  const put = ({x, end, y, id}, bottom) => parts.push(`<rect x="${x}" y="${y}" width="${end - x}" height="${bottom - y}" fill="${fill(id)}">${id >= 0 ? `<title>${escape(`${space.capture.siteName(space.site[id])}, ${bytes(space.size[id])}`)}</title>` : ''}</rect>`);
  let open = new Map();
  for (let y = 0; y <= rows; y++) {
    const next = new Map();
    for (let x = 0; y < rows && x < columns;) {
      const id = pixels[y * columns + x];
      let end = x + 1;
      while (end < columns && pixels[y * columns + end] === id) end++;
      const above = open.get(x);
      if (id !== -1) next.set(x, above && above.end === end && above.id === id ? above : {x, end, y, id});
      x = end;
    }
    for (const [x, run] of open) if (next.get(x) !== run) put(run, y);
    open = next;
  }
  return [...parts, '</g>'];
}
