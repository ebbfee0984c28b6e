#include "text/machine/answer_parser.h"

#include <algorithm>
#include <utility>

#include "text/tools/scan_parser.h"

namespace met::text {

AnswerParser::AnswerParser(const AnswerFormat& format, std::vector<bool> as_tokens) : format_(format) {
  const bool has_tools = format.tools != nullptr && !format.tools->empty();
  channels_ = make_channel_parser({.format = format.reasoning,
                                   .start = format.start,
                                   .harmony_header = format.harmony_header,
                                   .as_tokens = std::move(as_tokens),
                                   .has_tools = has_tools});
  if (has_tools) tools_ = make_tool_parser(format.tool_format, format.tools);
}

void AnswerParser::text(std::string_view bytes) {
  if (channels_ == nullptr)
    content(bytes);
  else
    channels_->text(bytes, *this);
}

void AnswerParser::marker(std::size_t which) { channels_->marker(which, *this); }

void AnswerParser::finish(bool cut) {
  if (channels_ != nullptr) channels_->finish(cut, *this);
  if (!pending_.empty()) {
    if (trial_ != nullptr && !cut) trial_->finish(cut, trial_sink_);
    if (cut || !deliver_trial()) close_reasoning();
  }
  if (tools_ != nullptr) tools_->finish(cut, sink_);
  sink_.finish();
}

void AnswerParser::content(std::string_view text) {
  if (text.empty()) return;
  if (tools_ == nullptr)
    sink_.content(text);
  else
    tools_->push(text, sink_);
}

void AnswerParser::reasoning(std::string_view text) {
  const auto openers = tool_openers(format_.tool_format);
  if (tools_ == nullptr || openers.empty()) return sink_.reasoning(text);
  pending_ += text;
  while (!pending_.empty()) {
    if (trial_ == nullptr) {
      int which = -1;
      const std::size_t at = find_marker(pending_, openers, /*ended=*/false, which);
      sink_.reasoning(std::string_view(pending_).substr(0, at));
      pending_.erase(0, at);
      if (which < 0) return;
      trial_ = make_tool_parser(format_.tool_format, format_.tools);
      trial_sink_ = {};
      trial_pieces_.clear();
      tried_ = 0;
    }
    try_call();
    if (trial_ != nullptr) return;
  }
}

/// Goes on with the trial; text besides calls ends it, and all was reasoning but for the last byte, which may
/// begin another marker.
void AnswerParser::try_call() {
  while (tried_ < pending_.size()) {
    trial_->push(std::string_view(pending_).substr(tried_++, 1), trial_sink_);
    std::ranges::move(trial_sink_.take(), std::back_inserter(trial_pieces_));
    if (std::ranges::none_of(trial_pieces_, [](const Piece& p) { return p.kind == Piece::Kind::kContent; }))
      continue;
    const std::size_t given = std::max<std::size_t>(tried_ - 1, 1);
    sink_.reasoning(std::string_view(pending_).substr(0, given));
    pending_.erase(0, given);
    trial_.reset();
    return;
  }
}

/// False: the trial holds no call, or more than calls.
bool AnswerParser::deliver_trial() {
  if (trial_ == nullptr) return false;
  std::ranges::move(trial_sink_.take(), std::back_inserter(trial_pieces_));
  const bool only_calls =
      !trial_pieces_.empty() && std::ranges::none_of(trial_pieces_, [](const Piece& piece) {
        return piece.kind == Piece::Kind::kContent;
      });
  if (!only_calls) return false;
  for (const Piece& piece : trial_pieces_) {
    if (piece.kind == Piece::Kind::kCallBegin) sink_.begin_call(piece.text);
    if (piece.kind == Piece::Kind::kCallArguments) sink_.arguments(piece.text);
    if (piece.kind == Piece::Kind::kCallEnd) sink_.end_call(piece.complete);
  }
  trial_.reset();
  pending_.clear();
  return true;
}

void AnswerParser::close_reasoning() {
  sink_.reasoning(pending_);
  pending_.clear();
  trial_.reset();
}

}  // namespace met::text
