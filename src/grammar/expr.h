// Expressions over text, as every notation but EBNF itself lowers to them, and their EBNF.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace met::grammar {

/// A set of code points: ascending ranges that neither touch nor overlap, without surrogates.
class CharSet {
 public:
  struct Range {
    char32_t first = 0;
    char32_t last = 0;
    friend bool operator==(const Range&, const Range&) = default;
  };
  CharSet() = default;
  CharSet(std::initializer_list<Range> ranges);

  void add(char32_t first, char32_t last);
  void add(const CharSet& other);
  CharSet complement() const;
  CharSet intersect(const CharSet& other) const;
  bool contains(char32_t c) const;
  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }

 private:
  std::vector<Range> ranges_;
};

struct Expr;
using Node = std::shared_ptr<const Expr>;

inline constexpr std::int64_t kNoEnd = -1;

struct Expr {
  enum class Kind {
    kNever,   ///< matches nothing, not even the empty text
    kText,    ///< `text`
    kChars,   ///< one code point of `chars`
    kRule,    ///< rule number `rule`
    kAll,     ///< `parts`, one after the other; none: the empty text
    kAny,     ///< one of `parts`
    kRepeat,  ///< `parts[0]`, `least` to `most` times; kNoEnd: without end
    kFree,    ///< any text that holds none of the texts `parts`; the whole body of a rule
  };
  Kind kind = Kind::kNever;
  std::string text;
  CharSet chars;
  int rule = -1;
  std::vector<Node> parts;
  std::int64_t least = 0;
  std::int64_t most = 0;
};

Node never();
Node empty_text();
Node text(std::string_view bytes);
Node chars(CharSet set);
Node rule(int number);
/// These simplify: `never` spreads through `all`, leaves `any`; nested ones of the same kind become one.
Node all(std::vector<Node> parts);
Node any(std::vector<Node> parts);
Node repeat(Node part, std::int64_t least, std::int64_t most);
Node maybe(Node part);
/// What the engine decides once for each beginning of one of `texts`.
Node free_of(const std::vector<std::string_view>& texts);

/// What a grammar may unfold to.
struct Bounds {
  std::size_t bytes_max = 1U << 20;
  std::int64_t units_max = 200'000;  ///< counted repetitions
  /// Rules times bytes: what the engine keeps for each of its states grows with their number.
  std::size_t product_max = 200'000'000;
};

/// How many characters a string has.
struct LengthBound {
  std::int64_t least = 0;
  std::int64_t most = kNoEnd;
  friend bool operator==(const LengthBound&, const LengthBound&) = default;
};

/// The mark by which a rule tells a running matcher that it stands inside a string of that length; the engine hands
/// it through as the rule's temperature, which nothing else uses. Nothing for bounds that no mark can say.
std::optional<std::uint32_t> length_mark(const LengthBound& bound);
/// What a mark says; nothing for `kOutsideMark`.
std::optional<LengthBound> bound_of_mark(std::uint32_t mark);
/// Of a grammar's root, so of every state that is in no marked rule; above every other mark.
inline constexpr std::uint32_t kOutsideMark = 1U << 25U;

/// Numbered rules. A rule may be used before it is defined.
class Rules {
 public:
  /// A new rule; `hint` becomes part of its name.
  int add(std::string_view hint);
  /// The rule is a JSON string behind its opening quote, the closing one included.
  void mark(int number, std::uint32_t mark) { rules_[static_cast<std::size_t>(number)].mark = mark; }
  void define(int number, Node body);
  const Node& body(int number) const { return rules_[static_cast<std::size_t>(number)].body; }
  std::size_t size() const { return rules_.size(); }

  /// EBNF whose root matches `root`; rules that can match nothing are taken out, so that no choice leads into
  /// a dead end. Errors: kInvalidArgument when nothing can match `root`; kUnsupported beyond the bounds.
  Result<std::string> write(const Node& root, const Bounds& bounds = {});

 private:
  struct Rule {
    std::string name;
    Node body = never();
    std::optional<std::uint32_t> mark = std::nullopt;
  };
  std::vector<bool> productive_rules() const;
  bool productive(const Node& node, const std::vector<bool>& known) const;
  Node prune(const Node& node, const std::vector<bool>& known) const;
  std::vector<Rule> rules_;
};

}  // namespace met::grammar
