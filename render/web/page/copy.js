// What is shown, for an issue: text as Markdown, and the charts as a picture.

import {grounds} from './colors.js';
import {fileName, saveBlob} from './save.js';
import {style} from './theme.js';

const marks = {'<': '&lt;', '>': '&gt;', '&': '&amp;', '@': '\\@&#8203;', '#': '\\#&#8203;'};

// escape escapes text of a capture for Markdown, as report.Escape does.
export function escape(text) {
  const line = String(text).replace(/[\n\t]/g, ' ').trim().replace(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/gu, '?').replace(/^( *)::/, '$1?:').replaceAll('##[', '##?');
  const item = /^([-+=]|[0-9]+[.)])/.exec(line)?.[0] ?? ''; // the text may begin a paragraph
  return (item && `${item.slice(0, -1)}\\${item.slice(-1)}`) + line.slice(item.length).replace(/[<>&@#\\`*_[\]|~!$]/g, (c) => marks[c] ?? `\\${c}`)
    .replaceAll('://', ':&#47;/').replaceAll('www.', 'www&#46;').replaceAll('WWW.', 'WWW&#46;');
}

// tableText returns rows of cells as a Markdown table. The first has the names; numbers tells which columns are figures.
export function tableText([names, ...rows], numbers) {
  const line = (cells) => `| ${cells.map((cell, i) => (numbers[i] ? cell : escape(cell)) || ' ').join(' | ')} |`;
  return [line(names), `|${numbers.map((number) => (number ? '---:' : '---')).join('|')}|`, ...rows.map(line)].join('\n');
}

// code returns lines as a block of code, whatever they contain.
export function code(lines) {
  const text = lines.map((line) => line.replace(/[\n\r]/g, ' ')).join('\n');
  const fence = '`'.repeat(Math.max(3, ...[...text.matchAll(/`+/g)].map(([run]) => run.length + 1)));
  return `${fence}\n${text}\n${fence}`;
}

// copyText copies text, also on pages of a server without TLS, whose scripts have no clipboard.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const area = document.createElement('textarea');
    area.value = text;
    document.body.append(area);
    area.select();
    document.execCommand('copy');
    area.remove();
  }
}

// copyPicture copies a canvas, so that it can be pasted into an issue. It returns what it did: browsers that refuse save a file.
export async function copyPicture(space, canvas) {
  const blob = await new Promise((done) => { canvas.toBlob(done); });
  try {
    await navigator.clipboard.write([new ClipboardItem({'image/png': blob})]);
    return 'copied';
  } catch {
    saveBlob(`${fileName(space)}.png`, blob);
    return 'saved';
  }
}

// picture returns the charts as shown on one canvas: below titles their pixels and legends, lists of {name, fill}.
export function picture(titles, charts) {
  const scale = devicePixelRatio, width = charts[0].canvas.width, canvas = document.createElement('canvas'), ctx = canvas.getContext('2d');
  const font = (size, weight = '') => `${weight} ${size * scale}px system-ui, sans-serif`, pad = 10 * scale, line = 18 * scale;
  const texts = []; // {text, x, y, font, fill of the box before it}
  const put = (text, x, y, size, weight, fill) => texts.push({text, x, y, font: font(size, weight), fill});
  ctx.font = font(14, 'bold');
  let y = pad + line;
  for (const part of titles.flatMap((title) => linesOf(ctx, title, width - 2 * pad))) {
    put(part, pad, y, 14, 'bold');
    y += line;
  }
  const images = [];
  for (const {canvas: image, legend} of charts) {
    ctx.font = font(11);
    let x = pad;
    for (const {name, fill} of legend) {
      const wide = ctx.measureText(name).width + 30 * scale;
      if (x > pad && x + wide > width - pad) [x, y] = [pad, y + line];
      put(name, x + 15 * scale, y, 11, '', fill);
      x += wide;
    }
    y += pad;
    images.push([image, y]);
    y += image.height + line;
  }
  canvas.width = width;
  canvas.height = y;
  ctx.fillStyle = grounds(style('scheme') === 'dark')[-1];
  ctx.fillRect(0, 0, width, y);
  for (const [image, top] of images) ctx.drawImage(image, 0, top);
  for (const one of texts) {
    ctx.font = one.font;
    ctx.fillStyle = one.fill ?? '';
    if (one.fill) ctx.fillRect(one.x - 15 * scale, one.y - 10 * scale, 11 * scale, 11 * scale);
    ctx.fillStyle = style('fg');
    ctx.fillText(one.text, one.x, one.y);
  }
  return canvas;
}

// linesOf breaks a text at spaces into lines of at most this width.
function linesOf(ctx, text, width) {
  const lines = [''];
  for (const word of text.split(' ')) {
    const last = lines[lines.length - 1], longer = last ? `${last} ${word}` : word;
    if (last && ctx.measureText(longer).width > width) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}
