// Normalisers of tokenizer.json.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "text/tokenizer/marked_text.h"

namespace met::text {

/// Rewrites a text before it is split. Immutable.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// `text` is valid UTF-8 and not empty; so is the result, which may be empty.
  virtual void apply(MarkedText& text) const = 0;
  /// Most bytes that one byte may become by declared replacements.
  virtual double growth() const { return 1; }
};

/// From the member "normalizer"; nullptr for null. Errors: kUnsupported or kInvalidArgument naming the
/// member.
Result<std::unique_ptr<Normalizer>> make_normalizer(const json::Value& declaration);

/// Unicode normal form C alone, as GGUF vocabularies of Qwen imply it.
std::unique_ptr<Normalizer> make_nfc();
/// `Prepend` of `prefix` (when not empty) and then every blank becomes U+2581.
std::unique_ptr<Normalizer> make_escape_blanks(bool prepend);
/// Runs of blanks become one, those at the ends go.
std::unique_ptr<Normalizer> make_trim_blanks();
/// BERT's: clean, space ideographs, strip accents, lower case.
std::unique_ptr<Normalizer> make_bert();
/// SentencePiece's compiled rules. Errors: kInvalidArgument, field "precompiled_charsmap".
Result<std::unique_ptr<Normalizer>> make_precompiled(std::string blob);
/// Several in a row.
std::unique_ptr<Normalizer> make_sequence(std::vector<std::unique_ptr<Normalizer>> steps);

}  // namespace met::text
