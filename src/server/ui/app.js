// The chat: what is shown, what is asked, what is kept.
import { copyText, element } from './dom.js';
import { readImage } from './images.js';
import { Markdown } from './markdown.js';
import { NUMBERS, askKey, exportAll, importFrom, note, settings, wireSettings } from './settings.js';
import { Sidebar } from './sidebar.js';
import * as store from './store.js';
import { ServerError, chat, request } from './stream.js';
import * as versions from './versions.js';

const $ = (id) => document.getElementById(id);
const touch = matchMedia('(pointer: coarse)');
const runs = new Map();  // of conversations that are being answered: id → AbortController
const views = new WeakMap();  // message → what draws it
let conversations = [];
let current = null;
let images = [];
let models = [];
let follow = true;

const say = (text) => { $('state').textContent = text; };
const keep = (conversation) => store.put(kept(conversation)).catch(() => say('This browser has no room to keep the chat.'));
// On a screen that is touched the focus would bring up the keyboard.
const focusInput = () => { if (!touch.matches) $('input').focus(); };

// ---- conversations

const sidebar = new Sidebar({
  all: () => conversations, current: () => current, busy: (conversation) => runs.has(conversation.id),
  show: (conversation) => { sidebar.close(); show(conversation); }, remove: forget,
  renamed: (conversation) => { keep(conversation); drawTitle(); },
});

async function forget(conversation) {
  if (!confirm('Delete “' + conversation.title + '”?')) return;
  runs.get(conversation.id)?.abort();
  conversations = conversations.filter((other) => other !== conversation);
  await store.remove(conversation.id);
  if (conversation === current) show(null); else sidebar.draw();
  focusInput();
}

function drawTitle() { document.title = current ? current.title + ' · met' : 'met'; }

function show(conversation) {
  current = conversation;
  drawTitle();
  sidebar.draw();
  $('messages').replaceChildren();
  drawMessages();
  follow = true;
  toEnd();
  focusInput();
}

// ---- messages

// The messages that there are: those that are drawn stay as they are.
function drawMessages() {
  const messages = current?.messages ?? [];
  const nodes = messages.map((message) => views.get(message)?.node ?? drawMessage(message));
  const wanted = new Set(nodes);
  for (const node of [...$('messages').children]) if (!wanted.has(node)) node.remove();
  nodes.forEach((node, i) => { if ($('messages').children[i] !== node) $('messages').insertBefore(node, $('messages').children[i] ?? null); });
  $('empty').hidden = messages.length > 0;
  drawState();
}

function action(label, work) {
  const button = element('button', { type: 'button', textContent: label });
  button.addEventListener('click', () => work(button));
  return button;
}

function drawMessage(message) {
  const body = element('div', { className: 'body', dir: 'auto' });
  const actions = element('div', { className: 'actions' });
  const node = element('article', { className: 'message ' + message.role, 'aria-label': message.role === 'user' ? 'You' : 'Model' });
  actions.append(action('Copy', (button) => copyText(message.content, button)));
  const view = { node, body, actions, due: false };
  if (message.role === 'user') {
    for (const url of message.images ?? []) node.append(element('img', { src: url, alt: 'Attached image', className: 'attached' }));
    body.textContent = message.content;
    body.hidden = !message.content;
    actions.append(action('Edit', () => edit(message, node)));
  } else {
    body.classList.add('md');
    view.again = action('Regenerate', () => regenerate(message));
    view.stats = element('span', { className: 'stats' });
    view.extra = element('div', { className: 'extra' });
    view.markdown = new Markdown(body);
    actions.append(view.again);
    if (versions.count(message) > 1) actions.append(versionsOf(message));
    actions.append(view.stats);
  }
  node.append(body, ...(view.extra ? [view.extra] : []), actions);
  views.set(message, view);
  if (message.role === 'assistant') paint(message);
  return node;
}

function versionsOf(message) {
  const now = versions.place(message);
  const turn = (text, label, number) => {
    const button = action(text, () => {
      versions.turnTo(message, number);
      views.delete(message);
      drawMessages();
      keep(current);
      views.get(message).node.querySelector('.versions button:enabled').focus();
    });
    button.setAttribute('aria-label', label);
    button.disabled = number < 1 || number > versions.count(message);
    return button;
  };
  const which = element('span', { 'aria-label': 'Answer ' + now + ' of ' + versions.count(message), role: 'img' }, now + '/' + versions.count(message));
  return element('span', { className: 'versions' }, turn('‹', 'Previous answer', now - 1), which, turn('›', 'Next answer', now + 1));
}

function paintThoughts(message, view) {
  if (!message.reasoning) return;
  if (!view.thoughts) {
    const inner = element('div', { className: 'md' });
    view.summary = element('summary');
    view.node.prepend(element('details', {}, view.summary, inner));
    view.thoughts = new Markdown(inner);
  }
  view.thoughts.update(message.reasoning);
  view.summary.textContent = message.live && !message.content ? 'Thinking …' : 'Thoughts';
}

function callBlock(call) {
  let text = call.arguments;
  try { text = JSON.stringify(JSON.parse(text), null, 2); } catch { /* shown as it came */ }
  return element('div', { className: 'code' }, element('div', {}, 'Calls ' + call.name), element('pre', { tabIndex: 0 }, element('code', {}, text)));
}

function paint(message) {
  const view = views.get(message);
  if (!view) return;
  view.due = false;
  paintThoughts(message, view);
  view.markdown.update(message.content);
  const extra = (message.calls ?? []).map(callBlock);
  if (message.live && !message.content && !message.reasoning && !extra.length) extra.push(element('span', { className: 'wait', role: 'img', 'aria-label': 'Waiting' }));
  if (message.note) extra.push(element('p', { className: 'note' }, message.note));
  if (message.error) extra.push(element('div', { className: 'error', role: 'alert' }, message.error));
  view.extra.replaceChildren(...extra);
  view.actions.hidden = Boolean(message.live);
  view.again.textContent = message.error ? 'Try again' : 'Regenerate';
  view.stats.textContent = message.stats ?? '';
  if (view.node.isConnected) toEnd();
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
  const area = element('textarea', { className: 'edit', value: message.content, dir: 'auto', rows: Math.min(12, message.content.split('\n').length + 1), 'aria-label': 'Edit message' });
  const cancel = () => { views.delete(message); drawMessages(); focusInput(); };
  const take = () => {
    if (!area.value.trim() && !message.images?.length) return;
    current.messages.length = current.messages.indexOf(message);
    submit(area.value, message.images ?? []);
    focusInput();
  };
  area.addEventListener('keydown', (event) => {
    if (event.isComposing) return;
    if (event.key === 'Escape') { event.stopPropagation(); cancel(); }
    if (event.key === 'Enter' && !event.shiftKey && !touch.matches) { event.preventDefault(); take(); }
  });
  node.querySelector('.body').replaceWith(area);
  node.querySelector('.actions').replaceChildren(action('Send', take), action('Cancel', cancel));
  area.focus();
}

// ---- asking

// Questions that got no answer become one with the next: templates ask for turns.
function wireMessages(conversation) {
  const out = settings.system ? [{ role: 'system', content: settings.system }] : [];
  for (const message of conversation.messages) {
    if (message.live || (message.role === 'assistant' && !message.content)) continue;
    const parts = (message.images ?? []).map((url) => ({ type: 'image_url', image_url: { url } }));
    if (message.content) parts.push({ type: 'text', text: message.content });
    if (out.at(-1)?.role === message.role) out.at(-1).content.push(...parts); else out.push({ role: message.role, content: parts });
  }
  for (const message of out) {
    if (typeof message.content === 'string' || message.content.some((part) => part.type !== 'text')) continue;
    message.content = message.content.map((part) => part.text).join('\n\n');
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
    current = { id: store.uuid(), title: text.trim().split('\n')[0].slice(0, 60) || 'Image', messages: [], updated: Date.now() };
    conversations.unshift(current);
    drawTitle();
  }
  current.messages.push({ role: 'user', content: text, images: attached });
  answer(current);
}

function regenerate(message) {
  if (runs.has(current.id)) return;
  current.messages.length = current.messages.indexOf(message);
  answer(current, versions.all(message));
  focusInput();
}

function take(message, chunk) {
  const delta = chunk.choices?.[0]?.delta;
  if (chunk.choices?.[0]?.finish_reason === 'length') message.note = 'The answer was cut at the largest number of tokens.';
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

// `before` are the answers that the question got already.
async function answer(conversation, before = []) {
  const controller = new AbortController();
  const message = { role: 'assistant', content: '', reasoning: '', calls: [], before, live: true };
  runs.set(conversation.id, controller);
  const body = wireBody(conversation);
  conversation.messages.push(message);
  conversation.updated = Date.now();
  conversations.sort((a, b) => b.updated - a.updated);
  sidebar.draw();
  drawMessages();
  follow = true;
  toEnd();
  const begin = performance.now();
  let first = 0;
  let pieces = 0;
  let saved = begin;
  keep(conversation);
  try {
    for await (const chunk of chat(body, settings.key, controller.signal)) {
      if (take(message, chunk)) { first ||= performance.now(); pieces++; }
      paintSoon(message);
      if (performance.now() - saved < 2000) continue;
      saved = performance.now();
      keep(conversation);
    }
  } catch (error) {
    if (controller.signal.aborted) message.note = 'Stopped.';
    else message.error = error instanceof ServerError ? error.message : 'The connection was lost before the answer was complete.';
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
  if (!document.querySelector('.item input')) sidebar.draw();  // a title that is being written stays
  if (conversation !== current) return;
  drawState();
  $('announce').textContent = message.error || message.note || 'The answer is complete.';
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

const seesImages = () => Boolean(models.find((model) => model.id === $('model').value)?.capabilities?.image_input);

async function addImages(files) {
  const pictures = [...files].filter((file) => file.type.startsWith('image/'));
  if (!pictures.length) return;
  if (!seesImages()) { say('This model takes no images.'); return; }
  for (const file of pictures) {
    try { images.push(await readImage(file)); } catch { say('“' + file.name + '” is no image that this browser reads.'); }
    drawImages();
  }
}

function drawImages() {
  $('images').replaceChildren(...images.map((url, i) => {
    const remove = element('button', { type: 'button', title: 'Remove', 'aria-label': 'Remove image ' + (i + 1) }, element('img', { src: url, alt: '' }));
    remove.addEventListener('click', () => { images.splice(i, 1); drawImages(); $('input').focus(); });
    return remove;
  }));
  drawState();
}

// ---- models

function drawModel() {
  $('attach').hidden = !seesImages();
  $('thinking').hidden = models.every((model) => model.capabilities?.reasoning === false);
}

async function loadModels() {
  try {
    models = (await (await request('v1/models', {}, settings.key)).json()).data;
    $('model').replaceChildren(...models.map((model) => element('option', { value: model.id, textContent: model.id })));
    $('model').disabled = models.length < 2;
    drawModel();
    say('');
  } catch (error) {
    if (error.status === 401) { say('An API key is needed.'); askKey(); return; }
    say(error.status === 503 ? 'The model is loading …' : error.message);
    setTimeout(loadModels, 2000);
  }
}

async function takeFile(file) {
  try {
    const taken = await importFrom(file, conversations);
    const ids = new Set(taken.map((conversation) => conversation.id));
    conversations = [...conversations.filter((other) => !ids.has(other.id)), ...taken].sort((a, b) => b.updated - a.updated);
    if (current && ids.has(current.id)) show(conversations.find((conversation) => conversation.id === current.id)); else sidebar.draw();
    note(taken.length === 1 ? '1 conversation imported.' : taken.length + ' conversations imported.');
  } catch { note('This file holds no conversations.'); }
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

// What was typed with nothing in focus belongs into the message.
function typesElsewhere(event) {
  return event.key.length === 1 && event.key !== ' ' && !event.ctrlKey && !event.metaKey && !event.altKey &&
    document.activeElement === document.body && !$('settings').open && !sidebar.isDrawer();
}

function editLast() {
  const last = current?.messages.findLast((message) => message.role === 'user');
  if (last) edit(last, views.get(last).node);
}

$('composer').addEventListener('submit', (event) => {
  event.preventDefault();
  if (current && runs.has(current.id)) stop(); else send();
});
$('input').addEventListener('input', fit);
$('input').addEventListener('keydown', (event) => {
  if (event.isComposing) return;
  if (event.key === 'Enter' && !event.shiftKey && !touch.matches) { event.preventDefault(); send(); }
  if (event.key === 'ArrowUp' && !$('input').value && !(current && runs.has(current.id))) { event.preventDefault(); editLast(); }
});
$('input').addEventListener('paste', (event) => addImages(event.clipboardData.files));
document.addEventListener('dragover', (event) => event.preventDefault());
document.addEventListener('drop', (event) => { event.preventDefault(); addImages(event.dataTransfer.files); });
document.addEventListener('keydown', (event) => {
  if (event.key === 'Escape' && !$('settings').open && !sidebar.close()) stop();
  if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === 'k') { event.preventDefault(); newChat(); }
  if (typesElsewhere(event)) $('input').focus();
});
function newChat() {
  if ($('settings').open) return;
  sidebar.close();
  show(null);
}
$('new').addEventListener('click', newChat);
$('new-top').addEventListener('click', newChat);
$('model').addEventListener('change', drawModel);
$('attach').addEventListener('click', () => $('file').click());
$('file').addEventListener('change', async () => { await addImages($('file').files); $('file').value = ''; $('input').focus(); });
$('export').addEventListener('click', () => exportAll(conversations.map(kept)));
$('import').addEventListener('click', () => $('import-file').click());
$('import-file').addEventListener('change', async () => { await takeFile($('import-file').files[0]); $('import-file').value = ''; });
$('latest').addEventListener('click', () => { follow = true; toEnd(); focusInput(); });
$('scroll').addEventListener('scroll', () => {
  const scroll = $('scroll');
  follow = scroll.scrollHeight - scroll.scrollTop - scroll.clientHeight < 60;
  $('latest').hidden = follow;
}, { passive: true });
wireSettings(loadModels);

await store.open();
conversations = await store.all();
show(null);
loadModels();
