#include "text/machine/answer_sink.h"

#include <algorithm>
#include <utility>

namespace met::text {
namespace {

/// `text` without the whole lines of blanks at its head; `first` is its first byte that is no blank.
std::string_view without_blank_lines(std::string_view text, std::size_t first) {
  const std::size_t line = text.substr(0, first).rfind('\n');
  return line == std::string_view::npos ? text : text.substr(line + 1);
}

}  // namespace

void AnswerSink::add(Piece::Kind kind, std::string_view text) {
  if (pieces_.empty() || pieces_.back().kind != kind || kind == Piece::Kind::kCallBegin)
    pieces_.push_back({.kind = kind, .text = {}, .call = std::max(calls_ - 1, 0)});
  pieces_.back().text += text;
}

void AnswerSink::leave_reasoning() {
  if (in_reasoning_) before_ = Before::kReasoning;
  in_reasoning_ = false;
  reasoning_blanks_.clear();
}

void AnswerSink::content(std::string_view text) {
  if (text.empty()) return;
  leave_reasoning();
  if (before_ == Before::kContent) return add(Piece::Kind::kContent, text);
  const std::size_t seen = blanks_.size();
  blanks_ += text;
  const std::size_t first = blanks_.find_first_not_of(kBlanks, seen);
  if (first == std::string::npos) return;
  const std::string_view all = blanks_;
  add(Piece::Kind::kContent, before_ == Before::kReasoning ? without_blank_lines(all, first) : all);
  blanks_.clear();
  before_ = Before::kContent;
}

void AnswerSink::reasoning(std::string_view text) {
  if (text.empty()) return;
  blanks_.clear();
  before_ = Before::kReasoning;
  const std::size_t seen = reasoning_blanks_.size();
  reasoning_blanks_ += text;
  std::size_t last = text.find_last_not_of(kBlanks);
  if (last == std::string_view::npos) return;
  last += seen;
  std::string_view given = std::string_view(reasoning_blanks_).substr(0, last + 1);
  if (!in_reasoning_) given = without_blank_lines(given, reasoning_blanks_.find_first_not_of(kBlanks, seen));
  add(Piece::Kind::kReasoning, given);
  reasoning_blanks_.erase(0, last + 1);
  in_reasoning_ = true;
}

void AnswerSink::begin_call(std::string_view name) {
  leave_reasoning();
  blanks_.clear();
  ++calls_;
  in_call_ = true;
  add(Piece::Kind::kCallBegin, name);
}

void AnswerSink::arguments(std::string_view text) {
  if (!text.empty()) add(Piece::Kind::kCallArguments, text);
}

void AnswerSink::end_call(bool complete) {
  add(Piece::Kind::kCallEnd, {});
  pieces_.back().complete = complete;
  in_call_ = false;
  before_ = Before::kCall;
}

void AnswerSink::finish() {
  reasoning_blanks_.clear();
  if (before_ == Before::kNothing && !blanks_.empty()) add(Piece::Kind::kContent, blanks_);
  blanks_.clear();
}

std::vector<Piece> AnswerSink::take() { return std::exchange(pieces_, {}); }

}  // namespace met::text
