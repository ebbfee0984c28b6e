// A call written as a JSON object: {"name": …, "arguments": {…}}.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "text/tools/json_passer.h"
#include "text/tools/tool_parser.h"

namespace met::text {

/// Reads one object that may be a call. Keys come in any order; "parameters" is "arguments"; the pair may stand
/// inside "function"; arguments may be JSON text in a string; absent and null arguments are {}. Arguments pass
/// as they come once the name is known.
class JsonCall {
 public:
  enum class Status {
    kMore,
    kDone,    ///< the object is complete, and it was a call
    kNoCall,  ///< it is no call: `raw()` is its text so far
    kBroken,  ///< its syntax broke after the call began; the call was ended
  };
  struct Rules {
    const ToolSet* tools = nullptr;
    /// A name alone makes a call. Else it must be a tool's, or arguments must be there, and no key but those of
    /// calls may be.
    bool name_suffices = true;
    std::string_view stop;  ///< markup that ends the object outside of its strings
  };

  explicit JsonCall(const Rules& rules) : rules_(rules) {}

  /// Takes bytes from the object's "{" on; returns how many. Fewer than all: it has ended, or it waits for more
  /// bytes of `stop`.
  std::size_t push(std::string_view text, bool ended, AnswerSink& out);
  /// The output has ended inside the object. False: it was no call yet, `raw()` is its text.
  bool finish(bool cut, AnswerSink& out);

  Status status() const { return status_; }
  /// All bytes taken while it was no call.
  const std::string& raw() const { return raw_; }

 private:
  enum class State { kStart, kKeyOrEnd, kKey, kColon, kValue, kName, kSkip, kArguments, kText, kCommaOrEnd };
  void take(char c, AnswerSink& out);
  void begin_value(char c, AnswerSink& out);
  void argument_bytes(std::string_view bytes, AnswerSink& out);
  void take_text(char c, AnswerSink& out);
  void end_arguments(AnswerSink& out);
  void close_object(AnswerSink& out);
  void try_begin(AnswerSink& out);
  void fail(AnswerSink& out);

  Rules rules_;
  Status status_ = Status::kMore;
  State state_ = State::kStart;
  bool nested_ = false;  // inside "function"
  std::string raw_;
  std::string text_;  // of the key or the name, quotes included
  std::string key_;
  std::string name_;
  std::string arguments_;  // before the call began, or a scalar
  JsonPasser passer_;
  bool escaped_ = false;     // in text_
  std::string text_escape_;  // of arguments in a string: an escape that is not whole
  bool scalar_ = false;      // the arguments are no object, array or string
  bool has_arguments_ = false;
  bool given_ = false;  // the arguments have a byte
  bool arguments_done_ = false;
  bool begun_ = false;
};

}  // namespace met::text
