// Deep links: the state of the page, after the # of its address.

// read returns the fields of the address: texts by name.
export function read() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

// link returns an address with fields. It omits fields without a value.
export function link(fields) {
  return here() + hash(fields);
}

// here returns the address of the page. In the frame of a notebook, "#..." alone would lead to the notebook.
function here() {
  return location.href.split('#', 1)[0];
}

function hash(fields) {
  const known = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined && value !== '');
  return '#' + new URLSearchParams(known).toString().replaceAll('%3A', ':').replaceAll('%2F', '/');
}

// entry returns the entry of a list by its number in an address.
export function entry(list, text) {
  return /^\d+$/.test(text) ? list[Number(text)] : undefined;
}

let shown = location.hash;
let waiting = 0;
const pause = 200; // ms; browsers block pages that write their address at every frame

// write writes fields to the address, after a pause. A zoom is a new entry in the browser's history, so that Back undoes it;
// other changes are none.
export function write(fields) {
  shown = hash(fields);
  clearTimeout(waiting);
  const now = location.hash; // if a link changes it meanwhile, follow comes next
  waiting = setTimeout(() => {
    if (now !== location.hash || shown === now) return;
    history[zoomOf(now) === zoomOf(shown) ? 'replaceState' : 'pushState'](history.state, '', here() + shown);
  }, pause);
}

// zoomOf returns the visible range in an address.
function zoomOf(hash) {
  const fields = new URLSearchParams(hash.slice(1));
  return ['from', 'to', 'low', 'high'].map((name) => fields.get(name)).join();
}

// follow calls go for every address that write did not write: links and Back. It ends with
// signal.
export function follow(go, signal) {
  addEventListener('hashchange', () => {
    if (location.hash === shown) return;
    clearTimeout(waiting);
    go(read());
  }, {signal});
  signal.addEventListener('abort', () => clearTimeout(waiting));
}
