// The keyboard.

import {el} from './dom.js';

const list = [
  ['← → or a d', 'move'], ['+ − or w s', 'zoom in, zoom out'], ['0', 'show the whole recording'], ['p', 'go to the peak'], ['e', 'go to the end'], [', .', 'previous change, next change'],
  ['[ ]', 'the range begins, ends at the chosen time'], ['g', 'what grew in the range'],
  ['/', 'search'], ['1 … 9', 'tabs below'], ['l', 'layout'], ['c', 'colours'], ['Esc', 'unpin, clear highlight'], ['?', 'this help'],
];

// help returns the dialog that explains keys and mouse.
export function help() {
  return el('dialog', {class: 'help', 'aria-label': 'help'}, el('h2', {}, 'Keys and mouse'),
    el('dl', {class: 'facts'}, list.map(([key, text]) => [el('dt', {}, el('kbd', {}, key)), el('dd', {}, text)])),
    el('p', {}, 'Ctrl + wheel: zoom the time at the cursor. Alt + wheel: zoom the bytes. Shift + wheel: move. Drag: zoom to the selected time, with Alt to the bytes; Back undoes it. Shift + drag: move. ' +
      'Click the picture: go to that time. Click a block: pin it and show its stack. Search: type text, /a regular expression/ or an address such as 0x7f0000000000. In the memory map, ← and → step through events, ↑ and ↓ choose a hole.'),
    el('form', {method: 'dialog'}, el('button', {}, 'Close')));
}

// listen calls actions by the name of a key, except while the user types. It ends with signal.
export function listen(actions, signal) {
  document.addEventListener('keydown', (e) => {
    if (document.querySelector('dialog[open]')) return; // Esc closes it
    if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest('input, select, textarea, dialog') && e.key !== 'Escape') return;
    const action = actions[e.key];
    if (!action) return;
    e.preventDefault();
    action();
  }, {signal});
}
