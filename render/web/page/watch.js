// What memlane serve adds to the page: how far the reading of captures got, and a
// new page when they change.

import {el, replace} from './dom.js';
import {bytes, percent} from './format.js';

const pause = 500; // ms between two questions

// watch asks the server how it is, for as long as the page is open.
export async function watch(version, main) {
  for (;;) {
    try {
      const answer = await fetch('api/status', {cache: 'no-store'});
      const status = await answer.json();
      if (status.version !== version && status.state === 'ready') {
        location.reload();
        return;
      }
      if (version === '0') replace(main, progress(status));
      document.body.classList.remove('gone');
      if (version !== '0') warn(status.state === 'failed' ? `not read again: ${status.error}` : status.state === 'reading' ? 'reading again …' : '');
    } catch {
      document.body.classList.add('gone'); // the server has ended
    }
    await new Promise((done) => { setTimeout(done, pause); });
  }
}

const notice = el('p', {class: 'notice', role: 'status', hidden: true});

// warn says under the header why the page is older than its captures.
function warn(text) {
  if (!notice.isConnected) document.querySelector('header')?.after(notice);
  notice.hidden = !text;
  notice.textContent = text;
}

function progress(status) {
  if (status.state === 'failed') return el('p', {class: 'empty', role: 'alert'}, status.error);
  const share = status.size > 0 ? Math.min(1, status.read / status.size) : null;
  return el('div', {class: 'loading'}, el('p', {role: 'status'}, `reading ${status.file || 'captures'}: ${bytes(status.read)}${share === null ? '' : `, ${percent(share)}`}`),
    el('progress', share === null ? {} : {value: share}));
}
