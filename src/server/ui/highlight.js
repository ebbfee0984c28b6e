// Code in colour: comments, strings, numbers and the words of the language. One pass, no grammar.
import { element } from './dom.js';

const HASH = /#[^\n]*/;
const SLASH = /\/\/[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/;
const DASH = /--[^\n]*|\/\*[\s\S]*?(?:\*\/|$)/;
const QUOTED = /"(?:\\[\s\S]|[^"\\\n])*"?|'(?:\\[\s\S]|[^'\\\n])*'?/;
const TEMPLATE = /`(?:\\[\s\S]|[^`\\])*`?/;
const TRIPLE = /"""[\s\S]*?(?:"""|$)|'''[\s\S]*?(?:'''|$)/;
const words = (text) => new Set(text.split(' '));

const C_WORDS = 'auto break case char class const constexpr continue default delete do double else enum explicit extern false float for friend if inline int long mutable namespace new noexcept nullptr operator override private protected public return short signed sizeof static struct switch template this throw true try catch typedef typename union unsigned using virtual void volatile while bool concept requires co_await co_return co_yield NULL abstract boolean byte extends final finally implements import instanceof interface native package super synchronized throws transient var null string record sealed async await foreach in is as out ref get set internal readonly';
const LANGUAGES = [
  { names: 'c h cpp c++ cc hpp cuda cu java c# cs csharp kotlin kt swift scala dart', comment: SLASH, string: QUOTED,
    words: words(C_WORDS + ' fun val when func let guard protocol extension where object trait def nil') },
  { names: 'js javascript jsx ts typescript tsx mjs', comment: SLASH, string: new RegExp(TEMPLATE.source + '|' + QUOTED.source),
    words: words('async await break case catch class const continue debugger default delete do else enum export extends false finally for from function get if implements import in instanceof interface let new null of private protected public readonly return set static super switch this throw true try type typeof undefined var void while yield') },
  { names: 'py python python3 ipython', comment: HASH, string: new RegExp(TRIPLE.source + '|' + QUOTED.source),
    words: words('and as assert async await break case class continue def del elif else except False finally for from global if import in is lambda match None nonlocal not or pass raise return self True try while with yield') },
  { names: 'go golang rust rs zig', comment: SLASH, string: new RegExp(TEMPLATE.source + '|"(?:\\\\[\\s\\S]|[^"\\\\])*"?'),
    words: words('as async await break case chan const continue crate default defer dyn else enum extern fallthrough false fn for func go goto if impl import in interface let loop map match mod move mut nil package pub range ref return select self Self static struct super switch trait true type unsafe use var where while') },
  { names: 'sh bash shell zsh console fish', comment: /(?<![^\s;])#[^\n]*/, string: QUOTED,
    words: words('case do done elif else esac export fi for function if in local return set then until while sudo cd echo exit source') },
  { names: 'rb ruby pl perl r yaml yml toml ini conf dockerfile makefile make cmake nix elixir', comment: HASH, string: QUOTED,
    words: words('BEGIN END alias and begin break case class def do else elsif end ensure false for if in module my next nil not null or redo rescue return self sub super then true undef unless until use when while yield FROM RUN CMD COPY ENV WORKDIR ENTRYPOINT ARG yes no on off function') },
  { names: 'sql lua haskell hs ada', comment: DASH, string: QUOTED, fold: true,
    words: words('select from where insert into values update set delete create table index view drop alter add primary key foreign references join left right inner outer full on group by order having limit offset union all distinct as and or not null is in between like exists case when then else end begin commit rollback with recursive returning default unique check local function return if for while do until repeat nil true false let data type instance module import') },
  { names: 'json jsonc json5', comment: SLASH, string: QUOTED, words: words('true false null') },
  { names: 'css scss less', comment: SLASH, string: QUOTED, words: words('important media supports keyframes import from to and not only') },
  { names: 'html xml svg vue', comment: /<!--[\s\S]*?(?:-->|$)/, string: /"[^"\n]*"|'[^'\n]*'/, words: new Set(), tags: true },
];
const BY_NAME = new Map(LANGUAGES.flatMap((language) => language.names.split(' ').map((name) => [name, language])));
const LARGEST = 60000;  // characters; what is longer stays plain

/// Nodes for the text of a block of code.
export function highlight(name, text) {
  const language = BY_NAME.get(name.toLowerCase());
  if (!language || text.length > LARGEST) return [text];
  const parts = ['(?<comment>' + language.comment.source + ')', '(?<string>' + language.string.source + ')',
    language.tags ? '(?<word><\\/?[A-Za-z][\\w:-]*|\\/?>)' : '(?<word>[A-Za-z_]\\w*)',
    '(?<number>\\b(?:0[xX][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?))'];
  const out = [];
  let at = 0;
  for (const match of text.matchAll(new RegExp(parts.join('|'), 'g'))) {
    const g = match.groups;
    const known = g.word && (language.tags || language.words.has(language.fold ? g.word.toLowerCase() : g.word));
    const kind = g.comment ? 'comment' : g.string ? 'string' : g.number ? 'number' : known ? 'word' : '';
    if (!kind) continue;
    out.push(text.slice(at, match.index), element('span', { className: 'hl-' + kind }, match[0]));
    at = match.index + match[0].length;
  }
  out.push(text.slice(at));
  return out;
}
