// Markdown to DOM. Text of a model becomes text nodes and elements that are made here, never markup.

import { copyText, element } from './dom.js';
import { highlight } from './highlight.js';

const INLINE = new RegExp([
  /(?<code>`+)(?<codeText>[^`]{1,2000}?)\k<code>(?!`)/, /\\(?<escaped>[!-/:-@[-`{-~])/,
  /\*\*\*(?<both>[^\s*](?:[^\n*]{0,1000}[^\s*])?)\*\*\*/,
  /\*\*(?<strong>(?=\S)(?:(?!\*\*)[^\n]){0,2000}\S\*?)\*\*(?!\*)/, /(?<![\w_])__(?<strong2>[^\s_](?:[^\n_]{0,1000}[^\s_])?)__(?![\w_])/, /~~(?<del>[^\n~]{1,500})~~/,
  /(?<![\w*])(?<mark>[*_])(?<em>[^\s*_](?:(?:(?!\k<mark>)[^\n]){0,1000}[^\s*_])?)\k<mark>(?![\w*])/,
  /!?\[(?<label>[^\[\]\n]{0,500})\]\((?<href>[^\s()<>]{1,2000})(?: "[^"\n]{0,200}")?\)/,
  /(?<bare>https?:\/\/[^\s<>"`]{1,2000}[^\s<>"`.,;:!?)\]'*_])/, /(?<br>\n|<br\s?\/?>)/,
].map((part) => part.source).join('|'), 'g');

function link(href, label) {
  let url = null;
  try { url = new URL(href); } catch { return null; }
  if (!['http:', 'https:', 'mailto:'].includes(url.protocol)) return null;
  const node = element('a', { href: url.href, rel: 'noopener noreferrer', target: '_blank' });
  node.append(label);
  return node;
}

function inline(text, depth = 0) {
  const out = document.createDocumentFragment();
  if (depth > 6) { out.append(text); return out; }
  let at = 0;
  for (const match of text.matchAll(INLINE)) {
    const g = match.groups;
    if (match.index > at) out.append(text.slice(at, match.index));
    at = match.index + match[0].length;
    if (g.codeText !== undefined) out.append(element('code', {}, g.codeText));
    else if (g.escaped) out.append('()[]'.includes(g.escaped) ? match[0] : g.escaped);
    else if (g.both) out.append(element('strong', {}, element('em', {}, inline(g.both, depth + 1))));
    else if (g.strong ?? g.strong2) out.append(element('strong', {}, inline(g.strong ?? g.strong2, depth + 1)));
    else if (g.del) out.append(element('del', {}, inline(g.del, depth + 1)));
    else if (g.em) out.append(element('em', {}, inline(g.em, depth + 1)));
    else if (g.href) out.append(link(g.href, inline(g.label || g.href, depth + 1)) ?? match[0]);
    else if (g.bare) out.append(link(g.bare, g.bare) ?? match[0]);
    else out.append(element('br'));
  }
  out.append(text.slice(at));
  return out;
}

// While a block grows it stays plain: its colours would be made anew with every piece.
function codeBlock(language, text, ended) {
  const copy = element('button', { type: 'button', textContent: 'Copy', 'aria-label': 'Copy the code' });
  copy.addEventListener('click', () => copyText(text, copy));
  return element('div', { className: 'code' }, element('div', {}, element('span', {}, language || 'text'), copy),
    element('pre', { tabIndex: 0 }, element('code', {}, ...(ended ? highlight(language, text) : [text]))));
}

const cells = (line) => line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, '|'));
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const FENCE = /^\s{0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const STARTS = /^\s{0,3}(#{1,6}\s|>|(`{3}|~{3})|([-*_])(\s*\3){2,}\s*$)/;

const DIVIDER = /^\s*\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;
const startsTable = (lines, i) => lines[i].includes('|') && DIVIDER.test(lines[i + 1] ?? '') && cells(lines[i]).length === cells(lines[i + 1]).length;

function table(lines, i) {
  const sides = cells(lines[i + 1]).map((cell) => (!cell.endsWith(':') ? '' : cell.startsWith(':') ? 'center' : 'right'));
  const row = (tag, line) => element('tr', {}, ...sides.map((className, column) => element(tag, { className, dir: 'auto' }, inline(cells(line)[column] ?? ''))));
  const head = element('thead', {}, row('th', lines[i]));
  const body = element('tbody');
  for (i += 2; i < lines.length && lines[i].includes('|'); i++) body.append(row('td', lines[i]));
  return [element('div', { className: 'table', tabIndex: 0 }, element('table', {}, head, body)), i];
}

// Blocks of the lines; each knows at which line it ends.
function blocks(lines, depth = 0) {
  const out = [];
  let i = 0;
  while (i < lines.length) {
    const line = lines[i];
    const first = i;
    let node = null;
    const fence = FENCE.exec(line);
    const heading = /^\s{0,3}(#{1,6})\s+(.*?)\s*#*$/.exec(line);
    const item = ITEM.exec(line);
    if (line.trim() === '') { i++; continue; }
    if (fence) {
      const close = new RegExp('^\\s*' + fence[1][0] + '{' + fence[1].length + ',}\\s*$');
      for (i++; i < lines.length && !close.test(lines[i]);) i++;
      node = codeBlock(fence[2], lines.slice(first + 1, i).join('\n'), i < lines.length);
      i++;
    } else if (heading) {
      node = element('h' + Math.min(heading[1].length, 4), { dir: 'auto' }, inline(heading[2]));
      i++;
    } else if (/^\s{0,3}([-*_])(\s*\1){2,}\s*$/.test(line)) {
      node = element('hr');
      i++;
    } else if (/^\s{0,3}>/.test(line) && depth < 8) {
      while (i < lines.length && /^\s{0,3}>/.test(lines[i])) i++;
      node = element('blockquote', {});
      for (const block of blocks(lines.slice(first, i).map((l) => l.replace(/^\s{0,3}> ?/, '')), depth + 1)) node.append(block.node);
    } else if (item && depth < 8) {
      [node, i] = list(lines, i, item, depth);
    } else if (startsTable(lines, i)) {
      [node, i] = table(lines, i);
    } else {
      for (i++; i < lines.length && lines[i].trim() !== '' && !STARTS.test(lines[i]) && !ITEM.test(lines[i]) && !startsTable(lines, i);) i++;
      node = element('p', { dir: 'auto' }, inline(lines.slice(first, i).map((l) => l.trim()).join('\n')));
    }
    out.push({ node, first });
  }
  return out;
}

function list(lines, i, item, depth) {
  const ordered = /\d/.test(item[2]);
  const node = element(ordered ? 'ol' : 'ul', ordered ? { start: parseInt(item[2], 10) } : {});
  const indent = item[1].length;
  while (i < lines.length) {
    const next = ITEM.exec(lines[i]);
    if (!next || next[1].length < indent || next[1].length > indent + 3 || /\d/.test(next[2]) !== ordered) break;
    const content = [next[3]];
    const inner = indent + 2;
    for (i++; i < lines.length; i++) {
      const blank = lines[i].trim() === '';
      if (blank && !/^\s{2,}\S/.test(lines[i + 1] ?? '') && !ITEM.test(lines[i + 1] ?? '')) break;
      const sub = ITEM.exec(lines[i]);
      if (!blank && (sub ? sub[1].length < inner : STARTS.test(lines[i]))) break;
      content.push(lines[i].replace(new RegExp('^\\s{0,' + (indent + next[2].length + 1) + '}'), ''));
    }
    while (content.length > 1 && content.at(-1).trim() === '') content.pop();
    const entry = element('li', { dir: 'auto' });
    const task = /^\[([ xX])\]\s+/.exec(content[0]);
    if (task) content[0] = content[0].slice(task[0].length);
    const parts = blocks(content, depth + 1);
    if (parts.length && parts[0].node.tagName === 'P') { entry.append(...parts[0].node.childNodes); parts.shift(); }
    entry.append(...parts.map((part) => part.node));
    if (task) entry.prepend(element('input', { type: 'checkbox', checked: task[1] !== ' ', disabled: true, 'aria-label': task[1] !== ' ' ? 'Done' : 'Open' }), ' ');
    if (task) entry.className = 'task';
    node.append(entry);
    while (i < lines.length && lines[i].trim() === '' && ITEM.test(lines[i + 1] ?? '')) i++;
  }
  return [node, i];
}

// Renders a text that grows: blocks that another block follows are done, only the tail is made again.
export class Markdown {
  constructor(root) { this.root = root; this.done = 0; this.tail = []; }
  update(text) {
    const lines = text.slice(this.done).split('\n');
    for (const node of this.tail) node.remove();
    const made = blocks(lines);
    this.root.append(...made.map((block) => block.node));
    const last = made.at(-1);
    this.tail = last ? [last.node] : [];
    if (last) for (let i = 0; i < last.first; i++) this.done += lines[i].length + 1;
  }
}
