#include "engine/recurrent_switches.h"

#include <span>
#include <string>
#include <string_view>

namespace met::engine {
namespace {

constexpr std::string_view kSwitches[] = {"ssm-cache-slots",     "ssm-checkpoint-interval",
                                          "marconi-min-tokens",  "no-ssm-tail-midchunk",
                                          "ssm-tail-checkpoint", "hermetic"};

/// The first of some switches that the user asked for himself, or empty.
std::string_view asked_for(const config::Settings& s, std::span<const std::string_view> switches) {
  for (const std::string_view name : switches)
    if (config::origin_of(s, name) >= config::Origin::kFile) return name;
  return {};
}

scheduler::TailCapture tail_of(const config::Settings& s, bool midchunk) {
  if (midchunk) return scheduler::TailCapture::kMidchunk;
  return s.ssm_tail_checkpoint == "off" ? scheduler::TailCapture::kOff : scheduler::TailCapture::kSplit;
}

}  // namespace

Result<scheduler::RecurrentConfig> resolve_recurrent(const config::Settings& s,
                                                     const RecurrentTraits& traits) {
  const std::string_view asked = asked_for(s, kSwitches);
  const auto refuse = [](std::string_view name, const char* why) {
    return unsupported("--" + std::string(name), why);
  };
  if (!asked.empty() && !traits.has_state)
    return refuse(asked, "the model has no recurrent state: its prefix hits need no checkpoints");
  if (!asked.empty() && s.no_prefix_caching)
    return refuse(asked, "checkpoints belong to the prefix cache, which --no-prefix-caching turns off");
  const std::string_view needs_slots = asked_for(s, std::span(kSwitches).subspan(1));
  if (!needs_slots.empty() && s.ssm_cache_slots == 0)
    return refuse(needs_slots, "there are no checkpoints: --ssm-cache-slots is 0");
  const bool midchunk = traits.captures_midchunk && !s.no_ssm_tail_midchunk;
  if (midchunk && config::origin_of(s, "ssm-tail-checkpoint") >= config::Origin::kFile)
    return refuse("ssm-tail-checkpoint",
                  "tails are captured inside their chunk: it needs --no-ssm-tail-midchunk to take effect");
  return scheduler::RecurrentConfig{.on = traits.has_state,
                                    .tail = tail_of(s, midchunk),
                                    .slots = static_cast<int>(s.ssm_cache_slots),
                                    .interval_blocks = static_cast<int>(s.ssm_checkpoint_interval),
                                    .least_tokens = s.marconi_min_tokens,
                                    .hermetic = s.hermetic};
}

}  // namespace met::engine
