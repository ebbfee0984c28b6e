// A steady decode tick allocates no memory (E10): operator new is counted.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <new>

#include "scheduler/door.h"
#include "scheduler/engine_loop.h"

// GCC 12 sees free() inlined behind the library's own operator new.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

namespace {
bool counting = false;
long allocations = 0;
}  // namespace

void* operator new(std::size_t size) {
  if (counting) ++allocations;
  if (void* memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }

namespace met::scheduler {
namespace {

/// Answers at once, allocates nothing.
class IdleDevice final : public Device {
 public:
  Result<> enqueue(const StepPlan& /*plan*/, const StepBatch& /*batch*/) override { return {}; }
  Result<> settle(const StepBatch& batch, StepResults& results) override {
    for (std::size_t i = 0; i < batch.samples.size(); ++i) results.samples[i].id = 7;
    return {};
  }
};

struct Case {
  int depth;
  Policy policy;
  std::uint64_t tenants;
};

TEST(EngineLoop, ASteadyDecodeTickAllocatesNothing) {  // E10: while others wait, under every policy
  for (const auto& [depth, policy, tenants] : {Case{1, Policy::kFifo, 1}, Case{2, Policy::kFifo, 3},
                                               Case{1, Policy::kSlai, 3}, Case{2, Policy::kSlai, 1}}) {
    EngineConfig config;
    config.plan = {.depth = depth, .blocks_total = 64 * 40, .max_batch_size = 64, .max_seq_len = 600};
    config.plan.policy = policy;
    config.channel_tokens = 600;
    config.max_num_seqs = 200;
    IdleDevice device;
    const SteadyClock clock;
    InlineExecutor executor(device, clock);
    Door door(config);
    EngineLoop loop(config, door.inbox(), executor, clock, door.open());
    std::vector<std::unique_ptr<Generation>> handles;
    for (int i = 0; i < 200; ++i) {
      Request request{.prompt = {i, i + 1, i + 2}, .max_tokens = 590};
      request.tenant = static_cast<std::uint64_t>(i) % tenants;
      handles.push_back(*door.submit(std::move(request), clock));
    }
    for (int i = 0; i < 100; ++i) loop.tick();
    EXPECT_EQ(loop.snapshot().running, 64);
    EXPECT_EQ(loop.snapshot().waiting, 136);
    const auto began = std::chrono::steady_clock::now();
    constexpr int kTicks = 320;  // every sequence fills and publishes 20 blocks meanwhile
    counting = true;
    for (int i = 0; i < kTicks; ++i) loop.tick();
    counting = false;
    const double us =
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count();
    EXPECT_EQ(allocations, 0);
    EXPECT_EQ(loop.snapshot().running, 64);
    std::printf("depth %d: %.1f us of host work a tick of 64 rows\n", depth, us / kTicks);
  }
}

}  // namespace
}  // namespace met::scheduler
