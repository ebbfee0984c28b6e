// Markdown to DOM. Text of a model becomes text nodes and elements that are made here, never markup.

export function element(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in node) node[name] = value; else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const INLINE = new RegExp([
  /(?<code>`+)(?<codeText>[^`]{1,2000}?)\k<code>(?!`)/, /\\(?<escaped>[!-/:-@[-`{-~])/,
  /\*\*(?<strong>[^\s*](?:[^\n*]{0,2000}[^\s*])?)\*\*/, /~~(?<del>[^\n~]{1,500})~~/,
  /(?<![\w*])[*_](?<em>[^\s*_](?:[^\n*_]{0,1000}[^\s*_])?)[*_](?![\w*])/,
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
    else if (g.strong) out.append(element('strong', {}, inline(g.strong, depth + 1)));
    else if (g.del) out.append(element('del', {}, inline(g.del, depth + 1)));
    else if (g.em) out.append(element('em', {}, inline(g.em, depth + 1)));
    else if (g.href) out.append(link(g.href, inline(g.label || g.href, depth + 1)) ?? match[0]);
    else if (g.bare) out.append(link(g.bare, g.bare) ?? match[0]);
    else out.append(element('br'));
  }
  out.append(text.slice(at));
  return out;
}

export async function copyText(text, button) {
  const before = button.textContent;
  try { await navigator.clipboard.writeText(text); button.textContent = 'Copied'; } catch { button.textContent = 'Not allowed'; }
  setTimeout(() => { button.textContent = before; }, 1500);
}

function codeBlock(language, text) {
  const copy = element('button', { type: 'button', textContent: 'Copy' });
  copy.addEventListener('click', () => copyText(text, copy));
  return element('div', { className: 'code' }, element('div', {}, element('span', {}, language || 'text'), copy),
    element('pre', {}, element('code', {}, text)));
}

const cells = (line) => line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim().replace(/\\\|/g, '|'));
const ITEM = /^(\s*)([-*+]|\d{1,9}[.)])\s+(.*)$/;
const FENCE = /^\s{0,3}(`{3,}|~{3,})\s*([\w+#.-]*)/;
const STARTS = /^\s{0,3}(#{1,6}\s|>|(`{3}|~{3})|([-*_])(\s*\3){2,}\s*$)/;

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
      node = codeBlock(fence[2], lines.slice(first + 1, i).join('\n'));
      i++;
    } else if (heading) {
      node = element('h' + Math.min(heading[1].length, 4), {}, inline(heading[2]));
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
    } else if (line.includes('|') && /^\s*\|?\s*:?-+:?\s*(\|\s*:?-*:?\s*)*$/.test(lines[i + 1] ?? '') && (lines[i + 1] ?? '').includes('-')) {
      const body = element('tbody');
      for (i += 2; i < lines.length && lines[i].includes('|'); i++)
        body.append(element('tr', {}, ...cells(lines[i]).map((cell) => element('td', {}, inline(cell)))));
      const head = element('tr', {}, ...cells(line).map((cell) => element('th', {}, inline(cell))));
      node = element('div', { className: 'table' }, element('table', {}, element('thead', {}, head), body));
    } else {
      for (i++; i < lines.length && lines[i].trim() !== '' && !STARTS.test(lines[i]) && !ITEM.test(lines[i]);) i++;
      node = element('p', {}, inline(lines.slice(first, i).map((l) => l.trim()).join('\n')));
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
    const entry = element('li');
    const parts = blocks(content, depth + 1);
    if (parts.length && parts[0].node.tagName === 'P') { entry.append(...parts[0].node.childNodes); parts.shift(); }
    entry.append(...parts.map((part) => part.node));
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
