// The list of conversations: grouped by day, searched, renamed, deleted; a drawer on narrow screens.
import { element } from './dom.js';

const $ = (id) => document.getElementById(id);
const narrow = matchMedia('(max-width: 760px)');
const SEARCH_FROM = 8;  // conversations

function group(time) {
  const days = Math.floor((new Date().setHours(24, 0, 0, 0) - time) / 86400000);
  return days < 1 ? 'Today' : days < 2 ? 'Yesterday' : days < 8 ? 'Previous 7 days' : 'Older';
}

function matches(conversation, asked) {
  const has = (text) => text.toLowerCase().includes(asked);
  return !asked || has(conversation.title) || conversation.messages.some((message) => has(message.content));
}

// `chats` says what there is: all(), current(), busy(c); and what to do: show(c), renamed(c), remove(c).
export class Sidebar {
  constructor(chats) {
    this.chats = chats;
    $('search').addEventListener('input', () => this.draw());
    $('menu').addEventListener('click', () => this.toggle());
    $('scrim').addEventListener('click', () => this.close());
    narrow.addEventListener('change', () => this.tell());
    this.tell();
  }

  draw() {
    const all = this.chats.all();
    $('search').hidden = all.length < SEARCH_FROM && !$('search').value;
    const shown = all.filter((conversation) => matches(conversation, $('search').value.trim().toLowerCase()));
    const nodes = [];
    let last = '';
    for (const conversation of shown) {
      const name = group(conversation.updated);
      if (name !== last) nodes.push(element('h2', {}, name));
      last = name;
      nodes.push(this.row(conversation));
    }
    if (all.length && !shown.length) nodes.push(element('p', { className: 'note' }, 'Nothing found.'));
    $('list').replaceChildren(...nodes);
  }

  row(conversation) {
    const now = conversation === this.chats.current();
    const row = element('div', { className: 'item' + (now ? ' current' : '') });
    const pick = element('button', { className: 'pick', textContent: conversation.title, title: conversation.title });
    if (now) pick.setAttribute('aria-current', 'true');
    pick.addEventListener('click', () => this.chats.show(conversation));
    const small = (text, what, work) => {
      const button = element('button', { className: 'small', textContent: text, title: what, 'aria-label': what + ' “' + conversation.title + '”' });
      button.addEventListener('click', work);
      return button;
    };
    row.append(pick, small('✎', 'Rename', () => this.rename(conversation, row, pick)), small('✕', 'Delete', () => this.chats.remove(conversation)));
    if (this.chats.busy(conversation)) pick.prepend(element('span', { className: 'wait', role: 'img', 'aria-label': 'Is being answered:' }), ' ');
    return row;
  }

  rename(conversation, row, pick) {
    const input = element('input', { value: conversation.title, maxLength: 200, 'aria-label': 'Title' });
    let ended = false;
    const end = (take, byKey) => {
      if (ended) return;
      ended = true;
      if (take && input.value.trim()) { conversation.title = input.value.trim(); this.chats.renamed(conversation); }
      const fresh = this.row(conversation);
      row.replaceWith(fresh);
      if (byKey) fresh.querySelector('.pick').focus();
    };
    input.addEventListener('keydown', (event) => {
      if (event.isComposing || (event.key !== 'Enter' && event.key !== 'Escape')) return;
      event.stopPropagation();
      event.preventDefault();  // the button that gets the focus is not pressed
      end(event.key === 'Enter', true);
    });
    input.addEventListener('blur', () => end(true, false));
    pick.replaceWith(input);
    input.select();
  }

  // ---- the drawer

  isDrawer() { return narrow.matches && document.body.classList.contains('open'); }
  toggle() {
    document.body.classList.toggle(narrow.matches ? 'open' : 'closed');
    this.tell();
    if (this.isDrawer()) $('new').focus();
  }
  // True: it was open.
  close() {
    const was = this.isDrawer();
    document.body.classList.remove('open');
    this.tell();
    if (was) $('menu').focus();
    return was;
  }
  tell() {
    const shown = narrow.matches ? this.isDrawer() : !document.body.classList.contains('closed');
    $('menu').setAttribute('aria-expanded', String(shown));
    document.querySelector('main').inert = this.isDrawer();  // what lies under the drawer is out of reach
  }
}
