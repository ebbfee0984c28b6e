#include "grammar/expr.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>

#include "core/concat.h"

namespace met::grammar {
namespace {

constexpr char32_t kLast = 0x10FFFF;
constexpr char32_t kSurrogateFirst = 0xD800;
constexpr char32_t kSurrogateLast = 0xDFFF;

bool is_empty_text(const Node& node) { return node->kind == Expr::Kind::kAll && node->parts.empty(); }

Node make(Expr expr) { return std::make_shared<const Expr>(std::move(expr)); }

}  // namespace

CharSet::CharSet(std::initializer_list<Range> ranges) {
  for (const Range& range : ranges) add(range.first, range.last);
}

void CharSet::add(char32_t first, char32_t last) {
  if (first <= kSurrogateLast && last >= kSurrogateFirst) {
    if (first < kSurrogateFirst) add(first, kSurrogateFirst - 1);
    if (last > kSurrogateLast) add(kSurrogateLast + 1, last);
    return;
  }
  std::vector<Range> out;
  for (const Range& range : ranges_) {
    if (range.last + 1 < first || last + 1 < range.first) {
      out.push_back(range);
    } else {
      first = std::min(first, range.first);
      last = std::max(last, range.last);
    }
  }
  const auto place = std::ranges::lower_bound(out, first, {}, &Range::first);
  out.insert(place, {first, last});
  ranges_ = std::move(out);
}

void CharSet::add(const CharSet& other) {
  for (const Range& range : other.ranges_) add(range.first, range.last);
}

CharSet CharSet::complement() const {
  CharSet out;
  char32_t next = 0;
  for (const Range& range : ranges_) {
    if (range.first > next) out.add(next, range.first - 1);
    next = range.last + 1;
  }
  if (next <= kLast) out.add(next, kLast);
  return out;
}

CharSet CharSet::intersect(const CharSet& other) const {
  CharSet out;
  for (const Range& a : ranges_) {
    for (const Range& b : other.ranges_) {
      const char32_t first = std::max(a.first, b.first);
      const char32_t last = std::min(a.last, b.last);
      if (first <= last) out.add(first, last);
    }
  }
  return out;
}

bool CharSet::contains(char32_t c) const {
  return std::ranges::any_of(ranges_, [&](const Range& r) { return r.first <= c && c <= r.last; });
}

Node never() {
  static const Node node = make({});
  return node;
}

Node empty_text() {
  static const Node node = make({.kind = Expr::Kind::kAll});
  return node;
}

Node text(std::string_view bytes) {
  if (bytes.empty()) return empty_text();
  return make({.kind = Expr::Kind::kText, .text = std::string(bytes)});
}

Node chars(CharSet set) {
  if (set.empty()) return never();
  return make({.kind = Expr::Kind::kChars, .chars = std::move(set)});
}

Node rule(int number) { return make({.kind = Expr::Kind::kRule, .rule = number}); }

Node all(std::vector<Node> parts) {
  std::vector<Node> out;
  for (const Node& part : parts) {
    if (part->kind == Expr::Kind::kNever) return never();
    if (part->kind == Expr::Kind::kAll) {
      out.insert(out.end(), part->parts.begin(), part->parts.end());
    } else {
      out.push_back(part);
    }
  }
  if (out.empty()) return empty_text();
  if (out.size() == 1) return out.front();
  return make({.kind = Expr::Kind::kAll, .parts = std::move(out)});
}

Node any(std::vector<Node> parts) {
  std::vector<Node> out;
  for (const Node& part : parts) {
    if (part->kind == Expr::Kind::kNever) continue;
    if (part->kind == Expr::Kind::kAny) {
      out.insert(out.end(), part->parts.begin(), part->parts.end());
    } else {
      out.push_back(part);
    }
  }
  if (out.empty()) return never();
  if (out.size() == 1) return out.front();
  return make({.kind = Expr::Kind::kAny, .parts = std::move(out)});
}

Node repeat(Node part, std::int64_t least, std::int64_t most) {
  if (most == 0 || is_empty_text(part)) return empty_text();
  if (part->kind == Expr::Kind::kNever) return least == 0 ? empty_text() : never();
  if (least == 1 && most == 1) return part;
  // (class | rest)* as class* (rest class*)*: a run of one class is what the engine decides fastest.
  const bool runs = part->kind == Expr::Kind::kAny && part->parts.front()->kind == Expr::Kind::kChars;
  if (runs && least == 0 && most == kNoEnd) {
    const Node run = repeat(part->parts.front(), 0, kNoEnd);
    const Node rest = any({part->parts.begin() + 1, part->parts.end()});
    return all(
        {run, make({.kind = Expr::Kind::kRepeat, .parts = {all({rest, run})}, .least = 0, .most = kNoEnd})});
  }
  return make({.kind = Expr::Kind::kRepeat, .parts = {std::move(part)}, .least = least, .most = most});
}

Node maybe(Node part) { return repeat(std::move(part), 0, 1); }

Node free_of(const std::vector<std::string_view>& texts) {
  Expr out{.kind = Expr::Kind::kFree};
  for (const std::string_view one : texts) out.parts.push_back(text(one));
  return make(std::move(out));
}

namespace {
// A mark is an integer that a float holds: 8 bits of `least`, 16 of `most`.
constexpr std::int64_t kMarkLeastMax = 0xFF;
constexpr std::int64_t kMarkNoEnd = 0xFFFF;
}  // namespace

std::optional<std::uint32_t> length_mark(const LengthBound& bound) {
  if (bound.least > kMarkLeastMax || bound.most >= kMarkNoEnd) return std::nullopt;
  return static_cast<std::uint32_t>(bound.least << 16 | (bound.most == kNoEnd ? kMarkNoEnd : bound.most));
}

std::optional<LengthBound> bound_of_mark(std::uint32_t mark) {
  if (mark >= kOutsideMark) return std::nullopt;
  const auto most = static_cast<std::int64_t>(mark & 0xFFFFU);
  return LengthBound{.least = mark >> 16U, .most = most == kMarkNoEnd ? kNoEnd : most};
}

int Rules::add(std::string_view hint) {
  std::string name = concat("r", rules_.size());
  if (!hint.empty()) name += '_';
  for (const char c : hint.substr(0, 24)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    name += plain ? c : '_';
  }
  rules_.push_back({.name = std::move(name)});
  return static_cast<int>(rules_.size()) - 1;
}

void Rules::define(int number, Node body) { rules_[static_cast<std::size_t>(number)].body = std::move(body); }

bool Rules::productive(const Node& node, const std::vector<bool>& known) const {
  const auto of = [&](const Node& part) { return productive(part, known); };
  switch (node->kind) {
    case Expr::Kind::kNever:
      return false;
    case Expr::Kind::kRule:
      return known[static_cast<std::size_t>(node->rule)];
    case Expr::Kind::kAll:
      return std::ranges::all_of(node->parts, of);
    case Expr::Kind::kAny:
      return std::ranges::any_of(node->parts, of);
    case Expr::Kind::kRepeat:
      return node->least == 0 || of(node->parts[0]);
    default:
      return true;
  }
}

std::vector<bool> Rules::productive_rules() const {
  std::vector<std::vector<std::size_t>> users(rules_.size());
  for (std::size_t i = 0; i < rules_.size(); ++i) {
    std::vector<const Expr*> open{rules_[i].body.get()};
    while (!open.empty()) {
      const Expr* node = open.back();
      open.pop_back();
      if (node->kind == Expr::Kind::kRule) users[static_cast<std::size_t>(node->rule)].push_back(i);
      for (const Node& part : node->parts) open.push_back(part.get());
    }
  }
  std::vector<bool> known(rules_.size(), false);
  std::vector<std::size_t> open(rules_.size());
  std::iota(open.begin(), open.end(), std::size_t{0});
  while (!open.empty()) {
    const std::size_t i = open.back();
    open.pop_back();
    if (known[i] || !productive(rules_[i].body, known)) continue;
    known[i] = true;
    open.insert(open.end(), users[i].begin(), users[i].end());
  }
  return known;
}

Node Rules::prune(const Node& node, const std::vector<bool>& known) const {
  std::vector<Node> parts;
  for (const Node& part : node->parts) parts.push_back(prune(part, known));
  switch (node->kind) {
    case Expr::Kind::kRule:
      return known[static_cast<std::size_t>(node->rule)] ? node : never();
    case Expr::Kind::kAll:
      return all(std::move(parts));
    case Expr::Kind::kAny:
      return any(std::move(parts));
    case Expr::Kind::kRepeat:
      return repeat(parts[0], node->least, node->most);
    default:
      return node;
  }
}

namespace {

/// Prints pruned expressions; stops at its limits.
class Printer {
 public:
  Printer(std::string& out, std::size_t bytes_max, std::int64_t units_max)
      : out_(out), bytes_max_(bytes_max), units_max_(units_max) {}

  bool over_bytes() const { return out_.size() > bytes_max_; }
  bool over_units() const { return over_units_; }

  /// `times`: how often the expression stands in the unfolded text around it.
  void print(const Node& node, const std::vector<std::string>& names, std::int64_t times, bool wrapped) {
    if (over_bytes() || over_units_) return;
    switch (node->kind) {
      case Expr::Kind::kNever:
        break;
      case Expr::Kind::kText:
        print_text(node->text);
        break;
      case Expr::Kind::kChars:
        print_chars(node->chars);
        break;
      case Expr::Kind::kRule:
        out_ += names[static_cast<std::size_t>(node->rule)];
        break;
      case Expr::Kind::kAll:
        if (node->parts.empty()) out_ += "\"\"";
        print_parts(node, names, times, " ", wrapped);
        break;
      case Expr::Kind::kAny:
        print_parts(node, names, times, " | ", wrapped);
        break;
      case Expr::Kind::kRepeat:
        print_repeat(node, names, times);
        break;
      case Expr::Kind::kFree:
        out_ += "TagDispatch(loop_after_dispatch=false, excludes=(";
        for (const Node& part : node->parts) {
          print_text(part->text);
          out_ += ',';
        }
        out_ += "))";
        break;
    }
  }

 private:
  void print_parts(const Node& node, const std::vector<std::string>& names, std::int64_t times,
                   std::string_view between, bool wrapped) {
    const bool bare = wrapped || node->parts.size() < 2;
    if (!bare) out_ += '(';
    for (std::size_t i = 0; i < node->parts.size(); ++i) {
      if (i > 0) out_ += between;
      print(node->parts[i], names, times, false);
    }
    if (!bare) out_ += ')';
  }

  void print_repeat(const Node& node, const std::vector<std::string>& names, std::int64_t times) {
    const Node& part = node->parts[0];
    const std::int64_t count = std::max<std::int64_t>({node->least, node->most, 1});
    // One class or text is counted by the engine; anything larger may be unfolded by it.
    const bool simple = part->kind == Expr::Kind::kChars || part->kind == Expr::Kind::kText;
    if (count > units_max_ / std::max<std::int64_t>(times, 1)) {
      over_units_ = true;
      return;
    }
    const bool paren =
        part->kind == Expr::Kind::kAll || part->kind == Expr::Kind::kAny || part->kind == Expr::Kind::kRepeat;
    if (paren) out_ += '(';
    print(part, names, simple ? times : times * count, true);
    if (paren) out_ += ')';
    if (node->most == kNoEnd && node->least <= 1) {
      out_ += node->least == 0 ? '*' : '+';
    } else if (node->least == 0 && node->most == 1) {
      out_ += '?';
    } else if (node->most == kNoEnd) {
      out_ += concat("{", node->least, ",}");
    } else {
      out_ += concat("{", node->least, ",", node->most, "}");
    }
  }

  void print_escaped(const char* format, unsigned value) {
    std::array<char, 16> buffer{};
    std::snprintf(buffer.data(), buffer.size(), format, value);
    out_ += buffer.data();
  }

  void print_text(std::string_view bytes) {
    out_ += '"';
    for (const char c : bytes) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        out_ += '\\';
        out_ += c;
      } else if (byte < 0x20 || byte == 0x7F) {
        print_escaped("\\u%04X", byte);  // \x takes all the digits that follow, those of the text too
      } else {
        out_ += c;
      }
    }
    out_ += '"';
  }

  void print_point(char32_t c) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (plain) {
      out_ += static_cast<char>(c);
    } else if (c <= 0xFFFF) {
      print_escaped("\\u%04X", c);
    } else {
      print_escaped("\\U%08X", c);
    }
  }

  void print_chars(const CharSet& set) {
    out_ += '[';
    for (const CharSet::Range& range : set.ranges()) {
      print_point(range.first);
      if (range.last == range.first) continue;
      out_ += '-';
      print_point(range.last);
    }
    out_ += ']';
  }

  std::string& out_;
  std::size_t bytes_max_;
  std::int64_t units_max_;
  bool over_units_ = false;
};

}  // namespace

Result<std::string> Rules::write(const Node& root, const Bounds& bounds) {
  const std::vector<bool> known = productive_rules();
  const Node start = prune(root, known);
  if (start->kind == Expr::Kind::kNever) return invalid("", "no text can match it");

  std::vector<std::string> names;
  for (const Rule& entry : rules_) names.push_back(entry.name);
  const bool marked = std::ranges::any_of(rules_, [](const Rule& entry) { return entry.mark.has_value(); });
  std::string out = concat("root", marked ? concat("[temperature=", kOutsideMark, "]") : "", " ::= ");
  Printer printer(out, bounds.bytes_max, bounds.units_max);
  printer.print(start, names, 1, true);
  std::vector<bool> wanted(rules_.size(), false);
  std::vector<Node> open{start};
  while (!open.empty()) {  // only what the root reaches
    const Node node = open.back();
    open.pop_back();
    open.insert(open.end(), node->parts.begin(), node->parts.end());
    if (node->kind != Expr::Kind::kRule || wanted[static_cast<std::size_t>(node->rule)]) continue;
    const auto number = static_cast<std::size_t>(node->rule);
    wanted[number] = true;
    const Node body = prune(rules_[number].body, known);
    out += concat("\n", names[number]);
    if (rules_[number].mark) out += concat("[temperature=", *rules_[number].mark, "]");
    out += " ::= ";
    printer.print(body, names, 1, true);
    open.push_back(body);
  }
  if (printer.over_units())
    return unsupported("", concat("its counted repetitions unfold to more than ", bounds.units_max));
  if (printer.over_bytes())
    return unsupported("", concat("it unfolds to more than ", bounds.bytes_max, " bytes"));
  const auto count = static_cast<std::size_t>(std::ranges::count(wanted, true));
  if (count * out.size() > bounds.product_max)
    return unsupported(
        "", concat("it unfolds to ", count, " rules of ", out.size(), " bytes, which is too much"));
  return out;
}

}  // namespace met::grammar
