// Text that must match: from a Spec to masks over one model's vocabulary. The one interface over the grammar
// engine; docs/grammar.md says which part of each notation is enforced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "grammar/spec.h"
#include "sampling/constraint.h"

namespace met::grammar {

/// A model's tokens as bytes.
struct Vocabulary {
  std::vector<std::string> tokens;  ///< what each id adds to a text; empty: nothing ever emits it
  std::vector<std::int32_t>
      special;  ///< ids that are no text, whatever they spell; a structural tag that names
                ///< what one spells makes it text there
  std::vector<std::int32_t> end_ids;  ///< end the output; allowed exactly when the grammar may end
  std::size_t width = 0;              ///< logits of a row; ids from tokens.size() on are never allowed
};

/// What one compilation and one mask may take. Exceeding one is an error of that request alone.
struct Limits {
  std::int64_t compile_ms = 900;          ///< CPU time of the compiling thread
  std::size_t compile_bytes = 96U << 20;  ///< memory allocated and not given back
  std::size_t spec_bytes = 1U << 20;      ///< of the notation as text
  std::int64_t mask_ms = 100;             ///< CPU time of one mask or one accepted token
  std::size_t mask_bytes = 16U << 20;     ///< what one of them may add to a sequence's state
  std::size_t cache_bytes = 64U << 20;    ///< compiled grammars that are kept
};

/// Compiles grammars for one model and keeps them. All members may be called from many threads at once.
class Compiler {
 public:
  /// `vocabulary` is called once, by the first compilation.
  explicit Compiler(std::function<Vocabulary()> vocabulary, const Limits& limits = {});
  ~Compiler();
  Compiler(const Compiler&) = delete;
  Compiler& operator=(const Compiler&) = delete;

  /// Takes up to limits.compile_ms: not for the engine's thread. `more_end_ids` end the output like the
  /// vocabulary's (stop_token_ids). Errors have spec.field and name the place
  /// below it: kInvalidArgument for a text that is no grammar or
  /// that nothing can match, kUnsupported for a keyword that is not enforced and for a limit.
  Result<std::shared_ptr<const sampling::Constraint>> compile(
      const Spec& spec, const Start& start = {}, const std::vector<std::int32_t>& more_end_ids = {});

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace met::grammar
