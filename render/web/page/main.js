// The page: reads its data and shows it.

import {App} from './app.js';
import {captures} from './decode.js';
import {el} from './dom.js';
import {watch} from './watch.js';

async function start() {
  const main = el('main');
  document.body.append(main);
  const {version} = document.body.dataset; // set by memlane serve
  if (version !== undefined) watch(version, main);
  if (version === '0') return;
  const app = new App(await captures(), main);
  await app.start();
  app.ready = performance.now();
  globalThis.memlane = app; // for the console and for tests
  document.body.dataset.ready = 'true';
}

start();
