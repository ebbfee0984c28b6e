// Pattern text to Regex.
#include <algorithm>
#include <limits>
#include <optional>

#include "core/concat.h"
#include "core/hex.h"
#include "core/utf8.h"
#include "grammar/regex.h"

namespace met::grammar {
namespace {

constexpr int kDepthMax = 100;
constexpr std::int64_t kCountMax = 1'000'000;
/// Escaped, these stand for themselves; ECMA-262's syntax characters and what Python's re.escape adds.
constexpr std::u32string_view kEscapable = U"^$\\.*+?()[]{}|/-#&~ \"'";

RegexNode make(Regex regex) { return std::make_shared<const Regex>(std::move(regex)); }
RegexNode one(CharSet set) { return make({.kind = Regex::Kind::kChars, .chars = std::move(set)}); }

CharSet digits() { return {{'0', '9'}}; }
CharSet word() { return {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}}; }
CharSet space() { return {{'\t', '\r'}, {' ', ' '}}; }
/// Everything that either of the two calls white space.
CharSet all_space() {
  return {{'\t', '\r'},     {0x1C, 0x20},     {0x85, 0x85},     {0xA0, 0xA0},
          {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F},
          {0x205F, 0x205F}, {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
}
CharSet line_ends() { return {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}; }

std::optional<CharSet> class_escape(char32_t c) {
  switch (c) {
    case 'd':
      return digits();
    case 'D':
      return digits().complement();
    case 'w':
      return word();
    case 'W':
      return word().complement();
    case 's':
      return space();
    case 'S':
      return all_space().complement();
    default:
      return std::nullopt;
  }
}

std::optional<char32_t> control_escape(char32_t c) {
  switch (c) {
    case 'f':
      return U'\f';
    case 'n':
      return U'\n';
    case 'r':
      return U'\r';
    case 't':
      return U'\t';
    case 'v':
      return U'\v';
    default:
      return std::nullopt;
  }
}

class Parser {
 public:
  explicit Parser(std::u32string pattern) : pattern_(std::move(pattern)) {}

  Result<RegexNode> run() {
    MET_ASSIGN(RegexNode regex, alternatives());
    if (!at_end()) return bad("unbalanced ')'");
    return regex;
  }

 private:
  bool at_end() const { return at_ == pattern_.size(); }
  char32_t peek(std::size_t ahead = 0) const {
    return at_ + ahead < pattern_.size() ? pattern_[at_ + ahead] : U'\0';
  }
  bool take(char32_t c) {
    if (at_end() || pattern_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string where() const { return concat(" at character ", at_, " of the pattern"); }
  std::unexpected<Error> bad(std::string_view what) const { return invalid("", concat(what, where())); }
  std::unexpected<Error> lacking(std::string_view what) const {
    return unsupported("", concat(what, " cannot be enforced,", where()));
  }

  Result<RegexNode> alternatives() {
    if (++depth_ > kDepthMax)
      return unsupported("", concat("groups are nested deeper than ", kDepthMax, where()));
    Regex out{.kind = Regex::Kind::kAny};
    do {
      MET_ASSIGN(RegexNode branch, sequence());
      out.parts.push_back(std::move(branch));
    } while (take('|'));
    --depth_;
    if (out.parts.size() == 1) return out.parts.front();
    return make(std::move(out));
  }

  Result<RegexNode> sequence() {
    Regex out{.kind = Regex::Kind::kAll};
    while (!at_end() && peek() != '|' && peek() != ')') {
      MET_ASSIGN(RegexNode atom_node, atom());
      MET_ASSIGN(RegexNode part, quantified(std::move(atom_node)));
      out.parts.push_back(std::move(part));
    }
    return make(std::move(out));
  }

  Result<RegexNode> atom() {
    const char32_t c = pattern_[at_++];
    switch (c) {
      case '^':
        return make({.kind = Regex::Kind::kBegin});
      case '$':
        return make({.kind = Regex::Kind::kEnd});
      case '.':
        return one(line_ends().complement());
      case '[':
        return bracket();
      case '(':
        return group();
      case '\\':
        return escape();
      case '*':
      case '+':
      case '?':
        --at_;
        return bad("nothing to repeat");
      case '{':
        if (counts()) {
          --at_;
          return bad("nothing to repeat");
        }
        return one({{c, c}});
      default:
        return one({{c, c}});
    }
  }

  Result<RegexNode> group() {
    if (take('?')) {
      if (peek() == '=' || peek() == '!') return lacking("lookahead");
      if (peek() == '<' && (peek(1) == '=' || peek(1) == '!')) return lacking("lookbehind");
      if (peek() == 'P' && peek(1) == '=') return lacking("a back reference");
      if (peek() == '>') return lacking("an atomic group");
      if (peek() == 'P' && peek(1) == '<') ++at_;
      if (take('<')) {
        const std::size_t begin = at_;
        while (!at_end() && word().contains(peek())) ++at_;
        if (at_ == begin || !take('>')) return bad("a group's name is not closed");
      } else if (!take(':')) {
        return lacking("a group with flags");
      }
    }
    MET_ASSIGN(RegexNode inner, alternatives());
    if (!take(')')) return bad("a group is not closed");
    return inner;
  }

  struct Counts {
    std::int64_t least = 0;
    std::int64_t most = kNoEnd;
    std::size_t end = 0;
  };

  /// What stands behind "{" if it is a count, from at_ on.
  std::optional<Counts> counts() const {
    std::size_t at = at_;
    const auto number = [&](std::int64_t& value) {
      const std::size_t begin = at;
      value = 0;
      while (at < pattern_.size() && pattern_[at] >= '0' && pattern_[at] <= '9')
        value = std::min<std::int64_t>(value * 10 + (pattern_[at++] - '0'), kCountMax + 1);
      return at > begin;
    };
    Counts out;
    const bool has_least = number(out.least);
    if (at < pattern_.size() && pattern_[at] == ',') {
      ++at;
      std::int64_t most = 0;
      const bool has_most = number(most);
      if (has_most) out.most = most;
      if (!has_least && !has_most) return std::nullopt;
    } else {
      if (!has_least) return std::nullopt;
      out.most = out.least;
    }
    if (at >= pattern_.size() || pattern_[at] != '}') return std::nullopt;
    out.end = at + 1;
    return out;
  }

  Result<RegexNode> quantified(RegexNode part) {
    Counts count{.least = 1, .most = 1};
    if (take('*')) {
      count = {.least = 0};
    } else if (take('+')) {
      count = {.least = 1};
    } else if (take('?')) {
      count = {.least = 0, .most = 1};
    } else if (peek() == '{' && !at_end()) {
      ++at_;
      const std::optional<Counts> found = counts();
      if (!found) {
        --at_;
        return part;
      }
      count = *found;
      at_ = found->end;
      if (count.least > kCountMax || count.most > kCountMax)
        return unsupported("", concat("a count is above ", kCountMax, where()));
      if (count.most != kNoEnd && count.most < count.least) return bad("a count's bounds are crossed");
    } else {
      return part;
    }
    if (part->kind == Regex::Kind::kBegin || part->kind == Regex::Kind::kEnd)
      return bad("an anchor cannot be repeated");
    if (take('+')) return lacking("a possessive quantifier");
    take('?');  // lazy: the same texts match
    if (peek() == '*' || peek() == '?' || (peek() == '{' && !at_end() && is_count_ahead()))
      return bad("a quantifier follows a quantifier");
    return make(
        {.kind = Regex::Kind::kRepeat, .parts = {std::move(part)}, .least = count.least, .most = count.most});
  }

  bool is_count_ahead() {
    ++at_;
    const bool is_count = counts().has_value();
    --at_;
    return is_count;
  }

  Result<char32_t> hex(int least, int most) {
    char32_t value = 0;
    int seen = 0;
    for (; seen < most; ++seen) {
      const int digit = hex::value(peek());
      if (digit < 0) break;
      value = value * 16 + static_cast<char32_t>(digit);
      ++at_;
    }
    if (seen < least) return bad("a hexadecimal escape is not complete");
    return value;
  }

  /// Behind the backslash: a single code point.
  Result<char32_t> code_point_escape(char32_t c) {
    if (const auto control = control_escape(c)) return *control;
    if (c == 'x') return hex(2, 2);
    if (c == '0' && !(peek() >= '0' && peek() <= '9')) return U'\0';
    if (c == 'u') {
      if (take('{')) {
        MET_ASSIGN(const char32_t value, hex(1, 6));
        if (!take('}')) return bad("a code point escape is not closed");
        return checked(value);
      }
      MET_ASSIGN(const char32_t high, hex(4, 4));
      if (high >= 0xD800 && high <= 0xDBFF && peek() == '\\' && peek(1) == 'u') {
        at_ += 2;
        MET_ASSIGN(const char32_t low, hex(4, 4));
        if (low < 0xDC00 || low > 0xDFFF) return bad("a surrogate has no partner");
        return static_cast<char32_t>(0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
      }
      return checked(high);
    }
    if (kEscapable.find(c) != std::u32string_view::npos) return c;
    --at_;
    return bad("an unknown escape");
  }

  Result<char32_t> checked(char32_t value) const {
    if (value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF)) return bad("an escape is no code point");
    return value;
  }

  Result<RegexNode> escape() {
    if (at_end()) return bad("a backslash at the end");
    const char32_t c = pattern_[at_++];
    if (const auto set = class_escape(c)) return one(*set);
    if ((c >= '1' && c <= '9') || c == 'k') return lacking("a back reference");
    if (c == 'b' || c == 'B') return lacking("a word boundary");
    if (c == 'p' || c == 'P') return lacking("a Unicode property");
    if (c == 'A') return make({.kind = Regex::Kind::kBegin});
    if (c == 'Z' || c == 'z') return make({.kind = Regex::Kind::kEnd});
    MET_ASSIGN(const char32_t point, code_point_escape(c));
    return one({{point, point}});
  }

  Result<RegexNode> bracket() {
    const bool negated = take('^');
    CharSet set;
    bool first = true;
    while (first || peek() != ']') {
      if (at_end()) return bad("a class is not closed");
      if (first && peek() == ']') return bad("an empty class");
      first = false;
      std::optional<CharSet> whole;
      MET_ASSIGN(const char32_t low, class_item(whole));
      if (whole) {
        set.add(*whole);
        continue;
      }
      char32_t high = low;
      if (peek() == '-' && at_ + 1 < pattern_.size() && peek(1) != ']') {
        ++at_;
        std::optional<CharSet> end_class;
        MET_ASSIGN(high, class_item(end_class));
        if (end_class) return bad("a range ends in a class");
        if (high < low) return bad("a range is crossed");
      }
      set.add(low, high);
    }
    ++at_;
    return one(negated ? set.complement() : set);
  }

  /// One code point of a class, or a class escape in `whole`.
  Result<char32_t> class_item(std::optional<CharSet>& whole) {
    const char32_t c = pattern_[at_++];
    if (c == '[' && peek() == ':') return lacking("a POSIX class");
    if ((c == '&' && peek() == '&') || (c == '-' && peek() == '-')) return lacking("class arithmetic");
    if (c != '\\') return c;
    if (at_end()) return bad("a backslash at the end");
    const char32_t escaped = pattern_[at_++];
    whole = class_escape(escaped);
    if (whole) return U'\0';
    if (escaped == 'b') return U'\b';
    if (escaped == 'p' || escaped == 'P') return lacking("a Unicode property");
    return code_point_escape(escaped);
  }

  std::u32string pattern_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

Result<RegexNode> parse_regex(std::string_view pattern) {
  std::u32string points;
  for (std::size_t at = 0; at < pattern.size();) {
    const utf8::Decoded decoded = utf8::decode(pattern.substr(at));
    points.push_back(decoded.code_point);
    at += decoded.length;
  }
  return Parser(std::move(points)).run();
}

}  // namespace met::grammar
