// The chat: what is shown, what is asked, what is kept.
import { Markdown, copyText, element } from './markdown.js';
import { ServerError, chat, request } from './stream.js';
import * as store from './store.js';

const $ = (id) => document.getElementById(id);
const NUMBERS = ['temperature', 'top_p', 'top_k', 'min_p', 'max_tokens', 'seed'];
const settings = { ...JSON.parse(localStorage.getItem('met.settings') || '{}') };
const runs = new Map();  // of conversations that are being answered: id → AbortController
const views = new WeakMap();  // message → what draws it
let conversations = [];
let current = null;
let images = [];
let seesImages = false;
let follow = true;

const uuid = () => crypto.randomUUID?.() ?? Date.now().toString(36) + Math.random().toString(36).slice(2);
const say = (text) => { $('state').textContent = text; };
const keep = (conversation) => store.put(conversation).catch(() => say('This browser has no room to keep the chat.'));

// ---- conversations

function group(time) {
  const days = Math.floor((new Date().setHours(24, 0, 0, 0) - time) / 86400000);
  return days < 1 ? 'Today' : days < 2 ? 'Yesterday' : days < 8 ? 'Previous 7 days' : 'Older';
}

function drawList() {
  const nodes = [];
  let last = '';
  for (const conversation of conversations) {
    const name = group(conversation.updated);
    if (name !== last) nodes.push(element('h2', {}, name));
    last = name;
    const pick = element('button', { textContent: conversation.title, title: conversation.title });
    pick.addEventListener('click', () => show(conversation));
    const rename = element('button', { className: 'small', textContent: '✎', title: 'Rename', 'aria-label': 'Rename' });
    rename.addEventListener('click', () => renameIn(conversation, pick));
    const remove = element('button', { className: 'small', textContent: '✕', title: 'Delete', 'aria-label': 'Delete' });
    remove.addEventListener('click', () => forget(conversation));
    const row = element('div', { className: 'item' + (conversation === current ? ' current' : '') }, pick, rename, remove);
    if (conversation === current) pick.setAttribute('aria-current', 'true');
    nodes.push(row);
  }
  $('list').replaceChildren(...nodes);
}

function renameIn(conversation, place) {
  const input = element('input', { value: conversation.title, 'aria-label': 'Title' });
  let ended = false;
  const end = (take) => {
    if (ended) return;
    ended = true;
    if (take && input.value.trim()) { conversation.title = input.value.trim(); keep(conversation); }
    drawList();
  };
  input.addEventListener('keydown', (event) => {
    if (event.key === 'Enter' || event.key === 'Escape') { event.stopPropagation(); end(event.key === 'Enter'); }
  });
  input.addEventListener('blur', () => end(true));
  place.replaceWith(input);
  input.select();
}

async function forget(conversation) {
  if (!confirm('Delete “' + conversation.title + '”?')) return;
  runs.get(conversation.id)?.abort();
  conversations = conversations.filter((other) => other !== conversation);
  await store.remove(conversation.id);
  if (conversation === current) show(null); else drawList();
}

function show(conversation) {
  current = conversation;
  document.body.classList.remove('open');
  document.title = conversation ? conversation.title + ' · met' : 'met';
  drawList();
  drawMessages();
  follow = true;
  toEnd();
  $('input').focus();
}

// ---- messages

function drawMessages() {
  $('messages').replaceChildren(...(current?.messages ?? []).map(drawMessage));
  $('empty').hidden = Boolean(current?.messages.length);
  drawState();
}

function action(label, work) {
  const button = element('button', { type: 'button', textContent: label });
  button.addEventListener('click', () => work(button));
  return button;
}

function drawMessage(message) {
  const body = element('div', { className: 'body' });
  const actions = element('div', { className: 'actions' });
  const node = element('article', { className: 'message ' + message.role, 'aria-label': message.role === 'user' ? 'You' : 'Model' });
  actions.append(action('Copy', (button) => copyText(message.content, button)));
  if (message.role === 'user') {
    for (const url of message.images ?? []) node.append(element('img', { src: url, alt: 'Attached image', className: 'attached' }));
    body.textContent = message.content;
    actions.append(action('Edit', () => edit(message, node)));
  } else {
    body.classList.add('md');
    actions.append(action('Regenerate', () => regenerate(message)));
  }
  const stats = element('span', { className: 'stats' });
  actions.append(stats);
  node.append(body, actions);
  views.set(message, { node, body, actions, stats, markdown: new Markdown(body), due: false });
  if (message.role === 'assistant') paint(message);
  return node;
}

function paint(message) {
  const view = views.get(message);
  if (!view) return;
  view.due = false;
  if (message.reasoning) {
    if (!view.thoughts) {
      const inner = element('div', { className: 'md' });
      view.summary = element('summary');
      view.node.prepend(element('details', {}, view.summary, inner));
      view.thoughts = new Markdown(inner);
    }
    view.thoughts.update(message.reasoning);
    view.summary.textContent = message.live && !message.content ? 'Thinking …' : 'Thoughts';
  }
  view.markdown.update(message.content);
  view.extra?.remove();
  view.extra = element('div');
  for (const call of message.calls ?? []) {
    let text = call.arguments;
    try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { /* shown as it came */ }
    view.extra.append(element('div', { className: 'code' }, element('div', {}, 'Calls ' + call.name), element('pre', {}, element('code', {}, text))));
  }
  if (message.live && !message.content && !message.reasoning) view.extra.append(element('span', { className: 'wait', 'aria-label': 'Waiting' }));
  if (message.error) view.extra.append(element('div', { className: 'error', role: 'alert' }, message.error));
  view.actions.before(view.extra);
  view.actions.hidden = Boolean(message.live);
  view.stats.textContent = message.stats ?? '';
  if (message.live || follow) toEnd();
}

function paintSoon(message) {
  const view = views.get(message);
  if (!view || view.due) return;
  view.due = true;
  requestAnimationFrame(() => paint(message));
}

function toEnd() { if (follow) $('scroll').scrollTop = $('scroll').scrollHeight; }

function edit(message, node) {
  if (runs.has(current.id)) return;
  const area = element('textarea', { className: 'edit', value: message.content, rows: Math.min(12, message.content.split('\n').length + 1), 'aria-label': 'Edit message' });
  const cancel = () => { drawMessages(); $('input').focus(); };
  const take = () => {
    if (!area.value.trim()) return;
    const { content, images: kept } = { ...message, content: area.value };
    current.messages.length = current.messages.indexOf(message);
    submit(content, kept ?? []);
  };
  area.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') { event.stopPropagation(); cancel(); }
    if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); take(); }
  });
  node.replaceChildren(area, element('div', { className: 'actions' }, action('Send', take), action('Cancel', cancel)));
  area.focus();
}

// ---- asking

function wireMessages(conversation) {
  const out = settings.system ? [{ role: 'system', content: settings.system }] : [];
  for (const message of conversation.messages) {
    if (message.live || (message.role === 'assistant' && !message.content)) continue;
    const parts = (message.images ?? []).map((url) => ({ type: 'image_url', image_url: { url } }));
    out.push({ role: message.role, content: parts.length ? [...parts, { type: 'text', text: message.content }] : message.content });
  }
  return out;
}

function wireBody(conversation) {
  const body = { model: $('model').value || undefined, messages: wireMessages(conversation), stream: true, stream_options: { include_usage: true } };
  for (const name of NUMBERS) if (settings[name] !== undefined && settings[name] !== '') body[name] = Number(settings[name]);
  if (settings.thinking) body.enable_thinking = settings.thinking === 'on';
  return body;
}

function submit(text, attached) {
  if (!current) {
    current = { id: uuid(), title: text.trim().split('\n')[0].slice(0, 60) || 'Image', messages: [], updated: Date.now() };
    conversations.unshift(current);
  }
  current.messages.push({ role: 'user', content: text, images: attached });
  answer(current);
}

function regenerate(message) {
  if (runs.has(current.id)) return;
  current.messages.length = current.messages.indexOf(message);
  answer(current);
}

function take(message, chunk) {
  const delta = chunk.choices?.[0]?.delta;
  if (chunk.usage) message.tokens = chunk.usage.completion_tokens;
  if (!delta) return false;
  message.reasoning += delta.reasoning_content ?? '';
  message.content += delta.content ?? '';
  for (const part of delta.tool_calls ?? []) {
    const call = (message.calls[part.index ?? 0] ??= { id: '', name: '', arguments: '' });
    call.id += part.id ?? '';
    call.name += part.function?.name ?? '';
    call.arguments += part.function?.arguments ?? '';
  }
  return Boolean(delta.content || delta.reasoning_content || delta.tool_calls);
}

async function answer(conversation) {
  const controller = new AbortController();
  const message = { role: 'assistant', content: '', reasoning: '', calls: [], live: true };
  runs.set(conversation.id, controller);
  const body = wireBody(conversation);
  conversation.messages.push(message);
  conversation.updated = Date.now();
  conversations.sort((a, b) => b.updated - a.updated);
  drawList();
  drawMessages();
  follow = true;
  toEnd();
  const begin = performance.now();
  let first = 0;
  let pieces = 0;
  let saved = begin;
  keep(kept(conversation));
  try {
    for await (const chunk of chat(body, settings.key, controller.signal)) {
      if (take(message, chunk)) { first ||= performance.now(); pieces++; }
      paintSoon(message);
      if (performance.now() - saved < 2000) continue;
      saved = performance.now();
      keep(kept(conversation));
    }
  } catch (error) {
    if (!controller.signal.aborted) message.error = error instanceof ServerError ? error.message : 'The answer could not be read.';
    if (error.status === 401) askKey();
  }
  const seconds = (performance.now() - first) / 1000;
  const tokens = message.tokens ?? pieces;
  if (first) {
    const speed = tokens > 1 && seconds > 0 ? ((tokens - 1) / seconds).toFixed(1) + ' tokens/s · ' : '';
    message.stats = speed + 'first after ' + ((first - begin) / 1000).toFixed(2) + ' s · ' + tokens + ' tokens';
  }
  delete message.live;
  runs.delete(conversation.id);
  if (conversations.includes(conversation)) keep(conversation);
  paint(message);
  drawState();
  if (conversation === current) $('announce').textContent = message.error ? message.error : 'The answer is complete.';
}

// What is stored while an answer grows: the same, not marked as growing.
function kept(conversation) {
  return { ...conversation, messages: conversation.messages.map(({ live, ...rest }) => rest) };
}

function drawState() {
  const busy = Boolean(current && runs.has(current.id));
  $('send').textContent = busy ? '■' : '↑';
  $('send').setAttribute('aria-label', busy ? 'Stop' : 'Send');
  $('send').disabled = !busy && !$('input').value.trim() && images.length === 0;
}

function stop() { if (current) runs.get(current.id)?.abort(); }

// ---- images

function addImages(files) {
  if (!seesImages) return;
  for (const file of files) {
    if (!file.type.startsWith('image/')) continue;
    const reader = new FileReader();
    reader.addEventListener('load', () => { images.push(reader.result); drawImages(); });
    reader.readAsDataURL(file);
  }
}

function drawImages() {
  $('images').replaceChildren(...images.map((url, i) => {
    const remove = element('button', { type: 'button', title: 'Remove', 'aria-label': 'Remove the image' }, element('img', { src: url, alt: '' }));
    remove.addEventListener('click', () => { images.splice(i, 1); drawImages(); });
    return remove;
  }));
  drawState();
}

// ---- settings

function field(name) { return $('settings').querySelector('[name=' + name + ']'); }

function openSettings() {
  for (const name of [...NUMBERS, 'system', 'thinking', 'key', 'theme']) field(name).value = settings[name] ?? '';
  if (!$('settings').open) $('settings').showModal();
}

function askKey() {
  openSettings();
  field('key').focus();
}

function takeSettings() {
  const keyBefore = settings.key;
  for (const name of [...NUMBERS, 'system', 'thinking', 'key', 'theme']) settings[name] = field(name).value;
  localStorage.setItem('met.settings', JSON.stringify(settings));
  localStorage.setItem('met.theme', settings.theme);
  if (settings.theme) document.documentElement.dataset.theme = settings.theme; else delete document.documentElement.dataset.theme;
  if (settings.key !== keyBefore) loadModels();
}

function exportAll() {
  const url = URL.createObjectURL(new Blob([JSON.stringify({ met: 1, conversations }, null, 1)], { type: 'application/json' }));
  element('a', { href: url, download: 'met-conversations.json' }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}

async function importFrom(file) {
  try {
    const read = JSON.parse(await file.text());
    const found = (read.conversations ?? [read]).map(store.sanitized).filter(Boolean);
    for (const conversation of found) await store.put(conversation);
    conversations = [...conversations, ...found].sort((a, b) => b.updated - a.updated);
    drawList();
    say(found.length + ' imported');
  } catch { say('This file holds no conversations.'); }
}

async function loadModels() {
  try {
    const { data } = await (await request('v1/models', {}, settings.key)).json();
    $('model').replaceChildren(...data.map((model) => element('option', { value: model.id, textContent: model.id })));
    $('model').disabled = data.length < 2;
    seesImages = data.some((model) => model.capabilities?.image_input);
    $('attach').hidden = !seesImages;
    $('thinking').hidden = data.every((model) => model.capabilities?.reasoning === false);
    say('');
  } catch (error) {
    if (error.status === 401) { say('An API key is needed.'); askKey(); return; }
    say(error.status === 503 ? 'The model is loading …' : error.message);
    setTimeout(loadModels, 2000);
  }
}

// ---- wiring

function fit() {
  $('input').style.height = 'auto';
  $('input').style.height = $('input').scrollHeight + 'px';
  drawState();
}

function send() {
  const text = $('input').value;
  if (current && runs.has(current.id)) return;
  if (!text.trim() && images.length === 0) return;
  const attached = images;
  images = [];
  drawImages();
  $('input').value = '';
  fit();
  submit(text, attached);
}

$('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  if (current && runs.has(current.id)) stop(); else send();
});
$('input').addEventListener('input', fit);
$('input').addEventListener('keydown', (event) => {
  if (event.key === 'Enter' && !event.shiftKey && !event.isComposing) { event.preventDefault(); send(); }
});
$('input').addEventListener('paste', (event) => addImages(event.clipboardData.files));
document.addEventListener('dragover', (event) => event.preventDefault());
document.addEventListener('drop', (event) => { event.preventDefault(); addImages(event.dataTransfer.files); });
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !$('settings').open) stop();
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') { event.preventDefault(); show(null); }
});
$('new').addEventListener('click', () => show(null));
$('menu').addEventListener('click', () => document.body.classList.toggle(innerWidth <= 760 ? 'open' : 'closed'));
$('scrim').addEventListener('click', () => document.body.classList.remove('open'));
$('attach').addEventListener('click', () => $('file').click());
$('file').addEventListener('change', () => { addImages($('file').files); $('file').value = ''; });
$('open-settings').addEventListener('click', openSettings);
$('settings').addEventListener('close', takeSettings);
$('export').addEventListener('click', exportAll);
$('import').addEventListener('click', () => $('import-file').click());
$('import-file').addEventListener('change', () => { importFrom($('import-file').files[0]); $('import-file').value = ''; });
$('latest').addEventListener('click', () => { follow = true; toEnd(); });
$('scroll').addEventListener('scroll', () => {
  const scroll = $('scroll');
  follow = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
  $('latest').hidden = follow;
}, { passive: true });

await store.open();
conversations = await store.all();
show(null);
loadModels();
