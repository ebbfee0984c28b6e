// The vocabulary of a GGUF file ("tokenizer.ggml.*"), apart from the container.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "formats/gguf.h"
#include "text/tokenizer/tokenizer.h"

namespace met::text {

/// Kinds of tokens, numbered as in the file.
enum class GgufTokenType : std::int32_t {
  kNormal = 1,
  kUnknown = 2,
  kControl = 3,
  kUserDefined = 4,
  kUnused = 5,
  kByte = 6,
};

/// Views point into the file or whatever else the caller keeps.
struct GgufVocabulary {
  std::string
      model;  ///< "gpt2" (byte-level BPE), "llama" (SentencePiece BPE), "t5" (Unigram), "bert", "gemma4"
  std::string pre;  ///< name of the pre-tokeniser of a gpt2 model, empty when absent
  std::vector<std::string_view> tokens;
  std::vector<float> scores;        ///< empty, or one a token
  std::vector<std::int32_t> types;  ///< empty, or one a token
  std::vector<std::string_view> merges;
  std::optional<std::int64_t> bos, eos, eot, eom, unknown, padding, separator, classifier;
  std::optional<bool> add_bos, add_eos, add_separator, add_space_prefix, remove_extra_spaces;
  std::string charsmap;  ///< SentencePiece's compiled normalisation rules

  /// Errors: kDataLoss naming the key: wrong kinds, lists of unequal length, no tokens.
  static Result<GgufVocabulary> read(const formats::GgufFile& file);
};

/// How a gpt2 model's text is cut.
struct GgufPreTokenizer {
  std::span<const std::string_view> patterns;  ///< applied one after another, matches isolated
  bool ignore_merges = false;
  bool nfc = false;
  bool add_bos = false;  ///< when the file does not say
};
/// The pre-tokeniser that files call `name`, or nullptr.
const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name);

}  // namespace met::text
