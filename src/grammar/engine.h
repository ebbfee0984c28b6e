// The grammar engine behind this folder's types: nothing else includes its headers.
#pragma once

#include <xgrammar/compiler.h>
#include <xgrammar/tokenizer_info.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "grammar/grammar.h"
#include "grammar/notation.h"
#include "grammar/string_masks.h"

namespace met::grammar {

/// A vocabulary as the engine sees it, with `textual` special ids taken as text. Used from many threads.
class Engine {
 public:
  Engine(const Vocabulary& vocabulary, const std::vector<std::int32_t>& textual);

  struct Compiled {
    xgrammar::CompiledGrammar grammar{xgrammar::NullObj{}};
    std::shared_ptr<const StringMasks> strings;  ///< where the source's marks tell of strings, else null
    std::size_t bytes = 0;
  };
  /// Within the limits. Errors: kInvalidArgument with the engine's own sentence, kUnsupported for a limit or for
  /// something that the engine would have ignored.
  Result<Compiled> compile(const Source& source, const Limits& limits) const;

 private:
  xgrammar::TokenizerInfo tokens_;
  std::shared_ptr<const StringMasks> strings_;
};

/// Warnings of the engine on this thread since the last call: it tells so of what it does not enforce.
std::optional<std::string> take_engine_warning();

/// What the constraint of one request shares: immutable.
struct MatcherSource {
  std::shared_ptr<const Vocabulary> vocabulary;
  xgrammar::CompiledGrammar grammar{xgrammar::NullObj{}};
  std::shared_ptr<const StringMasks> strings;  ///< as Engine::Compiled says
  Start start;
  std::vector<std::int32_t> more_end_ids;
  Limits limits;
};
std::shared_ptr<const sampling::Constraint> make_constraint(MatcherSource source);

}  // namespace met::grammar
