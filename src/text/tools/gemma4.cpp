// Gemma 4: <|tool_call>call:name{key:value,…}<tool_call|>. Strings stand between <|"|> markers, without escapes;
// keys are bare or between the same markers.
#include "text/tools/formats.h"
#include "text/tools/literal_passer.h"
#include "text/tools/scan_parser.h"

namespace met::text {
namespace {

constexpr std::string_view kOpen = "<|tool_call>";
constexpr std::string_view kClose = "<tool_call|>";
constexpr std::string_view kMarkers[] = {kOpen, kClose};
constexpr std::string_view kCall = "call:";
constexpr LiteralPasser::Dialect kDialect = {.quote = "<|\"|>", .bare_keys = true};

class Gemma4 final : public ScanParser {
 public:
  explicit Gemma4(std::shared_ptr<const ToolSet> tools) : tools_(std::move(tools)) {}

 private:
  enum class State { kText, kName, kArguments, kAfter };

  bool step(AnswerSink& out) override {
    switch (state_) {
      case State::kText: {
        const int which = text_until(kMarkers, out);
        if (which < 0) return false;
        skip(kMarkers[which].size());  // a closing marker without a call says nothing
        if (which == 0) state_ = State::kName;
        return true;
      }
      case State::kName: {
        const std::size_t at = rest().find('{');
        const std::string_view name = name_in(rest().substr(0, at));
        const bool part = at == std::string_view::npos && (name.empty() || kCall.starts_with(name));
        if (std::min(at, rest().size()) > kNameBytesMax || !(part || is_name(name))) {
          out.content(kOpen);
          state_ = State::kText;
          return true;
        }
        if (at == std::string_view::npos) return false;
        begin(name, out);
        skip(at);
        return true;
      }
      case State::kArguments: {
        std::string json;
        skip(passer_.push(rest(), ended(), json));
        out.arguments(json);
        if (!passer_.done() && !passer_.broken()) return false;
        out.end_call(passer_.done());
        state_ = State::kAfter;
        return true;
      }
      case State::kAfter: {
        const std::size_t at = blanks();
        if (at == rest().size() || match(kClose, at) == Match::kMaybe || is_tail(kClose, at)) return false;
        if (match(kClose, at) == Match::kYes) skip(at + kClose.size());
        state_ = State::kText;
        return true;
      }
    }
    return false;
  }

  static std::string_view name_in(std::string_view head) {
    head = trim_blanks(head);
    if (head.starts_with(kCall)) head = trim_blanks(head.substr(kCall.size()));
    return head;
  }

  void begin(std::string_view name, AnswerSink& out) {
    out.begin_call(name);
    passer_ = LiteralPasser(kDialect);
    state_ = State::kArguments;
  }

  void close(bool cut, AnswerSink& out) override {
    if (state_ == State::kName) {
      if (const std::string_view name = name_in(rest()); tools_->find(name) != nullptr) {
        begin(name, out);
        if (!cut) out.arguments("{}");
        return out.end_call(!cut);
      }
      if (!cut) out.content(std::string(kOpen) + std::string(rest()));
    }
    if (state_ == State::kArguments) out.end_call(/*complete=*/false);
  }

  std::shared_ptr<const ToolSet> tools_;
  State state_ = State::kText;
  LiteralPasser passer_{kDialect};
};

}  // namespace

std::unique_ptr<ToolParser> make_gemma4(std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<Gemma4>(std::move(tools));
}

}  // namespace met::text
