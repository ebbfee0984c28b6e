// The models that turn a piece of text into ids.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "text/tokenizer/piece_table.h"
#include "text/tokenizer/tokenizer.h"

namespace met::text {

/// A set of ids, one bit an id; ids past its end are not in it.
using IdSet = std::vector<bool>;
inline bool has(const IdSet* set, TokenId id) {
  return set != nullptr && id >= 0 && static_cast<std::size_t>(id) < set->size() &&
         (*set)[static_cast<std::size_t>(id)];
}

/// A vocabulary's model. Immutable as seen from outside; called from many threads.
class Model {
 public:
  virtual ~Model() = default;
  /// Appends the ids of a piece (not empty; valid UTF-8, except under a byte-level pre-tokeniser). Ids that
  /// are `banned` are not used, as if the vocabulary lacked them; nullptr bans none.
  virtual void encode(std::string_view piece, const IdSet* banned, std::vector<TokenId>& out) const = 0;
};

/// Ids of the 256 byte-fallback pieces "<0x00>" … "<0xFF>"; kNone where the vocabulary lacks one.
struct ByteIds {
  TokenId id[256];
  explicit ByteIds(const PieceTable& pieces);
  /// Appends the ids of the bytes; false and nothing appended when one is missing.
  bool append(std::string_view bytes, std::vector<TokenId>& out) const;
};

/// Byte of a piece "<0xXX>", or -1.
int byte_of_piece(std::string_view piece);

struct WordPieceOptions {
  TokenId unknown = PieceTable::kNone;
  std::string prefix = "##";
  std::size_t chars_max = 100;  ///< longer words are unknown
  /// Words begin with U+2581 and continuations have no prefix, as GGUF spells them.
  bool phantom_space = false;
};
/// Greedy longest match from the left (BERT). `pieces` must outlive the model.
std::unique_ptr<Model> make_word_piece(const PieceTable& pieces, WordPieceOptions options);

/// One piece, one id.
std::unique_ptr<Model> make_word_level(const PieceTable& pieces, TokenId unknown);

struct UnigramOptions {
  TokenId unknown = PieceTable::kNone;
  bool byte_fallback = false;
  std::vector<double> scores;       ///< one an id
  std::vector<bool> excluded = {};  ///< ids that no path uses; empty: none
};
/// Best path by log-probability (Kudo 2018, arXiv:1804.10959).
std::unique_ptr<Model> make_unigram(const PieceTable& pieces, UnigramOptions options);

}  // namespace met::text
