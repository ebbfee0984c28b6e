#include "engine/serve_plan.h"

#include <string>
#include <string_view>

#include "core/log.h"
#include "engine/prefill_switches.h"
#include "kernels/lookup.h"
#include "ops/attention/attention.h"

namespace met::engine {
namespace {

// Serving defaults where neither a flag nor the hardware's [defaults] says otherwise (rule S5, section 13).
constexpr std::int64_t kMaxPrefillTokens = 256;
constexpr std::int64_t kMixedPrefillTokens = 128;
constexpr std::int64_t kMaxBatchSize = 16;
constexpr std::int64_t kCpuStepMaxUs = 250'000;

std::int64_t default_or(const kernels::Hardware& hardware, std::string_view key, std::int64_t otherwise) {
  const std::string_view text = kernels::default_of(hardware, key);
  return text.empty() ? otherwise : std::stoll(std::string(text));
}

std::int64_t microseconds(double seconds) { return static_cast<std::int64_t>(seconds * 1e6); }

}  // namespace

Result<scheduler::PlanConfig> plan_config(const config::Settings& s, const kernels::Hardware& hardware,
                                          const DeviceTraits& device, std::int64_t max_seq_len) {
  scheduler::PlanConfig plan;
  plan.block_tokens = ops::kKvBlockTokens;
  plan.max_batch_size =
      static_cast<int>(s.max_batch_size.value_or(default_or(hardware, "max_batch_size", kMaxBatchSize)));
  plan.max_seq_len = max_seq_len;
  plan.max_prefill_tokens =
      s.max_prefill_tokens.value_or(default_or(hardware, "max_prefill_tokens", kMaxPrefillTokens));
  plan.mixed_prefill_tokens =
      s.mixed_prefill_tokens.value_or(default_or(hardware, "mixed_prefill_tokens", kMixedPrefillTokens));
  MET_ASSIGN(plan.prefill, resolve_prefill_mode(s, hardware, plan.max_batch_size));
  MET_ASSIGN(plan.recurrent, resolve_recurrent(s, device.recurrent));
  plan.kv_admit_watermark = s.kv_admit_watermark;
  if (s.kv_admit_watermark == 0)
    log::warn("--kv-admit-watermark 0 reserves blocks for prompts alone: answers may preempt each other");
  plan.policy = s.scheduler == "slai" ? scheduler::Policy::kSlai : scheduler::Policy::kFifo;
  plan.tbt_deadline_us = s.tbt_deadline_ms * 1000;
  const std::string_view config =
      s.scheduler_config == "auto" ? kernels::default_of(hardware, "scheduler_config") : s.scheduler_config;
  plan.depth = device.feeds_ids && config == "async" ? 2 : 1;
  plan.step_max_us = device.unified_memory ? kCpuStepMaxUs : 0;
  return plan;
}

scheduler::EngineConfig engine_config(const config::Settings& s, const scheduler::PlanConfig& plan) {
  return {.plan = plan,
          .max_num_seqs = static_cast<int>(s.max_num_seqs),
          .prefix_caching = !s.no_prefix_caching,
          .request_timeout_us = microseconds(s.request_timeout),
          .step_timeout_us = microseconds(s.step_timeout_s)};
}

}  // namespace met::engine
