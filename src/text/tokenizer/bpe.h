// Byte-pair encoding: by a list of merges, or by the scores of a SentencePiece vocabulary.
#pragma once

#include <atomic>
#include <memory>
#include <span>
#include <vector>

#include "text/tokenizer/model.h"

namespace met::text {

/// Two adjacent ids → the id of their union and its rank; the lowest rank merges first. Open addressing.
class MergeTable {
 public:
  struct Merge {
    std::uint32_t rank = UINT32_MAX;
    TokenId id = PieceTable::kNone;
  };
  void reserve(std::size_t merges);
  /// A later merge of an equal pair replaces the earlier one.
  void set(TokenId left, TokenId right, Merge merge);
  Merge find(TokenId left, TokenId right) const {
    if (slots_.empty()) return {};
    const std::uint64_t key = pack(left, right);
    for (std::size_t i = spread(key);; i = (i + 1) & mask_) {
      if (slots_[i].key == key) return slots_[i].merge;
      if (slots_[i].key == kEmpty) return {};
    }
  }

 private:
  static constexpr std::uint64_t kEmpty = UINT64_MAX;
  struct Slot {
    std::uint64_t key = kEmpty;
    Merge merge;
  };
  static std::uint64_t pack(TokenId left, TokenId right) {
    return (std::uint64_t{static_cast<std::uint32_t>(left)} << 32U) | static_cast<std::uint32_t>(right);
  }
  // Fibonacci hashing: only the top bits of the product depend on all of the key.
  std::size_t spread(std::uint64_t key) const { return (key * 0x9E3779B97F4A7C15U) >> shift_; }

  std::vector<Slot> slots_;
  std::size_t mask_ = 0;
  unsigned shift_ = 63;
  std::size_t used_ = 0;
};

struct BpeOptions {
  bool bytes = false;  ///< pieces are raw bytes (byte-level); otherwise UTF-8
  bool ignore_merges = false;
  bool byte_fallback = false;
  bool fuse_unknown = false;
  TokenId unknown = PieceTable::kNone;
  std::string prefix;  ///< put before every symbol but a word's first, for the look-up of symbols
  std::string suffix;  ///< put after a word's last symbol
  /// No merge makes a piece with U+2581 after another character: long texts are cut before it.
  bool cut_at_blank_mark = false;
};

/// BPE by merges. `pieces` must outlive the model.
std::unique_ptr<Model> make_bpe(const PieceTable& pieces, MergeTable merges, BpeOptions options);

struct ScoredBpeOptions {
  TokenId unknown = PieceTable::kNone;
  std::vector<float> scores;         ///< one an id; the highest merges first
  std::vector<bool> mergeable = {};  ///< ids that a merge may make
  bool cut_at_blank_mark = false;
};
/// BPE as SentencePiece does it: any two neighbours whose text together is a piece may merge.
std::unique_ptr<Model> make_scored_bpe(const PieceTable& pieces, ScoredBpeOptions options);

/// Does U+2581 follow another character in the piece?
bool blank_mark_inside(std::string_view piece);

}  // namespace met::text
