// Mistral: [TOOL_CALLS]name[ARGS]{…}, each call with its own marker; [CALL_ID]id may stand before [ARGS], and
// [ARGS] may be missing. The older form is one marker and a list: [TOOL_CALLS][{"name": …, "arguments": {…}}].
#include "text/tools/formats.h"
#include "text/tools/json_call.h"
#include "text/tools/scan_parser.h"

namespace met::text {
namespace {

constexpr std::string_view kOpen = "[TOOL_CALLS]";
constexpr std::string_view kId = "[CALL_ID]";
constexpr std::string_view kArguments = "[ARGS]";
constexpr std::string_view kOpeners[] = {kOpen};
constexpr std::string_view kNameEnds[] = {kId, kArguments, "{"};

class Mistral final : public ScanParser {
 public:
  explicit Mistral(std::shared_ptr<const ToolSet> tools) : tools_(std::move(tools)), call_(rules()) {}

 private:
  enum class State { kText, kOpened, kName, kCallId, kValue, kObject, kBetween };

  JsonCall::Rules rules() const { return {.tools = tools_.get(), .name_suffices = true, .stop = {}}; }

  bool step(AnswerSink& out) override {
    switch (state_) {
      case State::kText:
        return text(out);
      case State::kOpened:
        return opened();
      case State::kName:
        return read_name(out);
      case State::kCallId: {
        const Found found = find(std::span(kNameEnds).subspan(1));
        skip(found.at);
        if (found.which < 0) return false;
        if (found.which == 0) skip(kArguments.size());
        state_ = State::kValue;
        return true;
      }
      case State::kValue:
        return arguments(out);
      case State::kObject: {
        skip(call_.push(rest(), ended(), out));
        if (call_.status() == JsonCall::Status::kMore) return false;
        const bool none = call_.status() == JsonCall::Status::kNoCall;
        if (none) out.content(markup_ + call_.raw());
        markup_.clear();
        state_ = none ? State::kText : State::kBetween;
        return true;
      }
      case State::kBetween:
        return between();
    }
    return false;
  }

  bool text(AnswerSink& out) {
    const int which = text_until(kOpeners, out);
    if (which < 0) return false;
    markup_.clear();
    take(kOpen.size());
    state_ = State::kOpened;
    return true;
  }

  bool opened() {
    const std::size_t at = blanks();
    if (at == rest().size()) return false;
    take(at);
    const char c = rest().empty() ? '\0' : rest()[0];
    const Match id = match(kId);
    const Match arguments = match(kArguments);
    if (c == '[' && (id == Match::kMaybe || arguments == Match::kMaybe)) return false;
    if (c == '[' && id == Match::kNo && arguments == Match::kNo) {
      take(1);
      state_ = State::kBetween;
    } else if (c == '{') {
      state_ = State::kObject;
      call_ = JsonCall(rules());
    } else {
      state_ = State::kName;
    }
    return true;
  }

  bool read_name(AnswerSink& out) {
    const Found found = find(kNameEnds);
    const std::string_view name = trim_blanks(rest().substr(0, found.at));
    const bool plausible = found.at <= kNameBytesMax && (name.empty() ? found.which < 0 : is_name(name));
    if (!plausible) {
      out.content(markup_);
      state_ = State::kText;
      return true;
    }
    if (found.which < 0) return false;
    begin(name, out);
    skip(found.at);
    if (found.which < 2) skip(kNameEnds[found.which].size());
    state_ = found.which == 0 ? State::kCallId : State::kValue;
    return true;
  }

  void begin(std::string_view name, AnswerSink& out) {
    out.begin_call(name);
    passer_ = {};
  }

  bool arguments(AnswerSink& out) {
    if (!passer_.begun()) {
      skip_blanks();
      if (rest().empty()) return false;
      if (rest()[0] != '{') {  // no arguments after all
        out.arguments("{}");
        return end(true, out);
      }
    }
    std::string passed;
    skip(passer_.push(rest(), passed));
    out.arguments(passed);
    return passer_.done() && end(true, out);
  }

  bool end(bool complete, AnswerSink& out) {
    out.end_call(complete);
    state_ = State::kText;
    return true;
  }

  /// Inside the list.
  bool between() {
    const std::size_t at = blanks();
    if (at == rest().size()) return false;
    const char c = at < rest().size() ? rest()[at] : '\0';
    if (c == ',' || c == ']') {
      take(at + 1);
      if (c == ']') state_ = State::kText;
    } else if (c == '{') {
      take(at);
      call_ = JsonCall(rules());
      state_ = State::kObject;
    } else {
      state_ = State::kText;
    }
    return true;
  }

  void take(std::size_t count) {
    markup_ += rest().substr(0, count);
    skip(count);
  }

  void close(bool cut, AnswerSink& out) override {
    if (state_ == State::kCallId || state_ == State::kValue) {
      if (!passer_.begun() && !cut) out.arguments("{}");
      out.end_call(!passer_.begun() && !cut);
    } else if (state_ == State::kObject) {
      if (!call_.finish(cut, out) && !cut) out.content(markup_ + call_.raw());
    } else if (state_ == State::kName && tools_->find(trim_blanks(rest())) != nullptr) {
      begin(trim_blanks(rest()), out);
      if (!cut) out.arguments("{}");
      out.end_call(!cut);
    } else if (state_ != State::kText && state_ != State::kBetween && !cut) {
      out.content(markup_ + std::string(rest()));
    }
  }

  std::shared_ptr<const ToolSet> tools_;
  State state_ = State::kText;
  std::string markup_;  // since the marker: text after all if no call follows
  JsonPasser passer_;
  JsonCall call_;
};

}  // namespace

std::unique_ptr<ToolParser> make_mistral(std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<Mistral>(std::move(tools));
}

}  // namespace met::text
