// Where parsers put what they find.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/machine/piece.h"

namespace met::text {

/// Collects pieces; neighbours of equal kind are joined. Blanks around markup are no text: those that only part
/// a call from the next or from the end, and those at both ends of the reasoning. Blank lines between the
/// reasoning and the content are dropped; blanks before text that follows a call are kept. What it gives does
/// not depend on how the text was cut. Names and arguments are passed as they are.
class AnswerSink {
 public:
  void content(std::string_view text);
  void reasoning(std::string_view text);
  void begin_call(std::string_view name);
  void arguments(std::string_view text);
  /// `complete`: the arguments given are one JSON object.
  void end_call(bool complete);
  /// The answer has ended: gives the blanks of an answer that is nothing else.
  void finish();

  bool in_call() const { return in_call_; }
  int calls() const { return calls_; }
  /// What has come since the last call of this function, without ranges of ids.
  std::vector<Piece> take();

 private:
  enum class Before { kNothing, kReasoning, kCall, kContent };
  void add(Piece::Kind kind, std::string_view text);
  void leave_reasoning();

  std::vector<Piece> pieces_;
  Before before_ = Before::kNothing;
  std::string blanks_;            // of content, until it is known what follows
  std::string reasoning_blanks_;  // the same of reasoning
  bool in_reasoning_ = false;     // some of its text was given
  bool in_call_ = false;
  int calls_ = 0;
};

/// Blanks of markup: space, tab, line feed, carriage return.
inline constexpr std::string_view kBlanks = " \t\r\n";

}  // namespace met::text
