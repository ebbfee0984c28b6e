#include "grammar/engine.h"

#include <xgrammar/grammar.h>

#include <algorithm>
#include <exception>
#include <utility>
#include <variant>

#include "core/concat.h"
#include "grammar/meter.h"

namespace met::grammar {
namespace {

thread_local std::optional<std::string> warning;

constexpr int kLevelWarning = 2;

/// The tokens that are text; the others are empty.
std::vector<std::string> texts(const Vocabulary& vocabulary, const std::vector<std::int32_t>& textual) {
  std::vector<std::string> tokens = vocabulary.tokens;
  for (const std::int32_t id : vocabulary.special)
    if (!std::ranges::binary_search(textual, id)) tokens[static_cast<std::size_t>(id)].clear();
  return tokens;
}

xgrammar::TokenizerInfo tokenizer_info(const Vocabulary& vocabulary,
                                       const std::vector<std::int32_t>& textual) {
  return xgrammar::TokenizerInfo(texts(vocabulary, textual), xgrammar::VocabType::RAW,
                                 static_cast<int>(vocabulary.width), vocabulary.end_ids);
}

std::shared_ptr<const StringMasks> string_masks(const Vocabulary& vocabulary,
                                                const std::vector<std::int32_t>& textual) {
  std::vector<std::string> tokens = texts(vocabulary, textual);
  for (const std::int32_t id : vocabulary.end_ids) tokens[static_cast<std::size_t>(id)].clear();
  return std::make_shared<const StringMasks>(std::move(tokens), vocabulary.width);
}

xgrammar::Grammar parse(const Source& source, const xgrammar::TokenizerInfo& tokens) {
  if (!source.structural_tag) return xgrammar::Grammar::FromEBNF(source.text);
  auto parsed = xgrammar::Grammar::FromStructuralTag(source.text, tokens);
  if (auto* grammar = std::get_if<xgrammar::Grammar>(&parsed)) return *grammar;
  const auto sentence = [](const auto& error) { return std::string(error.what()); };
  throw xgrammar::XGrammarError(std::visit(sentence, std::get<xgrammar::StructuralTagError>(parsed)));
}

}  // namespace

std::optional<std::string> take_engine_warning() { return std::exchange(warning, std::nullopt); }

Engine::Engine(const Vocabulary& vocabulary, const std::vector<std::int32_t>& textual)
    : tokens_(tokenizer_info(vocabulary, textual)), strings_(string_masks(vocabulary, textual)) {}

Result<Engine::Compiled> Engine::compile(const Source& source, const Limits& limits) const {
  take_engine_warning();
  try {
    Compiled out;
    {
      const Budget budget(limits.compile_ms * 1000, limits.compile_bytes);
      xgrammar::GrammarCompiler compiler(tokens_, 1, false);
      out.grammar = compiler.CompileGrammar(parse(source, tokens_));
    }
    if (const auto ignored = take_engine_warning()) return unsupported("", *ignored);
    if (source.marked) out.strings = strings_;
    out.bytes = out.grammar.MemorySizeBytes();
    return out;
  } catch (const OverBudget& over) {
    return unsupported("", over.of_memory
                               ? concat("it takes more than ", limits.compile_bytes >> 20U, " MB to compile")
                               : concat("it takes more than ", limits.compile_ms, " ms to compile"));
  } catch (const std::exception& error) {
    return invalid("", error.what());
  }
}

}  // namespace met::grammar

// The engine's log, as its build was told (XGRAMMAR_LOG_CUSTOMIZE).
namespace xgrammar {

[[noreturn]] void LogFatalImpl(const std::string& /*file*/, int /*line*/, const std::string& message);
void LogMessageImpl(const std::string& /*file*/, int /*line*/, int level, const std::string& message);

void LogFatalImpl(const std::string& /*file*/, int /*line*/, const std::string& message) {
  throw XGrammarError(message);
}

void LogMessageImpl(const std::string& /*file*/, int /*line*/, int level, const std::string& message) {
  if (level == met::grammar::kLevelWarning && !met::grammar::warning) met::grammar::warning = message;
}

}  // namespace xgrammar
