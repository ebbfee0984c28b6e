#include "grammar/string_masks.h"

#include "core/hex.h"

#include <algorithm>
#include <functional>
#include <utility>

namespace met::grammar {
namespace {

using Part = StringPlace::Part;

bool within(unsigned char byte, unsigned char first, unsigned char last) {
  return byte >= first && byte <= last;
}
bool is_hex(unsigned char byte) { return hex::value(byte) >= 0; }

/// The part behind a character's first byte.
Part begin(unsigned char byte) {
  if (byte == '\\') return Part::kEscape;
  if (byte < 0x20 || byte == '"') return Part::kDead;
  if (byte < 0x80) return Part::kBetween;
  if (within(byte, 0xC2, 0xDF)) return Part::kTail1;
  if (byte == 0xE0) return Part::kAfterE0;
  if (byte == 0xED) return Part::kAfterED;
  if (within(byte, 0xE1, 0xEF)) return Part::kTail2;
  if (byte == 0xF0) return Part::kAfterF0;
  if (within(byte, 0xF1, 0xF3)) return Part::kTail3;
  if (byte == 0xF4) return Part::kAfterF4;
  return Part::kDead;
}

/// The part behind `\u` and a digit.
Part unicode(unsigned char byte) {
  if (!is_hex(byte)) return Part::kDead;
  return (byte | 0x20U) == 'd' ? Part::kAfterD : Part::kHex3;
}

Part escape(unsigned char byte) {
  if (byte == 'u') return Part::kUnicode;
  return std::string_view("\"/\\bfnrt").contains(static_cast<char>(byte)) ? Part::kBetween : Part::kDead;
}

}  // namespace

Part StringPlace::next(Part part, unsigned char byte) {
  const auto then = [](bool good, Part next) { return good ? next : Part::kDead; };
  const unsigned char lower = byte | 0x20U;
  switch (part) {
    case Part::kBetween:
      return begin(byte);
    case Part::kTail1:
      return then(within(byte, 0x80, 0xBF), Part::kBetween);
    case Part::kTail2:
      return then(within(byte, 0x80, 0xBF), Part::kTail1);
    case Part::kTail3:
      return then(within(byte, 0x80, 0xBF), Part::kTail2);
    case Part::kAfterE0:
      return then(within(byte, 0xA0, 0xBF), Part::kTail1);
    case Part::kAfterED:
      return then(within(byte, 0x80, 0x9F), Part::kTail1);
    case Part::kAfterF0:
      return then(within(byte, 0x90, 0xBF), Part::kTail2);
    case Part::kAfterF4:
      return then(within(byte, 0x80, 0x8F), Part::kTail2);
    case Part::kEscape:
      return escape(byte);
    case Part::kUnicode:
      return unicode(byte);
    case Part::kHex3:
      return then(is_hex(byte), Part::kHex2);
    case Part::kHex2:
      return then(is_hex(byte), Part::kHex1);
    case Part::kHex1:
      return then(is_hex(byte), Part::kBetween);
    case Part::kAfterD:
      if (within(byte, '0', '7')) return Part::kHex2;
      return then(is_hex(byte) && !within(lower, 'c', 'f'), Part::kHigh2);
    case Part::kHigh2:
      return then(is_hex(byte), Part::kHigh1);
    case Part::kHigh1:
      return then(is_hex(byte), Part::kPairSlash);
    case Part::kPairSlash:
      return then(byte == '\\', Part::kPairU);
    case Part::kPairU:
      return then(byte == 'u', Part::kPairD);
    case Part::kPairD:
      return then(lower == 'd', Part::kPairC);
    case Part::kPairC:
      return then(within(lower, 'c', 'f'), Part::kHex2);
    case Part::kDead:
      break;
  }
  return Part::kDead;
}

void StringPlace::take(std::string_view bytes) {
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (part_ == Part::kBetween && byte == '"') {
      ++quotes_;
      begun_ = 0;
      continue;
    }
    if (part_ == Part::kBetween) ++begun_;
    part_ = next(part_, byte);
    if (part_ == Part::kDead) part_ = Part::kBetween;  // no string: its next quote counts again
  }
}

StringMasks::StringMasks(std::vector<std::string> tokens, std::size_t width)
    : tokens_(std::move(tokens)), words_((width + 31) / 32), tails_(1) {
  for (const std::string& token : tokens_)
    for (std::size_t at = token.find('"'); at != std::string::npos; at = token.find('"', at + 1))
      tails_.push_back(token.substr(at + 1));
  std::ranges::sort(tails_);
  const auto equal = std::ranges::unique(tails_);
  tails_.erase(equal.begin(), equal.end());
}

StringMasks::Table StringMasks::make_table(Part start) const {
  Table out;
  for (auto& bits : out.within) bits.resize(words_);
  for (std::size_t id = 0; id < tokens_.size(); ++id) {
    const std::string& token = tokens_[id];
    Part part = start;
    std::uint32_t chars = 0;
    std::size_t at = 0;
    for (; at < token.size() && part != Part::kDead; ++at) {
      const auto byte = static_cast<unsigned char>(token[at]);
      if (part == Part::kBetween && byte == '"') break;
      if (part == Part::kBetween) ++chars;
      part = StringPlace::next(part, byte);
    }
    if (token.empty() || part == Part::kDead) continue;
    if (at < token.size()) {
      const auto tail = std::ranges::lower_bound(tails_, token.substr(at + 1));
      out.closing.push_back(
          {static_cast<std::int32_t>(id), chars, static_cast<std::uint32_t>(tail - tails_.begin())});
    } else if (chars > kCounted) {
      out.longer.emplace_back(chars, static_cast<std::int32_t>(id));
    } else {
      out.within[chars][id / 32] |= 1U << (id % 32);
    }
  }
  for (std::size_t most = 1; most <= kCounted; ++most)
    std::ranges::transform(out.within[most], out.within[most - 1], out.within[most].begin(), std::bit_or());
  std::ranges::sort(out.longer);
  return out;
}

const StringMasks::Table& StringMasks::table(Part part) const {
  const auto at = static_cast<std::size_t>(part);
  std::call_once(made_[at], [&] { tables_[at] = std::make_unique<const Table>(make_table(part)); });
  return *tables_[at];
}

void StringMasks::fill(const StringPlace& place, const LengthBound& bound,
                       const std::vector<bool>& tail_may_follow, std::span<std::uint32_t> allowed) const {
  const Table& from = table(place.part());
  const auto set = [&](std::int32_t id) {
    allowed[static_cast<std::size_t>(id) / 32] |= 1U << (static_cast<std::size_t>(id) % 32);
  };
  // Characters that may still begin: a token that begins more is out.
  const std::int64_t room = bound.most == kNoEnd ? INT64_MAX : bound.most - place.begun();
  std::ranges::fill(allowed, 0U);
  if (room < 0) return;
  const auto& within = from.within[static_cast<std::size_t>(std::min<std::int64_t>(room, kCounted))];
  std::ranges::copy_n(within.begin(), static_cast<std::ptrdiff_t>(std::min(words_, allowed.size())),
                      allowed.begin());
  for (const auto& [chars, id] : from.longer) {
    if (chars > room) break;
    set(id);
  }
  for (const Closing& one : from.closing) {
    const bool counts = one.chars <= room && place.begun() + one.chars >= bound.least;
    if (counts && tail_may_follow[one.tail]) set(one.id);
  }
}

}  // namespace met::grammar
