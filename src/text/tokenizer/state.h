// What a tokenizer consists of; filled by the loaders, then immutable.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer/added_tokens.h"
#include "text/tokenizer/decoder.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/normalizer.h"
#include "text/tokenizer/piece_table.h"
#include "text/tokenizer/pre_tokenizer.h"
#include "text/tokenizer/tokenizer.h"

namespace met::text {

class TokenizerState {
 public:
  PieceTable pieces;    ///< the model's; raw bytes when byte_level
  PieceTable literals;  ///< byte_level only: pieces outside the byte alphabet, which no text reaches
  PieceTable added;     ///< contents of added tokens
  bool byte_level = false;

  AddedMatcher raw_matcher;         ///< in the text as it came
  AddedMatcher normalized_matcher;  ///< in the normalised text
  std::unique_ptr<Normalizer> normalizer;
  std::unique_ptr<PreTokenizer> pre_tokenizer;
  std::unique_ptr<Model> model;
  std::unique_ptr<Decoder> decoder;
  std::vector<TokenId> prefix;  ///< the post-processor's ids before the text
  std::vector<TokenId> suffix;

  std::optional<TokenId> bos, eos, unknown, padding;
  std::vector<TokenId> end_of_generation;

  /// Adds a piece of the model as the vocabulary spells it. Errors: kInvalidArgument, field "vocab".
  Result<> add_piece(std::int64_t id, std::string_view spelled);
  /// Adds a token that is looked for in texts; equal contents keep the first.
  Result<> add_token(AddedToken token);
  /// To be called last: tables that follow from the rest. Errors: kInvalidArgument, field "decoder", when the
  /// decoder makes the vocabulary too long.
  Result<> finish();

  bool is_special(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < special_.size() &&
           special_[static_cast<std::size_t>(id)];
  }
  std::size_t size() const;
  std::string spelled(TokenId id) const;
  TokenId find(std::string_view spelled) const;
  /// As `find`, quick for pieces of the model: for the parts of merges.
  TokenId find_piece(std::string_view spelled) const;
  std::string_view stream_bytes(TokenId id) const;
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options) const;
  std::string decode(std::span<const TokenId> ids, bool skip_special) const;

 private:
  friend class Encoding;
  std::string decoded(TokenId id) const;
  std::vector<bool> special_;
  PieceTable normalized_;     // of added tokens that match in normalised text: the form that decoding gives
  std::string stream_arena_;  // what each id adds to a stream, where that is not its piece
  std::vector<std::uint32_t> stream_offsets_;
};

/// From tokenizer.json, see Tokenizer::from_json.
Result<std::unique_ptr<TokenizerState>> load_tokenizer_json(std::string_view tokenizer,
                                                            std::string_view config);
/// From the vocabulary of a GGUF file, see Tokenizer::from_gguf.
Result<std::unique_ptr<TokenizerState>> load_gguf_vocabulary(const GgufVocabulary& vocabulary);

}  // namespace met::text
