// What is shown, for an issue: text as Markdown, and the charts as a picture.

import {fileName, saveBlob} from './save.js';

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
