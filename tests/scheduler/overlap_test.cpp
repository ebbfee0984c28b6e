// When a second step is in flight, and what the metric says when it is not. Rules E6 to E8.
#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "tests/scheduler/simulation.h"

namespace met::scheduler::testing {
namespace {

using Drains = std::array<std::int64_t, kWaitReasons>;

Drains drains(std::vector<std::pair<WaitReason, std::int64_t>> counts) {
  Drains out{};
  for (const auto& [reason, count] : counts) out[static_cast<std::size_t>(reason)] = count;
  return out;
}

struct Case {
  std::string name;
  std::function<void(Simulation&)> load;
  Drains want;
  std::int64_t held = 0;
};

TEST(Overlap, EveryStepWithoutAnotherBehindItHasItsReason) {  // E8
  const std::vector<Case> kCases = {
      {"a stream ends with its last token in flight",
       [](Simulation& m) { m.submit("A", {.prompt = 5, .max_tokens = 8}); },
       drains({{WaitReason::kLimit, 1}})},
      {"chunks of a long prompt follow each other",
       [](Simulation& m) { m.submit("A", {.prompt = 60, .max_tokens = 2, .logprobs = true}); },
       drains({{WaitReason::kLimit, 1}})},
      {"prefills beside streams, choices and prompt log-probabilities",
       [](Simulation& m) {
         m.submit("A", {.prompt = 5, .max_tokens = 16});
         m.at(2, [](Simulation& s) { s.submit("B", {.prompt = 40, .max_tokens = 3, .n = 2}); });
         m.at(5,
              [](Simulation& s) { s.submit("C", {.prompt = 20, .max_tokens = 2, .prompt_logprobs = true}); });
       },
       drains({{WaitReason::kLimit, 1}})},
      {"a grammar alone decides between its tokens",
       [](Simulation& m) { m.submit("A", {.prompt = 5, .max_tokens = 6, .grammar = true}); },
       drains({{WaitReason::kGrammar, 5}, {WaitReason::kLimit, 1}})},
      {"a grammar beside a longer stream is left out of every second step",
       [](Simulation& m) {
         m.submit("A", {.prompt = 5, .max_tokens = 4, .grammar = true});
         m.submit("B", {.prompt = 5, .max_tokens = 12});
       },
       drains({{WaitReason::kLimit, 1}}), 3},
      {"nobody reads",
       [](Simulation& m) {
         m.submit("A", {.prompt = 5, .max_tokens = 20});
         m.read("A", false);
         m.at(12, [](Simulation& s) { s.read("A", true); });
       },
       drains({{WaitReason::kConsumer, 1}, {WaitReason::kLimit, 1}})},
      {"the next one needs the blocks of the last",
       [](Simulation& m) {
         m.submit("A", {.prompt = 40, .max_tokens = 20});
         m.submit("B", {.prompt = 40, .max_tokens = 20});
       },
       drains({{WaitReason::kCapacity, 1}, {WaitReason::kLimit, 1}})},
  };
  for (const Case& c : kCases) {
    for (const int depth : {1, 2}) {
      SimOptions options = small_options(/*blocks=*/24, /*batch=*/4, depth);
      options.channel_tokens = 8;
      Simulation met(options);
      c.load(met);
      met.run();
      const Statistics& stats = met.loop().snapshot().stats;
      EXPECT_EQ(stats.async_drains, depth == 1 ? Drains{} : c.want) << c.name << "\n" << met.trace();
      EXPECT_EQ(stats.async_rows_held, depth == 1 ? 0 : c.held) << c.name << "\n" << met.trace();
    }
  }
}

}  // namespace
}  // namespace met::scheduler::testing
