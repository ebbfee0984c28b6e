// The maker of traces: draws from tables of quantiles by a generator of its own, so that one seed gives one file.
#include <algorithm>
#include <cmath>
#include <span>

#include "bench/request_trace.h"

namespace met::bench {
namespace {

/// Quantiles 0, 0.1, … 0.9, 0.95, 0.99, 1 of questions and answers in shared conversations: half of the
/// questions are shorter than a paragraph, answers fill a screen.
constexpr double kAt[] = {0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1};
constexpr double kQuestion[] = {4, 8, 12, 17, 24, 36, 62, 128, 300, 670, 1020, 1900, 4000};
constexpr double kAnswer[] = {4, 14, 36, 74, 120, 170, 224, 280, 352, 460, 570, 830, 1600};

/// Answers are read at ten tokens a second.
constexpr double kReadUs = 1e5;

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : state_(seed) {}
  /// In (0, 1).
  double unit() {
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return (static_cast<double>((z ^ (z >> 31)) >> 12) + 0.5) / 4503599627370496.0;
  }
  std::uint64_t below(std::uint64_t count) {
    return static_cast<std::uint64_t>(unit() * static_cast<double>(count));
  }
  double exponential(double mean) { return -mean * std::log(unit()); }
  /// Between two quantiles lengths are spread evenly in their logarithm.
  std::int64_t length(std::span<const double> quantiles) {
    const double at = unit();
    std::size_t i = 1;
    while (kAt[i] < at) ++i;
    const double share = (at - kAt[i - 1]) / (kAt[i] - kAt[i - 1]);
    return std::llround(quantiles[i - 1] * std::pow(quantiles[i] / quantiles[i - 1], share));
  }

 private:
  std::uint64_t state_;
};

struct Turn {
  std::int64_t at_us = 0;
  std::size_t conversation = 0;
};
struct Conversation {
  std::vector<TextPiece> said;
  std::uint64_t tenant = 0;
};

bool later(const Turn& a, const Turn& b) {
  return a.at_us != b.at_us ? a.at_us > b.at_us : a.conversation > b.conversation;
}

}  // namespace

std::vector<TracedRequest> make_conversations(const ConversationShape& shape) {
  Draw draw(shape.seed);
  std::vector<Conversation> conversations;
  std::vector<Turn> coming;  // a heap
  std::vector<TracedRequest> out;
  std::uint64_t text = static_cast<std::uint64_t>(shape.system_prompts);
  // Conversations begin at the rate that gives the rate of arrivals with the turns that follow, and long enough
  // before the trace for those turns to be there from its first second on.
  constexpr double kWarmTurns = 8;
  constexpr double kAnswerUs = 22e6;
  double clock_us = shape.follow_up > 0 ? -kWarmTurns * (kAnswerUs + shape.think_seconds * 1e6) : 0;
  const double between_us = 1e6 / (shape.per_second * (1 - shape.follow_up));
  const auto begin = [&] {
    clock_us += draw.exponential(between_us);
    Conversation fresh;
    if (shape.system_prompts > 0 && shape.system_tokens > 0)
      fresh.said.push_back(
          {draw.below(static_cast<std::uint64_t>(shape.system_prompts)), shape.system_tokens});
    fresh.tenant = draw.below(static_cast<std::uint64_t>(shape.tenants));
    conversations.push_back(std::move(fresh));
    coming.push_back({std::llround(clock_us), conversations.size() - 1});
    std::ranges::push_heap(coming, later);
  };
  while (std::ssize(out) < shape.requests) {
    begin();
    while (!coming.empty() && std::ssize(out) < shape.requests) {
      if (coming.front().at_us > std::llround(clock_us)) break;
      std::ranges::pop_heap(coming, later);
      const Turn turn = coming.back();
      coming.pop_back();
      Conversation& talk = conversations[turn.conversation];
      talk.said.push_back({text++, draw.length(kQuestion)});
      TracedRequest request{.at_us = turn.at_us, .prompt = talk.said, .tenant = talk.tenant};
      for (const TextPiece& piece : talk.said) request.prompt_tokens += piece.tokens;
      request.output_text = text++;
      request.output_tokens = draw.length(kAnswer);
      talk.said.push_back({request.output_text, request.output_tokens});
      const double read_us = static_cast<double>(request.output_tokens) * kReadUs;
      if (request.prompt_tokens + request.output_tokens > shape.context) continue;
      const bool goes_on = draw.unit() < shape.follow_up;
      if (request.at_us >= 0) out.push_back(std::move(request));
      if (!goes_on) continue;
      coming.push_back({turn.at_us + std::llround(read_us + draw.exponential(shape.think_seconds * 1e6)),
                        turn.conversation});
      std::ranges::push_heap(coming, later);
    }
  }
  return out;
}

}  // namespace met::bench
