// Deep links: what the page shows, after the # of its address.

// read returns the fields of the address: texts by name.
export function read() {
  return Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
}

// link returns an address with fields; those without a value are left out.
export function link(fields) {
  const known = Object.entries(fields).filter(([, value]) => value !== null && value !== undefined && value !== '');
  return '#' + new URLSearchParams(known).toString().replaceAll('%3A', ':').replaceAll('%2F', '/');
}

// entry returns what an address names by its number in a list.
export function entry(list, text) {
  return /^\d+$/.test(text) ? list[Number(text)] : undefined;
}

let shown = location.hash;
let waiting = 0;
const pause = 200; // ms: browsers refuse pages that write their address at every frame

// write puts fields into the address, in a moment and without a step in the history
// of the browser.
export function write(fields) {
  shown = link(fields);
  clearTimeout(waiting);
  waiting = setTimeout(() => { if (shown !== location.hash) history.replaceState(null, '', shown); }, pause);
}

// follow calls go for every address that was not written here: links and Back.
export function follow(go) {
  addEventListener('hashchange', () => {
    if (location.hash === shown) return;
    clearTimeout(waiting);
    go(read());
  });
}
