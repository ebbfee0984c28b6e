// What parsers of markup share: a window on the bytes that are not decided yet.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "text/tools/tool_parser.h"

namespace met::text {

/// A parser as a state machine that is asked again and again for one step on `rest()`. A step decides by bytes
/// that no further byte can make mean something else; so what it gives does not depend on the cuts. It takes
/// what it has decided, so that the window stays as short as the longest marker.
class ScanParser : public ToolParser {
 public:
  void push(std::string_view bytes, AnswerSink& out) final;
  void finish(bool cut, AnswerSink& out) final;

 protected:
  enum class Match { kNo, kMaybe, kYes };
  struct Found {
    std::size_t at;  ///< bytes before it; without one, the bytes that cannot begin one
    int which = -1;  ///< index of the marker
  };

  /// One step; false: more bytes are needed.
  virtual bool step(AnswerSink& out) = 0;
  /// After the last step at the end of the output: `rest()` is what no step took.
  virtual void close(bool cut, AnswerSink& out) = 0;

  std::string_view rest() const { return std::string_view(buffer_).substr(position_); }
  void skip(std::size_t count) { position_ += count; }
  bool ended() const { return ended_; }
  /// Whether `rest()` from `at` on begins with `marker`; kMaybe: it could, with more bytes.
  Match match(std::string_view marker, std::size_t at = 0) const;
  /// The first place where one of `markers` begins. After the end nothing is held back for a beginning.
  Found find(std::span<const std::string_view> markers) const;
  /// Gives what is before the first of `markers` to `out` as content. Its index; -1: none is there yet.
  int text_until(std::span<const std::string_view> markers, AnswerSink& out);
  /// Number of blanks in `rest()` from `at` on, kBlanksMax at most: a longer run ends in a blank and so before no
  /// markup.
  std::size_t blanks(std::size_t at = 0) const;
  void skip_blanks();
  /// The output ended, and `rest()` from `at` on is a beginning of `marker`: it is markup, not text.
  bool is_tail(std::string_view marker, std::size_t at = 0) const;

  /// More blanks than any model writes inside markup.
  static constexpr std::size_t kBlanksMax = 256;
  static constexpr std::size_t kNameBytesMax = 256;

 private:
  std::string buffer_;
  std::size_t position_ = 0;
  bool ended_ = false;
};

/// As ScanParser::find, over any text.
std::size_t find_marker(std::string_view text, std::span<const std::string_view> markers, bool ended,
                        int& which);

/// Letters, digits and "_.-:/": what the name of a function may consist of.
bool is_name(std::string_view text);
bool is_name_byte(char c);

}  // namespace met::text
