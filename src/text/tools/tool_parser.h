// Tool calls in a model's output.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "text/machine/answer_sink.h"
#include "text/tools/tool_set.h"

namespace met::text {

/// The ways in which models write calls. Each is described at the head of the file that parses it.
enum class ToolFormat {
  kNone,  ///< the model writes no calls: all text is content
  kHermes,
  kQwen3Coder,
  kQwen3Xml,
  kGemma4,
  kMistral,
  kMinimaxXml,
  kBareJson,
  kPoolsideV1,
  kGlm47,
  kDeepseek,
  kHarmony,  ///< parsed together with its channels, see reasoning/harmony.h
  kLlama3Json,
  kPythonic,
};

/// "hermes" and so on; "none".
std::string_view name(ToolFormat format);
std::optional<ToolFormat> tool_format(std::string_view name);
/// All names but "none", parted by ", ".
std::string tool_format_names();
/// The format that models of this type were trained on; none for types that are not known.
ToolFormat tool_format_of_model(std::string_view model_type);

/// The format that a chat template shows its model; none where it shows none that we know.
ToolFormat tool_format_of_template(std::string_view chat_template);

/// Finds calls in text that comes in pieces of any size. What it gives does not depend on the cuts. A name that
/// is no tool's is passed on. Malformed markup gives text or a call whose arguments are no whole object, never
/// an error. Memory: the text of one call at most. Used from one thread at a time.
class ToolParser {
 public:
  virtual ~ToolParser() = default;
  virtual void push(std::string_view bytes, AnswerSink& out) = 0;
  /// The end of the output. `cut`: by a limit, not by the model. A call whose name is not known yet is dropped
  /// when cut and else given as text.
  virtual void finish(bool cut, AnswerSink& out) = 0;
};

/// nullptr for kNone and kHarmony.
std::unique_ptr<ToolParser> make_tool_parser(ToolFormat format, std::shared_ptr<const ToolSet> tools);

/// Texts that begin a call anywhere in the output; empty where a call can only begin the content.
std::span<const std::string_view> tool_openers(ToolFormat format);
/// Tokens that the format's markup may consist of: they must reach the parser as text even where special tokens
/// give none.
std::span<const std::string_view> tool_tokens(ToolFormat format);

}  // namespace met::text
