// The page: reads what is in it, and shows it.

import {App} from './app.js';
import {captures} from './decode.js';
import {el} from './dom.js';
import {watch} from './watch.js';

async function start() {
  const main = el('main');
  document.body.append(main);
  const {version} = document.body.dataset; // of memlane serve
  if (version !== undefined) watch(version, main);
  if (version === '0') return;
  const app = new App(await captures(), main);
  await app.start();
  app.ready = performance.now();
  globalThis.memlane = app; // for whoever looks with the console
  document.body.dataset.ready = 'true';
}

start();
