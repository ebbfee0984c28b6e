// OpenAI's custom tools: the model writes a text, not an object. For the model it is a function with one parameter,
// {"input": text}; clients see the text alone.
#pragma once

#include <string>
#include <string_view>

#include "core/error.h"
#include "core/json.h"
#include "text/tools/tool.h"

namespace met::api {

/// `definition` is {"name", "description", "format"}, `format` {"type": "text"} or {"type": "grammar", "grammar":
/// {"syntax": "regex", "definition"}} (Responses: syntax and definition beside the type). A regex is enforced on every
/// call. Errors, naming `field` and the place: kUnsupported for the syntax lark, which cannot be said inside of a JSON
/// string. The name is not checked here.
Result<text::Tool> read_custom_tool(std::string_view field, const json::Value& definition,
                                    const std::string& place);

/// The arguments by which the function takes an input: {"input": …}.
json::Value custom_arguments(std::string_view input);

/// The input out of the JSON text of such arguments, as it comes. Arguments of another form, which a model may
/// write where nothing holds it, are the input as they are.
class CustomInput {
 public:
  /// What more of the input is known; whole code points.
  std::string push(std::string_view arguments);
  /// What was held back: at the end of the call.
  std::string finish();

 private:
  enum class State { kBegin, kString, kAfter, kRaw };
  void take_escape(std::string& out);

  State state_ = State::kBegin;
  std::string held_;  // kBegin: all so far; kString: an escape that has not ended
};

}  // namespace met::api
