// The page that needs no install: reads captures of this machine with memlane's readers,
// compiled to WebAssembly, in a worker. Once the program is loaded, the page forbids itself
// all connections.

import {App} from './app.js';
import {captures, unpack} from './decode.js';
import {button, el, replace} from './dom.js';
import {setTheme} from './theme.js';
import {progress} from './watch.js';

const file = 'memlane.wasm.gz';
const privacy = 'Captures stay on this machine: they are read inside this browser. ' +
  'This page has forbidden itself all connections (Content-Security-Policy: connect-src \'none\').';

// load returns the compiled program. Some servers decompress the file, others do not.
async function load() {
  const answer = await fetch(file);
  if (!answer.ok) throw new Error(`${file}: ${answer.status} ${answer.statusText}`);
  const reader = answer.body.getReader();
  const first = await reader.read();
  const rest = new ReadableStream({
    start: (to) => to.enqueue(first.value),
    pull: async (to) => { const {done, value} = await reader.read(); if (done) to.close(); else to.enqueue(value); },
  });
  const packed = first.value[0] === 0x1f && first.value[1] === 0x8b;
  return WebAssembly.compileStreaming(new Response(packed ? rest.pipeThrough(new DecompressionStream('gzip')) : rest, {headers: {'Content-Type': 'application/wasm'}}));
}

// Reader reads captures in a worker of its own. The worker starts at once and waits for files.
class Reader {
  constructor(script, compiled) {
    this.parts = new Map();
    this.awaited = new Map(); // what to call when a part comes
    this.asked = [];
    this.worker = new Worker(script);
    this.worker.postMessage({program: compiled});
  }

  // read reads files. show gets the status.
  read(files, show) {
    this.worker.postMessage({files});
    return new Promise((resolve, reject) => {
      const status = {state: 'reading'};
      this.cancel = () => { this.close(); reject(new Canceled()); };
      this.worker.onerror = (e) => reject(new Error(e.message));
      this.worker.onmessage = ({data}) => {
        if (data.id !== undefined) this.came(data);
        else if (data.answer !== undefined) this.asked[data.answer](data);
        else if (data.done) resolve();
        else if (data.error !== undefined) reject(Object.assign(new Error(data.error), {large: data.large, ended: data.ended}));
        else show(Object.assign(status, {step: undefined}, data));
      };
    });
  }

  came({id, data}) {
    this.parts.set(id, data);
    this.awaited.get(id)?.();
  }

  // has and take give the parts to captures of decode.js. Some parts come after the page is shown.
  has(id) {
    return this.parts.has(id);
  }

  async take(id) {
    if (!this.has(id)) await new Promise((done) => this.awaited.set(id, done));
    const bytes = this.parts.get(id);
    this.parts.delete(id);
    return bytes;
  }

  // answer returns what memlane serve answers to an address of its API.
  async answer(address) {
    const number = this.asked.length;
    const {text, error} = await new Promise((done) => {
      this.asked.push(done);
      this.worker.postMessage({address, number});
    });
    if (error) throw new Error(error);
    return text;
  }

  close() {
    this.worker.terminate();
  }
}

class Canceled extends Error {}

const none = -1; // the choice before the first

// Local is the page.
class Local {
  constructor(main, formats) {
    this.main = main;
    this.formats = formats;
    this.opened = []; // the choices of files, for Back
    this.input = el('input', {type: 'file', multiple: true, hidden: true, onchange: () => { this.choose([...this.input.files]); this.input.value = ''; }});
    document.body.append(this.input);
    const over = (is) => document.body.classList.toggle('dropping', is);
    addEventListener('dragover', (e) => { e.preventDefault(); over(true); });
    addEventListener('dragleave', (e) => { if (!e.relatedTarget) over(false); }); // it left the page, not an element of it
    addEventListener('drop', (e) => { e.preventDefault(); over(false); this.choose([...e.dataTransfer.files]); });
    addEventListener('popstate', (e) => this.went(e.state));
  }

  async start() {
    replace(this.main, el('p', {class: 'loading', role: 'status'}, 'loading memlane …'));
    let program;
    try {
      program = await load();
    } catch (error) {
      this.broken = location.protocol === 'file:' ? 'A page on disk cannot load its program. Serve this folder, for example with: python3 -m http.server' : `memlane cannot be loaded: ${error.message}`;
      this.refuse([]);
      return;
    }
    document.head.append(el('meta', {'http-equiv': 'Content-Security-Policy', content: 'connect-src \'none\''}));
    const script = URL.createObjectURL(new Blob([await unpack('worker')], {type: 'text/javascript'})); // has the policy of this moment
    this.newReader = () => new Reader(script, program);
    this.next = this.newReader();
    history.replaceState({opened: none}, '');
    this.open(none);
    document.body.dataset.ready = 'true';
  }

  // choose opens files as a new entry of the browser's history. The first choice shows the
  // view that the address of the page names.
  choose(files) {
    if (!files.length) return;
    if (!this.newReader) {
      this.refuse(files);
      return;
    }
    this.opened.push(files);
    const opened = this.opened.length - 1;
    history.pushState({opened}, '', location.pathname + (opened ? '' : location.hash));
    this.open(opened);
  }

  // refuse says why files cannot be read: without its program, or before it is loaded, the page reads none.
  refuse(files) {
    replace(this.main, el('p', {class: 'empty', role: this.broken ? 'alert' : 'status'}, this.broken ?? 'loading memlane …', files.length > 0 && ` ${files.map((f) => f.name).join(', ')} ${files.length > 1 ? 'were' : 'was'} not read.`));
  }

  // example opens the capture that the page has.
  async example() {
    this.choose([new File([await unpack('example')], 'example.pickle.zst')]);
  }

  // went follows Back and Forward. A link inside the page makes an entry without a state.
  went(state) {
    if (!state) history.replaceState({opened: this.shown}, '');
    else if (state.opened !== this.shown) this.open(state.opened);
  }

  // open shows the captures of a choice, or the start.
  async open(opened) {
    this.close();
    this.shown = opened;
    const files = this.opened[opened];
    if (!files) {
      this.welcome();
      return;
    }
    const state = el('div', {}, progress({state: 'reading', file: files[0].name, read: 0, size: files[0].size}));
    replace(this.main, el('section', {class: 'reading'}, state, button('Cancel', 'stop reading', () => reader.cancel())));
    const reader = this.reader = this.next ?? this.newReader();
    this.next = null;
    try {
      await reader.read(files, (status) => replace(state, progress(status)));
      const all = await captures(reader);
      if (this.reader !== reader) return; // another choice was made meanwhile
      const app = this.app = new App(all, this.main, [button('open …', `other captures; or drop them here. ${privacy}`, () => this.input.click())]);
      app.commands = false;
      app.answer = (address) => reader.answer(address);
      await app.start();
      app.ready = performance.now();
      globalThis.memlane = app; // for the console and for tests
      this.next ??= this.newReader();
      document.title = `${all.map((c) => c.name).join(', ')} · memlane`;
    } catch (error) {
      if (this.reader !== reader) return;
      this.close();
      this.shown = none; // Back must not read it again
      history.replaceState({opened: none}, '');
      this.welcome(error instanceof Canceled ? null : error, files);
    }
  }

  close() {
    this.reader?.close();
    this.app?.close();
    this.reader = this.app = globalThis.memlane = null;
  }

  // welcome shows how to choose captures, and why the last ones could not be read.
  welcome(error, files) {
    document.title = 'memlane';
    replace(this.main, error && failure(error, files),
      el('section', {class: 'drop'}, el('h1', {}, 'memlane'), el('p', {}, 'Which buffers held the GPU\'s memory, and who allocated them?'),
        el('p', {}, button('Choose captures', 'one, or several to compare', () => this.input.click(), {class: 'choose'}), ' or drop them here, several to compare them. ', button('Show an example', 'a training that ran out of memory', () => this.example(), {class: 'example'})),
        el('ul', {}, this.formats.map((text) => el('li', {}, text))), el('p', {}, 'Compressed files (gzip, zstd) are read too.'), el('p', {class: 'privacy'}, privacy)));
  }
}

// failure describes why files could not be read. A capture that is too large for the browser
// fits in the memory of the machine.
function failure(error, files) {
  if (!error.large) return el('p', {class: 'empty', role: 'alert'}, error.ended ? `memlane stopped: ${error.message}` : error.message);
  const quoted = files.map((f) => `'${f.name.replaceAll('\'', '\'\\\'\'')}'`).join(' ');
  return el('div', {class: 'empty', role: 'alert'}, el('p', {}, 'Too large for a browser, which limits the memory of a page. The program has no such limit and shows the same page:'),
    el('pre', {}, el('code', {}, `memlane serve ${quoted}`)));
}

async function start() {
  setTheme(matchMedia('(prefers-color-scheme: dark)').matches);
  const main = el('main');
  document.body.append(main);
  const formats = JSON.parse(new TextDecoder().decode(await unpack('formats')));
  const local = new Local(main, formats);
  globalThis.local = local; // for tests
  await local.start();
}

start();
