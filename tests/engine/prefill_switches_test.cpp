// One prefill mode for the process: which of flag, file, environment and hardware settles a switch. Rules P3, P5.
#include "engine/prefill_switches.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <string>
#include <vector>

#include "engine/model_runner.h"

namespace met::engine {
namespace {

constexpr std::array<kernels::Default, 3> kDefaults = {
    {{"prefill_varlen_batch", "off"}, {"prefill_codispatch", "on"}, {"prefill_first_chunk", "on"}}};
constexpr kernels::Hardware kStates = {.name = "states", .defaults = kDefaults};
constexpr kernels::Hardware kSilent = {.name = "silent"};

Result<PrefillMode> resolve(const std::vector<std::string>& flags,
                            const std::map<std::string, std::string>& variables,
                            const kernels::Hardware& hardware, int batch = 8) {
  const auto environment = [&](std::string_view name) -> std::optional<std::string> {
    const auto found = variables.find(std::string(name));
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
  const auto settings = config::read_settings(flags, environment);
  if (!settings) return std::unexpected(settings.error().front());
  return resolve_prefill_mode(*settings, hardware, batch);
}

TEST(PrefillSwitches, FlagBeatsEnvironmentBeatsHardware) {  // P3
  struct Case {
    std::vector<std::string> flags;
    std::map<std::string, std::string> variables;
    const kernels::Hardware* hardware;
    PrefillMode want;
  };
  const std::vector<Case> cases = {
      {{}, {}, &kSilent, {.codispatch = false, .first_chunk = false, .varlen = true}},
      {{}, {}, &kStates, {.codispatch = true, .first_chunk = true, .varlen = false}},
      {{},
       {{"METRALE_PREFILL_VARLEN", "True"}},
       &kStates,
       {.codispatch = true, .first_chunk = true, .varlen = true}},
      {{}, {{"METRALE_PREFILL_VARLEN", "yes"}}, &kSilent, {.varlen = false}},
      {{}, {{"METRALE_PREFILL_CODISPATCH", "1"}}, &kSilent, {.codispatch = true}},
      {{}, {{"METRALE_PREFILL_CODISPATCH", "0"}}, &kStates, {.first_chunk = true, .varlen = false}},
      {{}, {{"METRALE_Q12_BATCHED_FIRST_CHUNK", "TRUE"}}, &kSilent, {.first_chunk = true}},
      {{"--prefill-codispatch", "off", "--prefill-varlen-batch=on"},
       {{"METRALE_PREFILL_CODISPATCH", "1"}, {"METRALE_PREFILL_VARLEN", "0"}},
       &kStates,
       {.first_chunk = true, .varlen = true}},
      {{"--prefill-first-chunk", "on"},
       {{"METRALE_Q12_BATCHED_FIRST_CHUNK", "0"}},
       &kSilent,
       {.first_chunk = true}},
  };
  for (const Case& c : cases) {
    const auto mode = resolve(c.flags, c.variables, *c.hardware);
    ASSERT_TRUE(mode) << mode.error().message;
    EXPECT_EQ(*mode, c.want) << &c - cases.data();
  }
}

TEST(PrefillSwitches, ASwitchThatCannotTakeEffectIsRefused) {  // P3
  for (const std::string flag : {"--prefill-codispatch", "--prefill-first-chunk"}) {
    const auto mode = resolve({flag, "on"}, {}, kSilent, /*batch=*/1);
    ASSERT_FALSE(mode) << flag;
    EXPECT_EQ(mode.error().field, flag);
    EXPECT_TRUE(resolve({flag, "off"}, {}, kStates, /*batch=*/1));
  }
}

TEST(PrefillSwitchesDeathTest, ARunnerRefusesAWaveThatWasNotToBePlanned) {  // P4
  using scheduler::RowKind;
  scheduler::StepPlan plan;
  plan.rows = {{.kind = RowKind::kDecode, .begin = 7, .end = 8},
               {.kind = RowKind::kPrefill, .begin = 0, .end = 16},
               {.kind = RowKind::kPrefill, .begin = 0, .end = 16}};
  check_wave(plan, {});
  check_wave(plan, {.first_chunk = true, .varlen = false});
  EXPECT_DEATH(check_wave(plan, {.varlen = false}), "may not go with its wave");
  plan.rows[2].end = 20;
  EXPECT_DEATH(check_wave(plan, {.first_chunk = true, .varlen = false}), "may not go with its wave");
}

}  // namespace
}  // namespace met::engine
