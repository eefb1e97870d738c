// Makes elements. Texts become text nodes: nothing of a capture is ever read as
// markup. Attributes are set as properties of style where the policy of the page
// forbids the attribute.

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

// replace puts new children in the place of all that an element has.
export function replace(element, ...children) {
  element.replaceChildren(...children.flat(Infinity).filter((child) => child != null && child !== false));
}

export function button(text, title, onclick, attributes = {}) {
  return el('button', {type: 'button', title, onclick, ...attributes}, text);
}
