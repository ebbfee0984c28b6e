// Masks inside a JSON string whose length is bounded: looked up by the characters that are left. The engine counts in
// a rule of its own and would put every token through it for each mask.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "grammar/expr.h"

namespace met::grammar {

/// Where a text stands in the JSON string that its last quote opened. Outside of strings it is where a string's text
/// would be, until the next quote says otherwise.
class StringPlace {
 public:
  /// What of a character is begun: between two, inside a UTF-8 sequence, inside an escape.
  enum class Part : std::uint8_t {
    kBetween,
    kDead,
    kTail1,
    kTail2,
    kTail3,
    kAfterE0,
    kAfterED,
    kAfterF0,
    kAfterF4,
    kEscape,
    kUnicode,
    kHex3,
    kHex2,
    kHex1,
    kAfterD,
    kHigh2,
    kHigh1,
    kPairSlash,
    kPairU,
    kPairD,
    kPairC,
  };
  static constexpr std::size_t kParts = static_cast<std::size_t>(Part::kPairC) + 1;

  /// The part behind `byte`; a quote between two characters, which ends the string, is kDead here.
  static Part next(Part part, unsigned char byte);

  void take(std::string_view bytes);
  Part part() const { return part_; }
  /// Characters that have begun since the quote.
  std::int64_t begun() const { return begun_; }
  /// Tells one string from the next: quotes so far.
  std::int64_t string() const { return quotes_; }

 private:
  Part part_ = Part::kBetween;
  std::int64_t begun_ = 0;
  std::int64_t quotes_ = 0;
};

/// What each token of a vocabulary does to a string, for each part of a character that it may begin in. Immutable for
/// its users, who may be on many threads.
class StringMasks {
 public:
  /// Tokens that are empty are never allowed, nor are ids from tokens.size() on.
  StringMasks(std::vector<std::string> tokens, std::size_t width);

  /// What stands behind a closing quote in some token, ascending; the first is empty.
  const std::vector<std::string>& tails() const { return tails_; }

  /// Sets the bits of the tokens that keep a string of `bound` within it at `place`; of those that close it, the ones
  /// whose tail is marked in `tail_may_follow`. `allowed` has `width` bits.
  void fill(const StringPlace& place, const LengthBound& bound, const std::vector<bool>& tail_may_follow,
            std::span<std::uint32_t> allowed) const;

 private:
  static constexpr std::size_t kCounted = 16;  ///< characters of a token; longer ones stand in a list
  struct Closing {
    std::int32_t id;
    std::uint32_t chars;  ///< that begin in it, before its quote
    std::uint32_t tail;
  };
  struct Table {
    /// Tokens that do not leave the string, by the most characters that begin in them.
    std::array<std::vector<std::uint32_t>, kCounted + 1> within;
    std::vector<std::pair<std::uint32_t, std::int32_t>> longer;
    std::vector<Closing> closing;
  };
  const Table& table(StringPlace::Part part) const;
  Table make_table(StringPlace::Part part) const;

  const std::vector<std::string> tokens_;
  const std::size_t words_;
  std::vector<std::string> tails_;
  mutable std::array<std::once_flag, StringPlace::kParts> made_;
  mutable std::array<std::unique_ptr<const Table>, StringPlace::kParts> tables_;
};

}  // namespace met::grammar
