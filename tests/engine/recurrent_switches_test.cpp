// How checkpoints of recurrent state are settled from flags, environment and target. Rules H4, H6, H7, H9, P3.
#include "engine/recurrent_switches.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace met::engine {
namespace {

using scheduler::RecurrentConfig;
using scheduler::TailCapture;

Result<RecurrentConfig> resolve(const std::vector<std::string>& flags,
                                const std::map<std::string, std::string>& variables,
                                const RecurrentTraits& traits) {
  const auto environment = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  const auto settings = config::read_settings(flags, environment);
  if (!settings) return std::unexpected(settings.error().front());
  return resolve_recurrent(*settings, traits);
}

constexpr RecurrentTraits kNone;
constexpr RecurrentTraits kState{.has_state = true};
constexpr RecurrentTraits kMidchunk{.has_state = true, .captures_midchunk = true};

TEST(RecurrentSwitches, ATailIsCapturedUnlessOffWasAskedFor) {  // H6
  struct Case {
    std::vector<std::string> flags;
    std::map<std::string, std::string> variables;
    RecurrentTraits traits;
    TailCapture want;
  };
  const std::vector<Case> cases = {
      {{}, {}, kState, TailCapture::kSplit},
      {{}, {}, kMidchunk, TailCapture::kMidchunk},
      {{"--no-ssm-tail-midchunk"}, {}, kMidchunk, TailCapture::kSplit},
      {{"--no-ssm-tail-midchunk"}, {}, kState, TailCapture::kSplit},
      {{}, {{"METRALE_SSM_TAIL_MIDCHUNK", "0"}}, kMidchunk, TailCapture::kSplit},
      {{}, {{"METRALE_SSM_TAIL_MIDCHUNK", "1"}}, kMidchunk, TailCapture::kMidchunk},
      {{"--no-ssm-tail-midchunk=false"},
       {{"METRALE_SSM_TAIL_MIDCHUNK", "0"}},
       kMidchunk,
       TailCapture::kMidchunk},
      {{"--ssm-tail-checkpoint", "off"}, {}, kState, TailCapture::kOff},
      {{"--ssm-tail-checkpoint", "on"}, {}, kState, TailCapture::kSplit},
      {{"--no-ssm-tail-midchunk", "--ssm-tail-checkpoint", "off"}, {}, kMidchunk, TailCapture::kOff},
      {{}, {{"METRALE_SSM_TAIL_CKPT", "1"}}, kState, TailCapture::kSplit},
      {{}, {{"METRALE_SSM_TAIL_CKPT", "0"}}, kState, TailCapture::kOff},
      {{}, {{"METRALE_SSM_TAIL_CKPT", "0"}}, kMidchunk, TailCapture::kMidchunk},
      {{},
       {{"METRALE_SSM_TAIL_CKPT", "0"}, {"METRALE_SSM_TAIL_MIDCHUNK", "0"}},
       kMidchunk,
       TailCapture::kOff},
      {{"--ssm-tail-checkpoint", "on"}, {{"METRALE_SSM_TAIL_CKPT", "0"}}, kState, TailCapture::kSplit},
  };
  for (const Case& c : cases) {
    const auto got = resolve(c.flags, c.variables, c.traits);
    ASSERT_TRUE(got) << &c - cases.data() << got.error().message;
    EXPECT_EQ(got->tail, c.want) << &c - cases.data();
    EXPECT_TRUE(got->on);
  }
}

TEST(RecurrentSwitches, NumbersAndHermeticReachThePlan) {  // H4, H7, H9
  const auto plain = resolve({}, {}, kState);
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->slots, 16);
  EXPECT_EQ(plain->interval_blocks, 256);
  EXPECT_EQ(plain->least_tokens, 256);
  EXPECT_FALSE(plain->hermetic);
  const auto set = resolve(
      {"--ssm-cache-slots", "3", "--ssm-checkpoint-interval", "8", "--marconi-min-tokens=5", "--hermetic"},
      {}, kState);
  ASSERT_TRUE(set) << set.error().message;
  EXPECT_EQ(set->slots, 3);
  EXPECT_EQ(set->interval_blocks, 8);
  EXPECT_EQ(set->least_tokens, 5);
  EXPECT_TRUE(set->hermetic);
  EXPECT_TRUE(resolve({}, {{"METRALE_HERMETIC", "1"}}, kState)->hermetic);
  EXPECT_FALSE(resolve({}, {{"METRALE_HERMETIC", "0"}}, kState)->hermetic);
  EXPECT_FALSE(resolve({"--hermetic=false"}, {{"METRALE_HERMETIC", "1"}}, kState)->hermetic);
  EXPECT_EQ(resolve({"--ssm-cache-slots", "0"}, {}, kState)->slots, 0);
}

TEST(RecurrentSwitches, AFlagThatCannotTakeEffectIsRefused) {  // P3
  struct Case {
    std::vector<std::string> flags;
    RecurrentTraits traits;
    std::string field;
  };
  const std::vector<Case> cases = {
      {{"--hermetic"}, kNone, "--hermetic"},
      {{"--ssm-cache-slots", "16"}, kNone, "--ssm-cache-slots"},
      {{"--ssm-checkpoint-interval", "8"}, kNone, "--ssm-checkpoint-interval"},
      {{"--marconi-min-tokens", "8"}, kNone, "--marconi-min-tokens"},
      {{"--no-ssm-tail-midchunk"}, kNone, "--no-ssm-tail-midchunk"},
      {{"--ssm-tail-checkpoint", "on"}, kNone, "--ssm-tail-checkpoint"},
      {{"--hermetic", "--no-prefix-caching"}, kState, "--hermetic"},
      {{"--ssm-cache-slots", "4", "--no-prefix-caching"}, kState, "--ssm-cache-slots"},
      {{"--ssm-tail-checkpoint", "on"}, kMidchunk, "--ssm-tail-checkpoint"},
  };
  for (const Case& c : cases) {
    const auto got = resolve(c.flags, {}, c.traits);
    ASSERT_FALSE(got) << c.field;
    EXPECT_EQ(got.error().field, c.field);
  }
  const auto variables = resolve({}, {{"METRALE_HERMETIC", "1"}, {"METRALE_SSM_TAIL_CKPT", "1"}}, kNone);
  ASSERT_TRUE(variables) << "a variable may be meant for another model";
  EXPECT_FALSE(variables->on);
  EXPECT_EQ(resolve({"--ssm-cache-slots", "0", "--hermetic"}, {}, kState).error().field, "--hermetic");
}

}  // namespace
}  // namespace met::engine
