// The parts of the page that memlane serve needs: progress while it reads captures, and a
// reload when they change.

import {el, replace} from './dom.js';
import {bytes, percent} from './format.js';

const pause = 500; // ms between two requests

// watch polls the state of the server while the page is open.
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
      if (version !== '0') warn(status.state === 'failed' ? `reload failed: ${status.error}` : status.state === 'reading' ? 'reloading …' : '');
    } catch {
      document.body.classList.add('gone'); // the server has stopped
    }
    await new Promise((done) => { setTimeout(done, pause); });
  }
}

const notice = el('p', {class: 'notice', role: 'status', hidden: true});

// warn shows below the header why the page is older than its captures.
function warn(text) {
  if (!notice.isConnected) document.querySelector('header')?.after(notice);
  notice.hidden = !text;
  notice.textContent = text;
}

// progress shows the status of reading: bytes of the files, the step after that, or an error.
export function progress(status) {
  if (status.state === 'failed') return el('p', {class: 'empty', role: 'alert'}, status.error);
  const all = status.files?.length ? status.files : [status], sum = (key) => all.reduce((n, f) => n + f[key], 0);
  const share = all.every((f) => f.size > 0) ? Math.min(1, sum('read') / sum('size')) : null;
  const step = ({file, read, size}) => `reading ${file || 'captures'}: ${bytes(read)}${size > 0 ? `, ${percent(Math.min(1, read / size))}` : ''}`;
  const reading = status.files?.filter((f) => !(f.size > 0 && f.read >= f.size)) ?? [];
  const steps = status.step ? [status.step] : (reading.length ? reading : [status]).map(step);
  return el('div', {class: 'loading'}, el('div', {role: 'status'}, steps.map((text) => el('p', {}, text))), el('progress', share === null ? {} : {value: share}));
}
