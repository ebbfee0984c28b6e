// From an answer's text to its parts: channels first, then tool calls in the content.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/machine/answer_sink.h"
#include "text/reasoning/reasoning.h"
#include "text/tools/tool_parser.h"

namespace met::text {

/// How one request's answer is read.
struct AnswerFormat {
  ReasoningFormat reasoning = ReasoningFormat::kNone;
  ReasoningStart start = ReasoningStart::kAbsent;
  std::string harmony_header;
  ToolFormat tool_format = ToolFormat::kNone;
  std::shared_ptr<const ToolSet> tools;  ///< none or empty: calls are text
  int calls_max = 0;                     ///< the answer ends behind that many calls; 0: no bound

  /// All text is content as it is.
  bool is_plain() const {
    return reasoning == ReasoningFormat::kNone &&
           (tools == nullptr || tools->empty() || tool_format == ToolFormat::kNone);
  }
};

/// Gives the same parts however the text is cut. A call inside a block of reasoning that is closed is reasoning;
/// where the model ends the answer right behind the call without closing the block, it is a call.
class AnswerParser final : private ChannelOutput {
 public:
  /// `as_tokens`: see ChannelOptions.
  explicit AnswerParser(const AnswerFormat& format, std::vector<bool> as_tokens = {});

  void text(std::string_view bytes);
  /// A marker of reasoning_markers() that came as a token.
  void marker(std::size_t which);
  /// The end of the output. `cut`: by a limit, not by the model.
  void finish(bool cut);

  std::vector<Piece> take() { return sink_.take(); }
  bool in_reasoning() const { return channels_ != nullptr && channels_->in_reasoning(); }
  bool in_call() const { return sink_.in_call(); }

 private:
  void reasoning(std::string_view text) override;
  void close_reasoning() override;
  void content(std::string_view text) override;
  void begin_call(std::string_view name) override { sink_.begin_call(name); }
  void arguments(std::string_view text) override { sink_.arguments(text); }
  void end_call(bool complete) override { sink_.end_call(complete); }
  void try_call();
  bool deliver_trial();

  AnswerFormat format_;
  AnswerSink sink_;
  std::unique_ptr<ChannelParser> channels_;
  std::unique_ptr<ToolParser> tools_;
  // Reasoning that may be a call: text from an opening marker on, and what a parser makes of it.
  std::string pending_;
  std::size_t tried_ = 0;
  std::unique_ptr<ToolParser> trial_;
  AnswerSink trial_sink_;
  std::vector<Piece> trial_pieces_;
};

}  // namespace met::text
