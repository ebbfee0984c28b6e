// Regular expressions as expressions over text. What ECMA-262 and Python share, without what is not regular
// (lookaround, back references) and without what the two read differently (docs/grammar.md).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "grammar/expr.h"

namespace met::grammar {

struct Regex;
using RegexNode = std::shared_ptr<const Regex>;

struct Regex {
  enum class Kind { kChars, kAll, kAny, kRepeat, kBegin, kEnd };
  Kind kind = Kind::kAll;
  CharSet chars;
  std::vector<RegexNode> parts;
  std::int64_t least = 0;
  std::int64_t most = 0;
};

/// Parses UTF-8 `pattern`. Errors: kInvalidArgument for bad syntax, kUnsupported for what is not enforced; both
/// with the place as a character offset and an empty field.
Result<RegexNode> parse_regex(std::string_view pattern);

/// How a matched code point is spelled.
enum class Spelling {
  kPlain,       ///< as it is
  kJsonString,  ///< as inside a JSON string: quotes, backslashes and control characters as short escapes
  kWithoutBar,  ///< as it is, but for "|", which no class offers
  kTagText,     ///< as it is, but for what no_tag_text() holds, which no class offers
  kTaggedJson,  ///< as kJsonString, but for "<", which is \u003c
};

/// "<", by which markers begin, and control characters other than tabs and line feeds.
CharSet no_tag_text();

/// What a pattern without anchors means. With an anchor on one side, the other side is open in all of them.
enum class Unanchored {
  kWhole,   ///< the whole text
  kSearch,  ///< any part of the text
};

/// The texts that match.
Node lower_regex(const RegexNode& regex, Spelling spelling, Unanchored unanchored);

/// The texts that match and have `least` to `most` code points (kNoEnd: no bound). Errors: kUnsupported where
/// that cannot be said: lengths of the pattern are not inside the bounds, and it is no repetition of one class.
Result<Node> lower_regex_bounded(const RegexNode& regex, Spelling spelling, Unanchored unanchored,
                                 std::int64_t least, std::int64_t most);

/// Whether `text` matches.
bool matches(const RegexNode& regex, std::string_view text, Unanchored unanchored);

/// The longest text that every match begins with.
std::string literal_prefix(const RegexNode& regex);

/// One code point of `set` in the spelling; of those that a JSON string must escape only ones with a short escape.
Node spell(const CharSet& set, Spelling spelling);

}  // namespace met::grammar
