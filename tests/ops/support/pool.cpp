#include "tests/ops/support/pool.h"

#include "gpu/cpu/futex.h"

namespace met::test {
namespace {

/// Spins a while, then gives the core away: tests run on machines with fewer cores than threads.
template <class Condition>
void wait_for(Condition condition) {
  for (int i = 0; !condition(); ++i) {
    if (i < 4000)
      gpu::cpu::cpu_relax();
    else
      std::this_thread::yield();
  }
}

}  // namespace

Pool::Pool(int threads, std::size_t scratch_bytes) : scratch_bytes_(scratch_bytes) {
  for (int i = 0; i < threads; ++i) scratch_.push_back(std::make_unique<std::byte[]>(scratch_bytes + 64));
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { serve(i); });
}

Pool::~Pool() {
  stop_ = true;
  for (std::thread& worker : workers_) worker.join();
}

void Pool::run(MetCpuKernel kernel, const void* args) {
  kernel_ = kernel;
  args_ = args;
  counter_ = 0;
  running_ = threads();
  launch_.fetch_add(1);
  enter(0);
  wait_for([this] { return running_.load() == 0; });
}

void Pool::enter(int thread) {
  const auto address = reinterpret_cast<std::uintptr_t>(scratch_[static_cast<std::size_t>(thread)].get());
  MetCpuContext context{thread,
                        threads(),
                        reinterpret_cast<void*>((address + 63) / 64 * 64),
                        scratch_bytes_,
                        &Pool::barrier,
                        &Pool::next,
                        this};
  kernel_(args_, &context);
  running_.fetch_sub(1);
}

void Pool::serve(int thread) {
  std::uint64_t seen = 0;
  for (;;) {
    wait_for([&] { return stop_.load() || launch_.load() != seen; });
    if (stop_) return;
    ++seen;
    enter(thread);
  }
}

void Pool::barrier(const MetCpuContext* context) {
  auto& pool = *static_cast<Pool*>(context->pool);
  const std::uint64_t phase = pool.phase_.load();
  if (pool.waiting_.fetch_add(1) + 1 == context->threads) {
    pool.waiting_ = 0;
    pool.phase_.fetch_add(1);
  } else {
    wait_for([&] { return pool.phase_.load() != phase; });
  }
}

std::int64_t Pool::next(const MetCpuContext* context, std::int64_t count) {
  return static_cast<Pool*>(context->pool)->counter_.fetch_add(count);
}

}  // namespace met::test
