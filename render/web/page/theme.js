// The colours of the page, dark or light.

const styles = new Map();

// style returns a colour of the page's style sheet in the current theme.
export function style(name) {
  if (!styles.has(name)) styles.set(name, getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim());
  return styles.get(name);
}

// setTheme makes the page dark or light.
export function setTheme(dark) {
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  styles.clear();
}
