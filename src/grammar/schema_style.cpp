// What depends on how values are written: blanks, strings, keys, listed values.
#include <algorithm>
#include <utility>

#include "core/concat.h"
#include "grammar/regex.h"
#include "grammar/schema.h"

namespace met::grammar {
namespace {

using V = json::Value;

constexpr std::int64_t kBlanksMax = 16;
constexpr std::size_t kKeywordMax = 256;
/// Characters that a string must have and that are written one by one.
constexpr std::int64_t kUnfoldedMax = 4;

/// Characters that stand in a string as they are, but for quotes and backslashes.
CharSet printable() { return CharSet{{0, 0x1F}}.complement(); }
CharSet except(const CharSet& set, std::initializer_list<CharSet::Range> out) {
  return set.intersect(CharSet(out).complement());
}
/// Of bare keys.
CharSet word_chars() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }

bool is_word(const std::string& name) {
  const CharSet word = word_chars();
  return !name.empty() && std::ranges::all_of(name, [&](char c) {
    return c == '-' || c == '.' || word.contains(static_cast<unsigned char>(c));
  });
}

/// Between a tag's markers, in every style with tags.
bool is_tag_name(std::string_view name) {
  constexpr std::string_view kBlanks = " \t\r\n";
  return !name.empty() && !kBlanks.contains(name.front()) && !kBlanks.contains(name.back()) &&
         name.find_first_of("<>\"") == std::string_view::npos;
}

Node hex(std::int64_t times) { return repeat(chars({{'0', '9'}, {'A', 'F'}, {'a', 'f'}}), times, times); }
Node d() { return chars({{'D', 'D'}, {'d', 'd'}}); }

/// Behind `\u`: a code point of 16 bits.
Node short_escape() {
  const Node not_d = chars({{'0', '9'}, {'A', 'C'}, {'E', 'F'}, {'a', 'c'}, {'e', 'f'}});
  return any({all({not_d, hex(3)}), all({d(), chars({{'0', '7'}}), hex(2)})});
}

/// Behind `\u`: one beyond 16 bits, as a pair.
Node pair_escape() {
  return all({d(), chars({{'8', '9'}, {'A', 'B'}, {'a', 'b'}}), hex(2), text("\\u"), d(),
              chars({{'C', 'F'}, {'c', 'f'}}), hex(2)});
}

/// Behind a backslash in JSON.
Node json_escape() {
  const Node one = chars(
      {{'"', '"'}, {'/', '/'}, {'\\', '\\'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
  const Node unicode = all({text("u"), any({short_escape(), pair_escape()})});
  return all({text("\\"), any({one, unicode})});
}

Node python_char(char quote) {
  const auto q = static_cast<char32_t>(static_cast<unsigned char>(quote));
  const Node one = chars(
      {{'"', '"'}, {'\'', '\''}, {'\\', '\\'}, {'b', 'b'}, {'f', 'f'}, {'n', 'n'}, {'r', 'r'}, {'t', 't'}});
  return any({chars(except(printable(), {{q, q}, {'\\', '\\'}})),
              all({text("\\"), any({one, all({text("u"), short_escape()})})})});
}

/// A text without kGemma4Quote. Its first character comes only once in the marker, so a beginning of it that does
/// not go on ends, or begins again, where it fails.
Node gemma4_text() {
  const auto other = [](char c) {
    const auto point = static_cast<char32_t>(static_cast<unsigned char>(c));
    return chars(except(CharSet{}.complement(), {{'<', '<'}, {point, point}}));
  };
  const Node begun = any({empty_text(), text("|"), text("|\""), text("|\"|")});
  const Node open = all({text("<"), repeat(all({begun, text("<")}), 0, kNoEnd)});
  const Node fails = any({other('|'), all({text("|"), other('"')}), all({text("|\""), other('|')}),
                          all({text("|\"|"), other('>')})});
  return all({repeat(any({chars(CharSet{{'<', '<'}}.complement()), all({open, fails})}), 0, kNoEnd),
              maybe(all({open, begun}))});
}

Node marked(Node text_node) { return all({text(kGemma4Quote), std::move(text_node), text(kGemma4Quote)}); }
Node between(std::string_view quote, Node inside) {
  return all({text(quote), std::move(inside), text(quote)});
}

}  // namespace

bool asks_for(const RegexNode& r, char32_t point) {
  const auto& ranges = r->chars.ranges();
  if (r->kind == Regex::Kind::kChars && ranges.size() == 1 && ranges[0] == CharSet::Range{point, point})
    return true;
  return std::ranges::any_of(r->parts, [&](const RegexNode& part) { return asks_for(part, point); });
}

CharSet SchemaLowering::plain_chars() const {
  const CharSet plain = except(printable(), {{'"', '"'}, {'\\', '\\'}});
  return tag_ != nullptr ? except(plain, {{'<', '<'}}) : plain;
}

Node SchemaLowering::json_char() const { return any({chars(plain_chars()), json_escape()}); }

/// JSON without what would end a tag's value.
std::string SchemaLowering::json_text(const V& value) const {
  std::string json = json::write(value);
  if (tag_ == nullptr ||
      std::ranges::none_of(tag_->ends(), [&](std::string_view end) { return json.contains(end); }))
    return json;
  std::string out;
  for (const char c : json) out += c == '<' ? std::string("\\u003c") : std::string(1, c);
  return out;
}

Node SchemaLowering::blank() {
  if (style_ == Style::kGemma4) return empty_text();
  if (style_ == Style::kPython) return maybe(text(" "));
  return shared("blank",
                [] { return repeat(chars({{'\t', '\n'}, {'\r', '\r'}, {' ', ' '}}), 0, kBlanksMax); });
}

Node SchemaLowering::comma() { return all({blank(), text(","), blank()}); }

Node SchemaLowering::any_string() {
  return shared("string",
                [&] { return style_ == Style::kGemma4 ? marked(gemma4_text()) : bounded_string(0, kNoEnd); });
}

Node SchemaLowering::bounded_string(std::int64_t least, std::int64_t most) {
  // Characters without an end stand in the string's own rule: the engine decides tokens inside one rule once, and
  // those that cross rules again for each mask. Counted ones do cross; StringMasks decides there.
  const auto times = [&](const char* name, auto make) {
    if (most != kNoEnd) return repeat(shared(name, make), least, most);
    const Node tail = repeat(make(), 0, kNoEnd);
    if (least > kUnfoldedMax) return all({repeat(shared(name, make), least, least), tail});
    std::vector<Node> parts(static_cast<std::size_t>(least), make());
    parts.push_back(tail);
    return all(std::move(parts));
  };
  switch (style_) {
    case Style::kGemma4:
      // Without "|" there is no marker, and characters count one by one.
      return marked(repeat(chars(CharSet{{'|', '|'}}.complement()), least, most));
    case Style::kPython:
      return any({between("\"", times("double_char", [] { return python_char('"'); })),
                  between("'", times("single_char", [] { return python_char('\''); }))});
    case Style::kQwenXml:
    case Style::kMinimaxXml:
    case Style::kGlmXml:
    case Style::kDeepseekXml:
      return between("\"", times("char", [&] { return json_char(); }));
    case Style::kJson:
      break;
  }
  Node characters = times("char", [&] { return json_char(); });
  if (most == kNoEnd && least <= kUnfoldedMax) return between("\"", std::move(characters));
  const LengthBound bound{.least = least, .most = most};
  const Node inside =
      shared(concat("length_", least, "_", most), [&] { return all({std::move(characters), text("\"")}); });
  if (const auto mark = length_mark(bound)) rules_.mark(inside->rule, *mark);
  return all({text("\""), inside});
}

Result<Node> SchemaLowering::pattern_string(const RegexNode& regex, std::int64_t least, std::int64_t most) {
  const bool gemma4 = style_ == Style::kGemma4;
  if (gemma4 && asks_for(regex, '|'))
    return unsupported("", "a pattern with the character | cannot be written in this model's calls");
  const Spelling in_json = tag_ != nullptr ? Spelling::kTaggedJson : Spelling::kJsonString;
  const Spelling spelling = gemma4 ? Spelling::kWithoutBar : in_json;
  MET_ASSIGN(Node body, lower_regex_bounded(regex, spelling, Unanchored::kWhole, least, most));
  return gemma4 ? marked(std::move(body)) : between("\"", std::move(body));
}

Result<Node> SchemaLowering::quoted(const std::string& value, const std::string& where) {
  if (style_ == Style::kGemma4) {
    if (value.contains(kGemma4Quote))
      return unsupported(where,
                         concat("a string with ", kGemma4Quote, " cannot be written in this model's calls"));
    return marked(text(value));
  }
  const std::string json = json_text(value);
  const bool plain = json.size() == value.size() + 2 && !value.contains('\'');
  if (style_ == Style::kPython && plain) return any({text(json), between("'", text(value))});
  return text(json);
}

Result<Node> SchemaLowering::literal(const V& value, const std::string& where) {
  if (value.is_null()) return word("null", "None");
  if (value.is_bool()) return value.as_bool() ? word("true", "True") : word("false", "False");
  if (value.is_string()) return quoted(value.as_string(), where);
  if (value.is_number() || style_ == Style::kJson || tag_ != nullptr) return text(json_text(value));
  std::vector<Node> parts;
  if (value.is_array()) {
    for (const V& item : value.as_array()) {
      MET_ASSIGN(Node node, literal(item, where));
      if (!parts.empty()) parts.push_back(comma());
      parts.push_back(std::move(node));
    }
    return all({text("["), all(std::move(parts)), text("]")});
  }
  for (const auto& [name, item] : value.as_object()) {
    MET_ASSIGN(const Node name_node, key(name, where, /*keyword=*/false));
    MET_ASSIGN(const Node node, literal(item, where));
    if (!parts.empty()) parts.push_back(comma());
    parts.push_back(member(name_node, node));
  }
  return all({text("{"), all(std::move(parts)), text("}")});
}

Result<Node> SchemaLowering::key(const std::string& name, const std::string& where, bool keyword) {
  if (keyword && (name.size() > kKeywordMax || !(tag_ != nullptr ? is_tag_name(name) : is_word(name))))
    return unsupported(where + "/properties",
                       concat("\"", name, "\" cannot be the name of an argument in this model's calls"));
  if (keyword || (style_ == Style::kGemma4 && is_word(name))) return text(name);
  return quoted(name, where + "/properties");
}

Node SchemaLowering::free_key(std::vector<std::string> names, bool keyword) {
  const bool bare = keyword || style_ == Style::kGemma4;
  const bool free = names.empty();
  if (!bare && free) return any_string();
  const CharSet plain = bare ? word_chars() : plain_chars();
  const Node more = shared(bare ? "word" : "plain", [&] { return repeat(chars(plain), 0, kNoEnd); });
  if (!bare) return between("\"", other_keys(names, plain, more));
  names.emplace_back();  // a bare key is not empty
  const Node word_node = other_keys(names, plain, more);
  return free && !keyword ? any({word_node, any_string()}) : word_node;
}

}  // namespace met::grammar
