// Regex to expressions, lengths and matches.
#include "grammar/regex.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/concat.h"
#include "core/utf8.h"

namespace met::grammar {
namespace {

using Kind = Regex::Kind;

RegexNode make(Regex regex) { return std::make_shared<const Regex>(std::move(regex)); }

CharSet every() { return CharSet{}.complement(); }

bool is_empty(const RegexNode& r) { return r->kind == Kind::kAll && r->parts.empty(); }

/// Anchors resolved: at the outer edges they are empty, elsewhere nothing can match them. `begin`, `end`: only
/// empty texts stand before and behind this part.
RegexNode anchor(const RegexNode& r, bool begin, bool end, bool& dead) {
  switch (r->kind) {
    case Kind::kChars:
      dead = r->chars.empty();
      return r;
    case Kind::kBegin:
      dead = !begin;
      return make({.kind = Kind::kAll});
    case Kind::kEnd:
      dead = !end;
      return make({.kind = Kind::kAll});
    case Kind::kAll: {
      Regex out{.kind = Kind::kAll};
      dead = false;
      const auto is_anchor = [](const RegexNode& p) {
        return p->kind == Kind::kBegin || p->kind == Kind::kEnd;
      };
      for (std::size_t i = 0; i < r->parts.size(); ++i) {
        const bool first =
            std::all_of(r->parts.begin(), r->parts.begin() + static_cast<std::ptrdiff_t>(i), is_anchor);
        const bool last =
            std::all_of(r->parts.begin() + static_cast<std::ptrdiff_t>(i) + 1, r->parts.end(), is_anchor);
        bool part_dead = false;
        RegexNode part = anchor(r->parts[i], begin && first, end && last, part_dead);
        dead = dead || part_dead;
        if (!is_empty(part)) out.parts.push_back(std::move(part));
      }
      return make(std::move(out));
    }
    case Kind::kAny: {
      Regex out{.kind = Kind::kAny};
      for (const RegexNode& branch : r->parts) {
        bool branch_dead = false;
        RegexNode part = anchor(branch, begin, end, branch_dead);
        if (!branch_dead) out.parts.push_back(std::move(part));
      }
      dead = out.parts.empty();
      return make(std::move(out));
    }
    case Kind::kRepeat: {
      const bool once = r->most == 1;
      bool part_dead = false;
      RegexNode part = anchor(r->parts[0], begin && once, end && once, part_dead);
      dead = part_dead && r->least > 0;
      if (part_dead) return make({.kind = Kind::kAll});
      return make({.kind = Kind::kRepeat, .parts = {std::move(part)}, .least = r->least, .most = r->most});
    }
  }
  return r;
}

bool has_anchor(const RegexNode& r) {
  return r->kind == Kind::kBegin || r->kind == Kind::kEnd || std::ranges::any_of(r->parts, has_anchor);
}

/// Every match of it begins (ends) with the anchor.
bool is_anchored(const RegexNode& r, Kind side) {
  switch (r->kind) {
    case Kind::kBegin:
    case Kind::kEnd:
      return r->kind == side;
    case Kind::kAll:
      if (r->parts.empty()) return false;
      return is_anchored(side == Kind::kBegin ? r->parts.front() : r->parts.back(), side);
    case Kind::kAny:
      return std::ranges::all_of(r->parts, [&](const RegexNode& p) { return is_anchored(p, side); });
    case Kind::kRepeat:
      return r->least > 0 && is_anchored(r->parts[0], side);
    default:
      return false;
  }
}

/// The whole text as one regex without anchors; null: nothing matches.
RegexNode whole(const RegexNode& regex, Unanchored unanchored) {
  const bool open = unanchored == Unanchored::kSearch || has_anchor(regex);
  Regex out{.kind = Kind::kAny};
  const std::vector<RegexNode> self{regex};
  for (const RegexNode& branch : regex->kind == Kind::kAny ? regex->parts : self) {
    const bool open_begin = open && !is_anchored(branch, Kind::kBegin);
    const bool open_end = open && !is_anchored(branch, Kind::kEnd);
    bool dead = false;
    RegexNode body = anchor(branch, true, true, dead);
    if (dead) continue;
    const RegexNode rest = make({.kind = Kind::kRepeat,
                                 .parts = {make({.kind = Kind::kChars, .chars = every()})},
                                 .least = 0,
                                 .most = kNoEnd});
    Regex line{.kind = Kind::kAll};
    if (open_begin) line.parts.push_back(rest);
    line.parts.push_back(std::move(body));
    if (open_end) line.parts.push_back(rest);
    out.parts.push_back(line.parts.size() == 1 ? line.parts[0] : make(std::move(line)));
  }
  if (out.parts.empty()) return nullptr;
  return out.parts.size() == 1 ? out.parts[0] : make(std::move(out));
}

Node lower(const RegexNode& r, Spelling spelling) {
  std::vector<Node> parts;
  for (const RegexNode& part : r->parts) parts.push_back(lower(part, spelling));
  switch (r->kind) {
    case Kind::kChars: {
      const auto& ranges = r->chars.ranges();
      if (spelling == Spelling::kPlain && ranges.size() == 1 && ranges[0].first == ranges[0].last) {
        std::string one;
        utf8::append(ranges[0].first, one);
        return text(one);
      }
      return spell(r->chars, spelling);
    }
    case Kind::kAny:
      return any(std::move(parts));
    case Kind::kRepeat:
      return repeat(parts[0], r->least, r->most);
    default:
      return all(std::move(parts));
  }
}

struct Lengths {
  std::int64_t least = 0;
  std::int64_t most = 0;  ///< kNoEnd: without end
};

constexpr std::int64_t kLengthMax = 1'000'000'000;

std::int64_t times(std::int64_t a, std::int64_t b) {
  if (a == 0 || b == 0) return 0;
  if (a == kNoEnd || b == kNoEnd) return kNoEnd;
  return a > kLengthMax / b ? kLengthMax : a * b;
}

Lengths lengths(const RegexNode& r) {
  switch (r->kind) {
    case Kind::kChars:
      return {1, 1};
    case Kind::kRepeat: {
      const Lengths part = lengths(r->parts[0]);
      return {times(part.least, r->least), times(part.most, r->most)};
    }
    case Kind::kAny: {
      Lengths out = lengths(r->parts[0]);
      for (const RegexNode& branch : r->parts) {
        const Lengths one = lengths(branch);
        out.least = std::min(out.least, one.least);
        out.most = out.most == kNoEnd || one.most == kNoEnd ? kNoEnd : std::max(out.most, one.most);
      }
      return out;
    }
    default: {
      Lengths out;
      for (const RegexNode& part : r->parts) {
        const Lengths one = lengths(part);
        out.least = std::min(out.least + one.least, kLengthMax);
        out.most =
            out.most == kNoEnd || one.most == kNoEnd ? kNoEnd : std::min(out.most + one.most, kLengthMax);
      }
      return out;
    }
  }
}

/// `r` with its one part of open length cut so that the whole has `least` to `most` code points; null: cannot.
RegexNode cut(const RegexNode& r, std::int64_t least, std::int64_t most) {
  const Lengths have = lengths(r);
  const bool above = most == kNoEnd || (have.most != kNoEnd && have.most <= most);
  if (have.least >= least && above) return r;
  if (r->kind == Kind::kRepeat && r->parts[0]->kind == Kind::kChars) {
    const std::int64_t from = std::max(least, r->least);
    std::int64_t to = r->most;
    if (most != kNoEnd) to = to == kNoEnd ? most : std::min(to, most);
    if (to != kNoEnd && to < from) return nullptr;
    return make({.kind = Kind::kRepeat, .parts = r->parts, .least = from, .most = to});
  }
  if (r->kind == Kind::kAny) {
    Regex out{.kind = Kind::kAny};
    for (const RegexNode& branch : r->parts) {
      const Lengths one = lengths(branch);
      if ((most != kNoEnd && one.least > most) || (one.most != kNoEnd && one.most < least)) continue;
      RegexNode part = cut(branch, least, most);
      if (!part) return nullptr;
      out.parts.push_back(std::move(part));
    }
    return out.parts.empty() ? nullptr : make(std::move(out));
  }
  if (r->kind != Kind::kAll) return nullptr;
  // One part of variable length takes what the fixed ones leave.
  std::int64_t fixed = 0;
  std::size_t variable = r->parts.size();
  for (std::size_t i = 0; i < r->parts.size(); ++i) {
    const Lengths one = lengths(r->parts[i]);
    if (one.least == one.most) {
      fixed += one.least;
    } else if (variable < r->parts.size()) {
      return nullptr;
    } else {
      variable = i;
    }
  }
  if (variable == r->parts.size() || (most != kNoEnd && most < fixed)) return nullptr;
  RegexNode part = cut(r->parts[variable], std::max<std::int64_t>(least - fixed, 0),
                       most == kNoEnd ? kNoEnd : most - fixed);
  if (!part) return nullptr;
  Regex out{.kind = Kind::kAll, .parts = r->parts};
  out.parts[variable] = std::move(part);
  return make(std::move(out));
}

/// Positions behind a match, from a set of positions: no backtracking, so its time is bounded by pattern times
/// text, and repetitions stop when they reach nothing new.
using Places = std::set<std::size_t>;

Places run(const RegexNode& r, const std::u32string& text, const Places& from) {
  switch (r->kind) {
    case Kind::kChars: {
      Places out;
      for (const std::size_t at : from)
        if (at < text.size() && r->chars.contains(text[at])) out.insert(at + 1);
      return out;
    }
    case Kind::kAny: {
      Places out;
      for (const RegexNode& branch : r->parts) out.merge(run(branch, text, from));
      return out;
    }
    case Kind::kRepeat: {
      Places now = from;
      for (std::int64_t i = 0; i < r->least && !now.empty(); ++i) {
        Places next = run(r->parts[0], text, now);
        if (next == now) break;
        now = std::move(next);
      }
      Places reached = now;
      for (std::int64_t i = r->least; (r->most == kNoEnd || i < r->most) && !now.empty(); ++i) {
        now = run(r->parts[0], text, now);
        const std::size_t before = reached.size();
        reached.insert(now.begin(), now.end());
        if (reached.size() == before) break;
      }
      return reached;
    }
    default: {
      Places now = from;
      for (const RegexNode& part : r->parts) now = run(part, text, now);
      return now;
    }
  }
}

}  // namespace

CharSet no_tag_text() { return {{0, 0x08}, {0x0B, 0x1F}, {'<', '<'}}; }

Node spell(const CharSet& set, Spelling spelling) {
  if (spelling == Spelling::kPlain) return chars(set);
  if (spelling == Spelling::kWithoutBar) return chars(set.intersect(CharSet{{'|', '|'}}.complement()));
  if (spelling == Spelling::kTagText) return chars(set.intersect(no_tag_text().complement()));
  struct Escape {
    char32_t point;
    const char* text;
  };
  static constexpr Escape kEscapes[] = {{'"', "\\\""}, {'\\', "\\\\"}, {'\b', "\\b"}, {'\f', "\\f"},
                                        {'\n', "\\n"}, {'\r', "\\r"},  {'\t', "\\t"}};
  static const CharSet plain = CharSet{{0, 0x1F}, {'"', '"'}, {'\\', '\\'}}.complement();
  const bool tagged = spelling == Spelling::kTaggedJson;
  std::vector<Node> out{
      chars(set.intersect(tagged ? plain.intersect(CharSet{{'<', '<'}}.complement()) : plain))};
  if (tagged && set.contains('<')) out.push_back(text("\\u003c"));
  for (const Escape& escape : kEscapes)
    if (set.contains(escape.point)) out.push_back(text(escape.text));
  return any(std::move(out));
}

Node lower_regex(const RegexNode& regex, Spelling spelling, Unanchored unanchored) {
  const RegexNode r = whole(regex, unanchored);
  return r ? lower(r, spelling) : never();
}

Result<Node> lower_regex_bounded(const RegexNode& regex, Spelling spelling, Unanchored unanchored,
                                 std::int64_t least, std::int64_t most) {
  const RegexNode r = whole(regex, unanchored);
  if (!r) return never();
  const Lengths have = lengths(r);
  if ((most != kNoEnd && have.least > most) || (have.most != kNoEnd && have.most < least)) return never();
  const RegexNode bounded = cut(r, least, most);
  if (!bounded)
    return unsupported(
        "", "its pattern together with bounds on the length cannot be enforced: bound it in the pattern");
  return lower(bounded, spelling);
}

bool matches(const RegexNode& regex, std::string_view bytes, Unanchored unanchored) {
  const RegexNode r = whole(regex, unanchored);
  if (!r) return false;
  std::u32string points;
  while (!bytes.empty()) {
    const utf8::Decoded decoded = utf8::decode(bytes);
    points.push_back(decoded.code_point);
    bytes.remove_prefix(decoded.length);
  }
  return run(r, points, {0}).contains(points.size());
}

std::string literal_prefix(const RegexNode& regex) {
  if (!is_anchored(regex, Kind::kBegin)) return {};
  std::string out;
  const std::vector<RegexNode> self{regex};
  for (const RegexNode& part : regex->kind == Kind::kAll ? regex->parts : self) {
    if (part->kind == Kind::kBegin) continue;
    if (part->kind != Kind::kChars) break;
    const auto& ranges = part->chars.ranges();
    if (ranges.size() != 1 || ranges[0].first != ranges[0].last) break;
    utf8::append(ranges[0].first, out);
  }
  return out;
}

}  // namespace met::grammar
