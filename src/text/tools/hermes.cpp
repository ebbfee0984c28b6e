// Hermes: <tool_call>{"name": …, "arguments": {…}}</tool_call>, blanks anywhere outside of the strings.
//
// Several objects or a list may stand in one pair of tags. An opening tag that no "{" follows is text.
#include "text/tools/formats.h"
#include "text/tools/json_call.h"
#include "text/tools/scan_parser.h"

namespace met::text {
namespace {

constexpr std::string_view kOpen = "<tool_call>";
constexpr std::string_view kClose = "</tool_call>";
constexpr std::string_view kOpeners[] = {kOpen};

class Hermes final : public ScanParser {
 public:
  explicit Hermes(std::shared_ptr<const ToolSet> tools) : tools_(std::move(tools)), call_(rules()) {}

 private:
  enum class State { kText, kOpened, kObject, kAfter };

  JsonCall::Rules rules() const { return {.tools = tools_.get(), .name_suffices = true, .stop = kClose}; }

  bool step(AnswerSink& out) override {
    switch (state_) {
      case State::kText: {
        const int which = text_until(kOpeners, out);
        if (which < 0) return false;
        markup_ = kOpen;
        skip(kOpen.size());
        state_ = State::kOpened;
        return true;
      }
      case State::kOpened:
        return opened(out);
      case State::kObject: {
        skip(call_.push(rest(), ended(), out));
        if (call_.status() == JsonCall::Status::kMore) return false;
        if (call_.status() == JsonCall::Status::kNoCall) {
          out.content(markup_ + call_.raw());
          state_ = State::kText;
        } else {
          state_ = State::kAfter;
        }
        return true;
      }
      case State::kAfter:
        return after();
    }
    return false;
  }

  bool opened(AnswerSink& out) {
    const std::size_t at = blanks();
    if (at == rest().size()) return false;
    const char c = at < rest().size() ? rest()[at] : '\0';
    if (c == '[') {
      markup_ += rest().substr(0, at + 1);
      skip(at + 1);
      return true;
    }
    if (c == '{') return begin_object(at);
    out.content(markup_);
    state_ = State::kText;
    return true;
  }

  bool begin_object(std::size_t at) {
    markup_ += rest().substr(0, at);
    skip(at);
    call_ = JsonCall(rules());
    state_ = State::kObject;
    return true;
  }

  bool after() {
    const std::size_t at = blanks();
    if (is_tail(kClose, at)) {
      skip(rest().size());
      return false;
    }
    if (at == rest().size()) return false;
    const Match close = match(kClose, at);
    if (close == Match::kMaybe) return false;
    const char c = at < rest().size() ? rest()[at] : '\0';
    if (close == Match::kYes) {
      skip(at + kClose.size());
      state_ = State::kText;
    } else if (c == '{') {
      markup_.clear();
      return begin_object(at);
    } else if (c == ',' || c == ']') {
      skip(at + 1);
    } else {
      state_ = State::kText;
    }
    return true;
  }

  void close(bool cut, AnswerSink& out) override {
    if (state_ == State::kOpened && !cut) out.content(markup_ + std::string(rest()));
    if (state_ == State::kObject && !call_.finish(cut, out) && !cut) out.content(markup_ + call_.raw());
  }

  std::shared_ptr<const ToolSet> tools_;
  State state_ = State::kText;
  std::string markup_;  // since the opening tag: text after all if no call follows
  JsonCall call_;
};

}  // namespace

std::unique_ptr<ToolParser> make_hermes(std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<Hermes>(std::move(tools));
}

}  // namespace met::text
