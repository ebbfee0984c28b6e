// DeepSeek, three forms. V3.1: <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>name<｜tool▁sep｜>{…}<｜tool▁call▁end｜>…
// <｜tool▁calls▁end｜>. V3 and R1: "function" stands before the separator, behind it the name, a line break and the
// arguments in a fenced block. V3.2 and V4: tags with DSML in their names (xml_calls.cpp).
#include <optional>

#include "text/tools/formats.h"
#include "text/tools/json_passer.h"
#include "text/tools/scan_parser.h"

namespace met::text {
namespace {

constexpr std::string_view kCallsBegin = "<｜tool▁calls▁begin｜>";
constexpr std::string_view kCallsEnd = "<｜tool▁calls▁end｜>";
constexpr std::string_view kCallBegin = "<｜tool▁call▁begin｜>";
constexpr std::string_view kCallEnd = "<｜tool▁call▁end｜>";
constexpr std::string_view kSeparator = "<｜tool▁sep｜>";
constexpr std::string_view kOpeners[] = {kCallsBegin, kCallBegin};
constexpr std::string_view kDsmlOpeners[] = {"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"};
constexpr std::string_view kSeparators[] = {kSeparator};
constexpr std::string_view kType = "function";
constexpr std::string_view kFence = "```";

class MarkedCalls final : public ScanParser {
 public:
  explicit MarkedCalls(std::shared_ptr<const ToolSet> tools) : tools_(std::move(tools)) {}

 private:
  enum class State { kText, kOpened, kName, kTyped, kArguments, kAfter };

  bool step(AnswerSink& out) override {
    switch (state_) {
      case State::kText: {
        const int which = text_until(kOpeners, out);
        if (which < 0) return false;
        markup_ = kOpeners[which];
        skip(markup_.size());
        called_ = false;
        state_ = which == 0 ? State::kOpened : State::kName;
        return true;
      }
      case State::kOpened:
        return opened(out);
      case State::kName:
        return read_name(out);
      case State::kTyped:
        return typed_name(out);
      case State::kArguments:
        return arguments(out);
      case State::kAfter:
        return after();
    }
    return false;
  }

  bool no_call(AnswerSink& out) {
    out.content(markup_);
    state_ = State::kText;
    return true;
  }

  /// Between calls.
  bool opened(AnswerSink& out) {
    const std::size_t at = blanks();
    const Match begin = match(kCallBegin, at);
    const Match end = match(kCallsEnd, at);
    if (at == rest().size() || begin == Match::kMaybe || end == Match::kMaybe) return false;
    if (is_tail(kCallBegin, at) || is_tail(kCallsEnd, at)) return false;
    if (begin == Match::kYes) {
      markup_ += rest().substr(0, at + kCallBegin.size());
      skip(at + kCallBegin.size());
      state_ = State::kName;
      return true;
    }
    if (!called_ && end == Match::kNo) return no_call(out);
    if (end == Match::kYes) skip(at + kCallsEnd.size());
    state_ = State::kText;
    return true;
  }

  bool read_name(AnswerSink& out) {
    const Found found = find(kSeparators);
    const std::string name(trim_blanks(rest().substr(0, found.at)));
    if (found.at > kNameBytesMax || !(is_name(name) || (name.empty() && found.which < 0)))
      return no_call(out);
    if (found.which < 0) return false;
    markup_ += rest().substr(0, found.at + kSeparator.size());
    skip(found.at + kSeparator.size());
    if (name == kType) {
      state_ = State::kTyped;
    } else {
      begin(name, out);
    }
    return true;
  }

  bool typed_name(AnswerSink& out) {
    const std::size_t at = blanks();
    if (at == rest().size()) return false;
    if (rest()[at] == '{') {  // a tool of that name
      begin(kType, out);
      return true;
    }
    const std::size_t end = rest().find_first_of("\n{`", at);
    const std::string name(trim_blanks(rest().substr(0, end)));
    if (!is_name(name) || name.size() > kNameBytesMax) return no_call(out);
    if (end == std::string_view::npos) return false;
    skip(end);
    begin(name, out);
    return true;
  }

  void begin(std::string_view name, AnswerSink& out) {
    out.begin_call(name);
    called_ = true;
    passer_ = {};
    state_ = State::kArguments;
  }

  bool arguments(AnswerSink& out) {
    if (!passer_.begun()) {  // a fence with its language, then the object
      const std::size_t at = rest().find_first_of("{<");
      if (at == std::string_view::npos) {
        skip(rest().size());
        return false;
      }
      skip(at);
      if (rest()[0] == '<') {
        out.arguments("{}");
        return end(true, out);
      }
    }
    std::string passed;
    skip(passer_.push(rest(), passed, kCallEnd[0]));
    out.arguments(passed);
    if (passer_.done()) return end(true, out);
    if (rest().empty()) return false;
    const Match close = match(kCallEnd);  // outside of a string
    if (close == Match::kMaybe) return false;
    if (close == Match::kYes) return end(false, out);
    passed.clear();
    passer_.take(rest()[0], passed);
    out.arguments(passed);
    skip(1);
    return true;
  }

  bool end(bool complete, AnswerSink& out) {
    out.end_call(complete);
    state_ = State::kAfter;
    return true;
  }

  bool after() {
    std::size_t at = blanks();
    if (match(kFence, at) == Match::kMaybe) return false;
    if (match(kFence, at) == Match::kYes) at += kFence.size() + blanks(at + kFence.size());
    if (at == rest().size() || match(kCallEnd, at) == Match::kMaybe || is_tail(kCallEnd, at)) return false;
    if (match(kCallEnd, at) == Match::kYes) skip(at + kCallEnd.size());
    markup_.clear();
    state_ = State::kOpened;
    return true;
  }

  void close(bool cut, AnswerSink& out) override {
    if (state_ == State::kArguments) {
      if (!passer_.begun() && !cut) out.arguments("{}");
      return out.end_call(!passer_.begun() && !cut);
    }
    const bool markup = state_ == State::kOpened || state_ == State::kName || state_ == State::kTyped;
    if (markup && !called_ && !cut) out.content(markup_ + std::string(rest()));
  }

  std::shared_ptr<const ToolSet> tools_;
  State state_ = State::kText;
  std::string markup_;  // since the first marker: text after all if no call follows
  bool called_ = false;
  JsonPasser passer_;
};

/// The first marker decides which form the output is in.
class Deepseek final : public ScanParser {
 public:
  explicit Deepseek(std::shared_ptr<const ToolSet> tools) : tools_(std::move(tools)) {}

 private:
  bool step(AnswerSink& out) override {
    if (form_ == nullptr) {
      constexpr std::string_view kAll[] = {kOpeners[0], kOpeners[1], kDsmlOpeners[0], kDsmlOpeners[1]};
      const int which = text_until(kAll, out);
      if (which < 0) return false;
      form_ = which < 2 ? std::make_unique<MarkedCalls>(tools_) : make_dsml(tools_);
    }
    form_->push(rest(), out);
    skip(rest().size());
    return false;
  }

  void close(bool cut, AnswerSink& out) override {
    if (form_ != nullptr) form_->finish(cut, out);
  }

  std::shared_ptr<const ToolSet> tools_;
  std::unique_ptr<ToolParser> form_;
};

}  // namespace

std::unique_ptr<ToolParser> make_deepseek(std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<Deepseek>(std::move(tools));
}

}  // namespace met::text
