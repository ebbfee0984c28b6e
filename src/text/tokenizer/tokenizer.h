// Text to token ids and back, for one model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "text/byte_range.h"

namespace met::text {

using TokenId = std::int32_t;

/// Which added tokens a text may contain.
enum class AddedTokens {
  kAll,        ///< all, special ones in trusted bytes only
  kUnflagged,  ///< those that are not special: special ones are ordinary text everywhere
  kNone,       ///< none: every byte is ordinary text
};

struct EncodeOptions {
  bool add_special = false;  ///< add what the post-processor adds: BOS, EOS, [CLS], ...
  AddedTokens added = AddedTokens::kAll;
  /// Bytes that a user wrote, ascending and disjoint. No special token matches a byte of them; everything
  /// else is as if they were the template's.
  std::span<const ByteRange> untrusted = {};
};

struct GgufVocabulary;
class TokenizerState;

/// An immutable tokenizer; all members may be called from many threads at once.
class Tokenizer {
 public:
  /// From the text of tokenizer.json and, when given, of tokenizer_config.json (BOS, EOS, further added
  /// tokens). Errors: kInvalidArgument or kUnsupported, naming the member.
  static Result<Tokenizer> from_json(std::string_view tokenizer_json, std::string_view tokenizer_config = {});
  /// From a folder that holds tokenizer.json and perhaps tokenizer_config.json. Errors also: kNotFound, kIo.
  static Result<Tokenizer> from_folder(const std::filesystem::path& folder);
  /// From the vocabulary of a GGUF file. Errors: kDataLoss or kUnsupported, naming the metadata key.
  static Result<Tokenizer> from_gguf(const GgufVocabulary& vocabulary);

  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;
  ~Tokenizer();

  /// Ids of `text`. Invalid UTF-8 becomes U+FFFD. Time O(n log n), memory O(n) in the text.
  std::vector<TokenId> encode(std::string_view text, const EncodeOptions& options = {}) const;

  /// Text of `ids` by the tokenizer's own decoder, which may drop a leading space; ids outside the vocabulary
  /// give nothing. `skip_special` drops special tokens.
  std::string decode(std::span<const TokenId> ids, bool skip_special = false) const;

  /// Bytes that the token adds to a stream; empty for an id outside the vocabulary. Lives as long as this.
  std::string_view token_bytes(TokenId id) const;
  /// The token as the vocabulary spells it ("Ġthe", "<0x0A>"), empty outside the vocabulary.
  std::string piece(TokenId id) const;
  /// The token that the vocabulary spells so.
  std::optional<TokenId> find(std::string_view piece) const;
  /// Flagged special, or a control token of a GGUF vocabulary.
  bool is_special(TokenId id) const;
  /// One more than the highest id.
  std::size_t vocabulary_size() const;

  std::optional<TokenId> bos() const;
  std::optional<TokenId> eos() const;
  std::optional<TokenId> unknown() const;
  std::optional<TokenId> padding() const;
  /// Ids that end a turn besides eos, as a GGUF vocabulary names them (eot, eom); sorted.
  std::span<const TokenId> end_of_generation() const;

 private:
  explicit Tokenizer(std::unique_ptr<TokenizerState> state);
  std::unique_ptr<TokenizerState> state_;
};

}  // namespace met::text
