#include "text/reasoning/think_parser.h"

#include <algorithm>
#include <utility>

#include "text/machine/answer_sink.h"
#include "text/tools/scan_parser.h"
#include "text/tools/tool_set.h"

namespace met::text {
namespace {

constexpr std::size_t kOpen = 0;
constexpr std::size_t kClose = 1;

class ThinkParser final : public ChannelParser {
 public:
  explicit ThinkParser(const ChannelOptions& options)
      : open_(reasoning_markers(options.format)[kOpen]),
        close_(reasoning_markers(options.format)[kClose]),
        scan_open_(options.as_tokens.empty() || !options.as_tokens[kOpen]),
        scan_close_(options.as_tokens.empty() || !options.as_tokens[kClose]),
        has_header_(options.format == ReasoningFormat::kGemma4),
        state_(options.start == ReasoningStart::kOpen     ? State::kReasoning
               : options.start == ReasoningStart::kClosed ? State::kContent
                                                          : State::kStart) {}

  void text(std::string_view bytes, ChannelOutput& out) override {
    held_ += bytes;
    run(/*ended=*/false, out);
  }

  void marker(std::size_t which, ChannelOutput& out) override {
    run(/*ended=*/true, out);  // a token cannot go on what is held
    if (which == kOpen && may_open()) return open();
    if (which == kClose && state_ == State::kStart) return leave();
    if (which == kClose && state_ != State::kContent) return close(out);
    std::string text(which == kOpen ? open_ : close_);
    give(text, out);
  }

  void finish(bool, ChannelOutput& out) override {
    run(/*ended=*/true, out);
    out.content(std::exchange(held_, {}));  // blanks alone
  }

  bool in_reasoning() const override { return state_ == State::kReasoning || state_ == State::kHeader; }

 private:
  enum class State { kStart, kHeader, kReasoning, kContent };

  bool may_open() const { return state_ == State::kStart || (state_ == State::kContent && has_header_); }

  void open() {
    state_ = has_header_ ? State::kHeader : State::kReasoning;
    held_.clear();
  }
  void leave() {
    state_ = State::kContent;
    held_.clear();
  }
  void close(ChannelOutput& out) {
    out.close_reasoning();
    leave();
  }
  void give(std::string_view text, ChannelOutput& out) {
    if (state_ == State::kStart) state_ = State::kContent;
    if (in_reasoning())
      out.reasoning(text);
    else
      out.content(text);
  }

  /// Gives what is decided of `held_`. After the end only blanks that may precede a block stay.
  void run(bool ended, ChannelOutput& out) {
    while (!held_.empty() && step(ended, out)) {
    }
  }

  bool step(bool ended, ChannelOutput& out) {
    switch (state_) {
      case State::kStart: {
        const std::size_t at = held_.find_first_not_of(kBlanks);
        if (at == std::string::npos) return false;
        const std::string_view rest = std::string_view(held_).substr(at);
        if (scan_open_ && rest.starts_with(open_)) {
          const std::string after(rest.substr(open_.size()));
          open();
          held_ = after;
          return true;
        }
        if (scan_open_ && !ended && open_.starts_with(rest)) return false;
        state_ = State::kContent;
        return true;
      }
      case State::kHeader: {
        const std::size_t line = held_.find('\n');
        const std::size_t close = scan_close_ ? held_.find(close_) : std::string::npos;
        if (line < close) {
          state_ = trim_blanks(std::string_view(held_).substr(0, line)) == "thought" ? State::kReasoning
                                                                                     : State::kContent;
          held_.erase(0, line + 1);
          return true;
        }
        if (close == std::string::npos && !ended) return false;
        // A channel of one line: its name, where it has one, is no part of it.
        state_ = State::kReasoning;
        const std::size_t name = held_.find_first_not_of(kBlanks);
        if (std::string_view(held_).substr(std::min(name, held_.size())).starts_with("thought"))
          held_.erase(0, name + std::string_view("thought").size());
        return true;
      }
      case State::kReasoning:
        return pass(scan_close_, close_, ended, out);
      case State::kContent:
        return pass(scan_open_ && has_header_, open_, ended, out);
    }
    return false;
  }

  bool pass(bool scan, std::string_view marker, bool ended, ChannelOutput& out) {
    int which = -1;
    const std::size_t at = scan ? find_marker(held_, {&marker, 1}, ended, which) : held_.size();
    if (at > 0) give(std::string_view(held_).substr(0, at), out);
    held_.erase(0, at);
    if (which < 0) return false;
    std::string after = held_.substr(marker.size());
    if (state_ == State::kReasoning)
      close(out);
    else
      open();
    held_ = std::move(after);
    return true;
  }

  std::string_view open_;
  std::string_view close_;
  bool scan_open_;
  bool scan_close_;
  bool has_header_;
  State state_;
  std::string held_;
};

}  // namespace

std::unique_ptr<ChannelParser> make_think_parser(const ChannelOptions& options) {
  return std::make_unique<ThinkParser>(options);
}

}  // namespace met::text
