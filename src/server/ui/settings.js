// The dialog of settings, and conversations as a file.
import { element } from './dom.js';
import * as store from './store.js';

const $ = (id) => document.getElementById(id);
export const NUMBERS = ['temperature', 'top_p', 'top_k', 'min_p', 'max_tokens', 'seed'];
const NAMES = [...NUMBERS, 'system', 'thinking', 'key', 'theme'];
const field = (name) => $('settings').querySelector('[name=' + name + ']');

function read() {
  try { return { ...JSON.parse(localStorage.getItem('met.settings') || '{}') }; } catch { return {}; }
}
export const settings = read();

export const note = (text) => { $('note').textContent = text; };

export function openSettings() {
  for (const name of NAMES) field(name).value = settings[name] ?? '';
  note('Settings and conversations stay in this browser.');
  if (!$('settings').open) $('settings').showModal();
}

export function askKey() {
  openSettings();
  note('This server asks for an API key.');
  field('key').focus();
}

function showTheme(theme) {
  if (theme) document.documentElement.dataset.theme = theme; else delete document.documentElement.dataset.theme;
}

// `keyChanged` is called when the dialog closes with another key.
export function wireSettings(keyChanged) {
  $('open-settings').addEventListener('click', openSettings);
  field('theme').addEventListener('change', () => showTheme(field('theme').value));
  $('settings').addEventListener('click', (event) => { if (event.target === $('settings')) $('settings').close(); });
  $('settings').addEventListener('close', () => {
    const before = settings.key;
    for (const name of NAMES) settings[name] = field(name).value;
    try {
      localStorage.setItem('met.settings', JSON.stringify(settings));
      localStorage.setItem('met.theme', settings.theme);
    } catch { /* they hold until the page is closed */ }
    showTheme(settings.theme);
    if (settings.key !== before) keyChanged();
  });
}

export function exportAll(conversations) {
  const url = URL.createObjectURL(new Blob([JSON.stringify({ met: 1, conversations }, null, 1)], { type: 'application/json' }));
  element('a', { href: url, download: 'met-conversations.json' }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

// The conversations of a file that are new here, or newer than those of the same name. Throws where there is none.
export async function importFrom(file, known) {
  const found = JSON.parse(await file.text());
  const list = Array.isArray(found) ? found : Array.isArray(found.conversations) ? found.conversations : [found];
  const read = list.map(store.sanitized).filter(Boolean);
  if (!read.length) throw new Error('no conversations');
  const byId = new Map(known.map((conversation) => [conversation.id, conversation]));
  const taken = [];
  for (const conversation of read) {
    if ((byId.get(conversation.id)?.updated ?? -1) >= conversation.updated) continue;
    byId.set(conversation.id, conversation);
    taken.push(conversation);
  }
  for (const conversation of taken) await store.put(conversation);
  return taken;
}
