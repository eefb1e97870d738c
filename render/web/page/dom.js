// Creates elements. Texts become text nodes, so text of a capture is never markup. Styles
// are set as properties because the policy of the page forbids the attribute.

export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else if (name === 'style') Object.assign(element.style, value);
    else if (value === true) element.setAttribute(name, '');
    else if (value !== false && value != null) element.setAttribute(name, value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}

// replace replaces all children of an element.
export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child != null && child !== false));
}

// broken lets a word that is longer than a line of a phone break after what joins its parts, not in the middle of a part.
export const broken = (text) => text.split(/(\S{34,})/).map((word, i) => (i % 2 ? word.split(/(?<=\w[=/(.,:])/).flatMap((part) => [part, el('wbr')]) : word));

export function button(text, title, onclick, attributes = {}) {
  return el('button', {type: 'button', title, onclick, ...attributes}, text);
}
