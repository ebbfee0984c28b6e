// A random driver over the same harness: commands, durations, pool sizes and faults (T6). The harness checks
// the invariants of T3 after every tick and each text against its solo run.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "tests/scheduler/simulation.h"

namespace met::scheduler::testing {
namespace {

struct Totals {
  std::int64_t ticks = 0;
  std::int64_t preemptions = 0;
  std::int64_t restores = 0;
  std::int64_t swaps = 0;
  std::int64_t stores = 0;
  std::int64_t loads = 0;
  std::int64_t spill_failures = 0;
  std::int64_t hits = 0;
  std::int64_t evictions = 0;
  std::int64_t overshoot = 0;
  std::int64_t finished = 0;
  std::int64_t faults = 0;
};

class Driver {
 public:
  explicit Driver(std::uint64_t seed) : random_(seed), met_(options()) {
    if (!has_disk_) return;
    met_.spill().polls = between(1, 6);
    if (chance(20)) met_.spill().fails_at = between(0, 5);
  }

  Totals run() {
    const int ticks = between(20, 160);
    for (int i = 0; i < ticks; ++i) {
      command();
      if (!met_.tick() && met_.loop().wake_us() >= 0 && chance(30)) met_.clock().set(met_.loop().wake_us());
      if (::testing::Test::HasFailure()) break;
    }
    for (const std::string& name : met_.names()) met_.read(name, true);
    met_.run(5000);
    const Snapshot& numbers = met_.loop().snapshot();
    std::int64_t finished = 0;
    for (const std::int64_t count : numbers.stats.ended) finished += count;
    return {.ticks = met_.ticks(),
            .preemptions = numbers.preemptions,
            .restores = numbers.stats.checkpoints_restored,
            .swaps = numbers.stats.preemptions_swap,
            .stores = numbers.stats.disk_out_bytes,
            .loads = numbers.stats.disk_in_bytes,
            .spill_failures = numbers.stats.spill_failures,
            .hits = numbers.prefix_hits,
            .evictions = numbers.stats.evictions,
            .overshoot = numbers.overshoot_tokens,
            .finished = finished,
            .faults = met_.loop().fault() ? 0 : 1};
  }
  const std::string& trace() const { return met_.trace(); }

 private:
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  bool chance(int percent) { return between(1, 100) <= percent; }

  SimOptions options() {
    SimOptions options = small_options(between(5, 40), between(1, 8), between(1, 2));
    PlanConfig& plan = options.plan;
    plan.max_seq_len = between(8, std::min(4 * plan.blocks_total - 8, 64));
    plan.max_prefill_tokens = chance(20) ? 0 : between(4, 40);
    if (plan.prefill_tokens_max() < 8) plan.max_prefill_tokens = 8;
    plan.mixed_prefill_tokens = between(8, 16);
    plan.kv_admit_watermark = chance(70) ? between(0, 6) : between(0, 32);
    plan.chunk_grid_tokens = chance(30) ? 8 : 4;
    plan.resume_immunity_tokens = chance(50) ? 4 : 64;
    if (chance(50)) plan.producer_tokens = between(0, 24);
    plan.producer_ticks_max = between(0, 8);
    plan.step_max_us = chance(50) ? 5000 : 0;
    plan.policy = chance(50) ? Policy::kSlai : Policy::kFifo;
    plan.tbt_deadline_us = between(1, 8) * 1000;
    if (chance(70)) {
      plan.swap_blocks = between(2, plan.blocks_total);
      plan.swap_least_tokens = between(0, 8);
      if (chance(70)) plan.disk_blocks = between(4, 100);
      options.swap_block_ns = chance(50) ? between(1, 100'000) : 0;
      options.device.swap_us = between(0, 20);
    }
    if (chance(40))
      plan.prefill = {.codispatch = chance(50), .first_chunk = chance(50), .varlen = chance(50)};
    if (chance(30)) {
      plan.recurrent = {.on = true,
                        .tail = static_cast<TailCapture>(between(0, 2)),
                        .slots = between(1, 8),
                        .interval_blocks = between(1, 6),
                        .least_tokens = between(0, 12),
                        .hermetic = chance(30)};
      recurrent_ = true;
    }
    options.prefix_caching = chance(80);
    options.channel_tokens = chance(30) ? between(1, 6) : 1024;
    options.slow_consumer_us = 50'000;
    options.max_num_seqs = between(8, 24);
    options.device.vocab = between(20, 60);
    options.device.token_us = between(0, 200);
    if (chance(30)) {
      const int rate = between(20, 200);
      options.device.flags = [rate](const std::vector<TokenId>& prompt, int choice, std::int64_t position) {
        return (static_cast<int>(position) * 31 + prompt.back() * 7 + choice) % rate == 0 ? kFlagNonFinite
                                                                                          : 0U;
      };
    }
    if (chance(5)) options.device.fails_at = between(1, 100);
    tenants_ = chance(30);
    max_seq_len_ = static_cast<int>(plan.max_seq_len);
    batch_ = plan.max_batch_size;
    has_disk_ = plan.disk_blocks > 0;
    return options;
  }

  void command() {
    const int count = chance(10) ? 4 : 1;
    for (int i = 0; i < count; ++i) {
      if (chance(25)) submit();
    }
    const std::vector<std::string> names = met_.names();
    if (names.empty()) return;
    const int newest = static_cast<int>(names.size()) - 1;
    const std::string& name = names[static_cast<std::size_t>(between(std::max(0, newest - 10), newest))];
    if (chance(3)) met_.cancel(name);
    if (chance(1)) met_.destroy(name);
    if (chance(3)) met_.stop_at(name, between(0, 10), 0);
    if (chance(3)) met_.read(name, chance(50));
  }

  void submit() {
    Ask ask;
    ask.prompt = between(1, max_seq_len_ - 1);
    if (chance(50)) ask.prompt = std::min(ask.prompt, 12);
    ask.shared = chance(70) ? (chance(50) ? ask.prompt : between(0, ask.prompt)) : 0;
    ask.family = between(0, 1);
    ask.max_tokens = chance(5) ? 0 : between(1, 64);
    ask.n = chance(15) && !recurrent_ ? between(1, std::min(batch_, 4)) : 1;
    if (chance(15)) ask.eos = {between(0, 19)};
    if (chance(10)) ask.stop = {between(0, 19), between(0, 19)};
    if (chance(10)) ask.timeout_us = between(0, 100'000);
    ask.prompt_logprobs = chance(10);
    ask.logprobs = chance(20);
    ask.tenant = static_cast<std::uint64_t>(chance(tenants_ ? 70 : 10) ? between(1, tenants_ ? 3 : 1) : 0);
    ask.priority = chance(30) ? between(-2, 2) : 0;
    met_.submit("R" + std::to_string(submitted_++), ask);
  }

  std::mt19937_64 random_;
  int max_seq_len_ = 0;
  int batch_ = 0;
  bool has_disk_ = false;
  bool recurrent_ = false;
  int submitted_ = 0;
  bool tenants_ = false;  ///< several of them
  Simulation met_;
};

std::int64_t from_environment(const char* name, std::int64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoll(text, nullptr, 10);
}

// A defect aborts: say where it was.
std::uint64_t current_seed = 0;
const Driver* current = nullptr;
void on_abort(int /*signal*/) {
  std::fprintf(stderr, "MET_RANDOM_SEED=%llu\n%s", static_cast<unsigned long long>(current_seed),
               current == nullptr ? "" : current->trace().c_str());
}

TEST(RandomDriver, KeepsTheInvariantsForAHundredThousandTicks) {
  const std::int64_t ticks = from_environment("MET_RANDOM_TICKS", 100'000);
  auto seed = static_cast<std::uint64_t>(from_environment("MET_RANDOM_SEED", 1));
  std::signal(SIGABRT, on_abort);
  Totals sum;
  for (; sum.ticks < ticks; ++seed) {
    Driver driver(seed);
    current = &driver;
    current_seed = seed;
    const Totals totals = driver.run();
    ASSERT_FALSE(HasFailure()) << "MET_RANDOM_SEED=" << seed << "\n" << driver.trace();
    sum.ticks += totals.ticks;
    sum.preemptions += totals.preemptions;
    sum.restores += totals.restores;
    sum.swaps += totals.swaps;
    sum.stores += totals.stores;
    sum.loads += totals.loads;
    sum.spill_failures += totals.spill_failures;
    sum.hits += totals.hits;
    sum.evictions += totals.evictions;
    sum.overshoot += totals.overshoot;
    sum.finished += totals.finished;
    sum.faults += totals.faults;
  }
  current = nullptr;
  std::printf(
      "%lld ticks to seed %llu: %lld ended, %lld preemptions (%lld swaps), %lld blocks to disk and %lld "
      "back, %lld disk failures, %lld states restored, %lld hit tokens, %lld evictions, %lld "
      "overshoot, %lld faults\n",
      static_cast<long long>(sum.ticks), static_cast<unsigned long long>(seed),
      static_cast<long long>(sum.finished), static_cast<long long>(sum.preemptions),
      static_cast<long long>(sum.swaps), static_cast<long long>(sum.stores),
      static_cast<long long>(sum.loads), static_cast<long long>(sum.spill_failures),
      static_cast<long long>(sum.restores), static_cast<long long>(sum.hits),
      static_cast<long long>(sum.evictions), static_cast<long long>(sum.overshoot),
      static_cast<long long>(sum.faults));
  // The driver has to reach what it is for.
  EXPECT_GT(sum.preemptions, ticks / 1000);
  EXPECT_GT(sum.swaps, 0);
  EXPECT_GT(sum.stores, 0);
  EXPECT_GT(sum.loads, 0);
  EXPECT_GT(sum.spill_failures, 0);
  EXPECT_GT(sum.restores, 0);
  EXPECT_GT(sum.hits, 0);
  EXPECT_GT(sum.evictions, 0);
  EXPECT_GT(sum.overshoot, 0);
}

}  // namespace
}  // namespace met::scheduler::testing
