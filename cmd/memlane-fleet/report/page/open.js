// Opens a page: unpacks its data and builds it.

import {Columns, unpack} from '../../../../render/web/page/decode.js';
import {el} from '../../../../render/web/page/dom.js';
import {setTheme} from '../../../../render/web/page/theme.js';

// open calls build with the document with an ID, its columns and the element for the page, and keeps what it returns, which has a map.
export async function open(id, build) {
  const dark = matchMedia('(prefers-color-scheme: dark)');
  setTheme(dark.matches);
  const main = el('main');
  const doc = JSON.parse(new TextDecoder().decode(await unpack(id)));
  document.body.append(el('header', {class: 'top'}, el('strong', {class: 'brand'}, 'memlane'), el('h1', {class: 'headline fixed'}, doc.headline)), main);
  const page = build(doc, new Columns(await unpack('usage')), main);
  dark.addEventListener('change', () => { setTheme(dark.matches); page.map.show(); });
  page.ready = performance.now();
  globalThis.memlane = page; // for tests and the console
  document.body.dataset.ready = 'true';
}
