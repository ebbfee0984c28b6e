// Conversations in this browser's IndexedDB; in memory where that is not allowed.

let database = null;
const memory = new Map();

export async function open() {
  database = await new Promise((resolve) => {
    try {
      const asked = indexedDB.open('met', 1);
      asked.onupgradeneeded = () => asked.result.createObjectStore('conversations', { keyPath: 'id' });
      asked.onsuccess = () => resolve(asked.result);
      asked.onerror = () => resolve(null);
    } catch { resolve(null); }
  });
}

function run(mode, work) {
  return new Promise((resolve, reject) => {
    const asked = work(database.transaction('conversations', mode).objectStore('conversations'));
    asked.onsuccess = () => resolve(asked.result);
    asked.onerror = () => reject(asked.error);
  });
}

export async function all() {
  const found = database ? await run('readonly', (store) => store.getAll()) : [...memory.values()];
  return found.sort((a, b) => b.updated - a.updated);
}
export async function put(conversation) {
  if (database) await run('readwrite', (store) => store.put(conversation)); else memory.set(conversation.id, conversation);
}
export async function remove(id) {
  if (database) await run('readwrite', (store) => store.delete(id)); else memory.delete(id);
}

export const uuid = () => crypto.randomUUID?.() ?? Date.now().toString(36) + Math.random().toString(36).slice(2);

const text = (v) => (typeof v === 'string' ? v : '');
const list = (v) => (Array.isArray(v) ? v : []);
const answer = (m) => ({
  content: text(m?.content), reasoning: text(m?.reasoning), error: text(m?.error), note: text(m?.note), stats: text(m?.stats),
  calls: list(m?.calls).map((c) => ({ id: text(c?.id), name: text(c?.name), arguments: text(c?.arguments) })),
});

// What an imported file holds, as far as it is a conversation of ours.
export function sanitized(value) {
  if (!value || !Array.isArray(value.messages)) return null;
  const messages = value.messages.filter((m) => m && (m.role === 'user' || m.role === 'assistant')).map((m) => ({
    role: m.role, ...answer(m), before: list(m.before).map(answer), after: list(m.after).map(answer),
    images: list(m.images).filter((i) => /^data:image\/(png|jpeg|webp|gif);base64,/.test(i)),
  }));
  const id = /^[\w.-]{8,64}$/.test(text(value.id)) ? value.id : uuid();
  return { id, title: text(value.title).slice(0, 200) || 'Imported chat', messages, updated: Number.isFinite(value.updated) ? value.updated : Date.now() };
}
