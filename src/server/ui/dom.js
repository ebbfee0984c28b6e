// What every part of the page makes nodes with.

export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in node) node[name] = value; else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

// Outside of HTTPS and the local host browsers give no clipboard: a selection is copied then.
function copySelected(text) {
  const area = element('textarea', { value: text, className: 'hidden', readOnly: true });
  const place = document.querySelector('dialog[open]') ?? document.body;
  place.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  if (!done) throw new Error('not allowed');
}

export async function copyText(text, button) {
  const before = button.dataset.label ??= button.textContent;
  try {
    if (navigator.clipboard) await navigator.clipboard.writeText(text); else copySelected(text);
    button.textContent = 'Copied';
  } catch { button.textContent = 'Not allowed'; }
  button.focus();
  setTimeout(() => { button.textContent = before; }, 1500);
}
