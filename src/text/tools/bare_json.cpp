// Bare JSON: the whole output is calls, {"name": …, "parameters": {…}}, parted by ";", "," or blanks, or a list
// of them. Llama 3 may write <|python_tag|> before it.
//
// JSON that is no call is an answer. After prose nothing is a call.
#include "text/tools/formats.h"
#include "text/tools/json_call.h"
#include "text/tools/scan_parser.h"

namespace met::text {
namespace {

constexpr std::string_view kTag = "<|python_tag|>";

class BareJson final : public ScanParser {
 public:
  explicit BareJson(std::shared_ptr<const ToolSet> tools) : tools_(std::move(tools)), call_(rules()) {}

 private:
  enum class State { kBetween, kObject, kText };

  JsonCall::Rules rules() const { return {.tools = tools_.get(), .name_suffices = false, .stop = {}}; }

  bool step(AnswerSink& out) override {
    switch (state_) {
      case State::kBetween:
        return between(out);
      case State::kObject: {
        skip(call_.push(rest(), ended(), out));
        if (call_.status() == JsonCall::Status::kMore) return false;
        called_ |= call_.status() != JsonCall::Status::kNoCall;
        if (call_.status() == JsonCall::Status::kNoCall) return text(out, call_.raw());
        markup_.clear();
        state_ = State::kBetween;
        return true;
      }
      case State::kText:
        out.content(rest());
        skip(rest().size());
        return false;
    }
    return false;
  }

  bool between(AnswerSink& out) {
    const std::size_t at = blanks();
    if (at == rest().size()) return false;
    const Match tag = match(kTag, at);
    if (tag == Match::kMaybe) return false;
    if (tag == Match::kYes) {
      take(at + kTag.size());
      return true;
    }
    const char c = at < rest().size() ? rest()[at] : '\0';
    if (c == '{') {
      take(at);
      call_ = JsonCall(rules());
      state_ = State::kObject;
      return true;
    }
    const bool separates = called_ ? c == ';' || c == ',' || c == ']' : c == '[' && !listed_;
    if (!separates) return text(out, {});
    listed_ |= c == '[';
    take(at + 1);
    return true;
  }

  void take(std::size_t count) {
    markup_ += rest().substr(0, count);
    skip(count);
  }

  bool text(AnswerSink& out, std::string_view more) {
    out.content(called_ ? std::string(more) : markup_ + std::string(more));
    state_ = State::kText;
    return true;
  }

  void close(bool cut, AnswerSink& out) override {
    if (state_ == State::kObject && !call_.finish(cut, out)) text(out, call_.raw());
    if (state_ == State::kBetween && !called_) text(out, rest());
  }

  std::shared_ptr<const ToolSet> tools_;
  State state_ = State::kBetween;
  std::string markup_;  // what was taken before the first call
  bool listed_ = false;
  bool called_ = false;
  JsonCall call_;
};

}  // namespace

std::unique_ptr<ToolParser> make_bare_json(std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<BareJson>(std::move(tools));
}

}  // namespace met::text
