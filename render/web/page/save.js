// Offers files to the browser.

// save offers a file whose content is a text or bytes.
export function save(name, type, content) {
  saveBlob(name, new Blob([content], {type}));
}

export function saveBlob(name, blob) {
  const url = URL.createObjectURL(blob);
  const a = document.createElement('a');
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

// fileName returns a file name for a space.
export function fileName(space) {
  return `${space.capture.name.split(/[\\/]/).pop()}-${space.id}`.replace(/[^\w.-]+/g, '-').slice(0, 80);
}
