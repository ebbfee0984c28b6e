// The serving ladder through the whole engine (door, loop, executor thread, CUDA runner) over a device that records: as many
// requests at once as a step has rows, twice as many, a pool that they exhaust with two steps in flight, and what happens
// where a wave is refused or left. Kernels do not run: each id is 0, and every copy is checked against its buffer.
#include "bench/serving.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "engine/cuda_runner.h"
#include "gpu/mock/mock_backend.h"
#include "tests/layers/cuda/tiny_decoder.h"

namespace met::bench {
namespace {

constexpr layers::cuda::testing::TinySizes kSizes;
constexpr int kRows = 256;  // of a step, at most

/// The CUDA runner, with an id where no kernel sampled one.
class Answered final : public engine::ModelRunner {
 public:
  explicit Answered(std::unique_ptr<engine::ModelRunner> runner) : runner_(std::move(runner)) {}
  Result<> enqueue(const scheduler::StepPlan& plan, const scheduler::StepBatch& batch) override {
    return runner_->enqueue(plan, batch);
  }
  Result<> settle(const scheduler::StepBatch& batch, scheduler::StepResults& results) override {
    MET_TRY(runner_->settle(batch, results));
    for (scheduler::SampleResult& sample : results.samples) sample = {};
    return {};
  }
  std::span<float> logits_row(std::int32_t row) override { return runner_->logits_row(row); }
  engine::SwapPool* swap_pool() override { return runner_->swap_pool(); }
  const config::ModelConfig& config() const override { return runner_->config(); }
  std::size_t allocated_bytes() const override { return runner_->allocated_bytes(); }

 private:
  std::unique_ptr<engine::ModelRunner> runner_;
};

struct Pool {
  int requests_max = kRows;  // --max-num-seqs
  int blocks = 4096;
  std::int64_t reserved = 512;  // output tokens that an admission makes sure of
};

/// A host over the mock device, as load_parts would leave it to start_host.
std::unique_ptr<engine::ModelHost> serve(const Pool& pool) {
  engine::LoadedModel model;
  model.config = layers::cuda::testing::tiny_config(kSizes);
  model.device = std::make_unique<gpu::mock::MockBackend>(gpu::mock::MockOptions{.multiprocessors = 132});
  model.plan = {.depth = 2,
                .blocks_total = pool.blocks,
                .max_batch_size = kRows,
                .max_seq_len = 512,
                .max_prefill_tokens = 8192,
                .mixed_prefill_tokens = 512,
                .kv_admit_watermark = pool.reserved};
  const engine::RunnerOptions options{.limits = scheduler::step_limits(model.plan),
                                      .positions = model.plan.max_seq_len,
                                      .blocks = pool.blocks,
                                      .cache = {.type = DType::kBF16}};
  auto decoder = layers::cuda::Decoder::make(*model.device, model.config,
                                             layers::cuda::testing::tiny_weights(*model.device, kSizes),
                                             engine::CudaRunner::decoder_limits(options));
  EXPECT_TRUE(decoder) << decoder.error().message;
  auto runner = engine::CudaRunner::make(*model.device, std::move(*decoder), options);
  EXPECT_TRUE(runner) << runner.error().message;
  model.runner = std::make_unique<Answered>(std::move(*runner));
  config::Settings settings;
  settings.max_num_seqs = pool.requests_max;
  auto host = engine::start_host(std::move(model), settings,
                                 [](const Error& error) { ADD_FAILURE() << error.message; });
  EXPECT_TRUE(host) << host.error().message;
  return std::move(*host);
}

Result<std::vector<ServingRow>> run(engine::ModelHost& host, std::vector<int> concurrency) {
  return run_serving(host,
                     {.concurrency = std::move(concurrency),
                      .ttft = {},
                      .bulk = {},
                      .prompt_tokens = 40,
                      .output_tokens = 48,
                      .repeats = 2},
                     [](const ServingRow&) {});
}

TEST(Serving, AsManyAtOnceAsAStepHasRows) {
  const auto host = serve({});
  const auto rows = run(*host, {1, 128, kRows});
  ASSERT_TRUE(rows) << rows.error().message;
  ASSERT_EQ(rows->size(), 3U);
  EXPECT_EQ(rows->back().concurrency, kRows);
  const auto numbers = host->client().snapshot();
  EXPECT_EQ(numbers->preemptions, 0);
  EXPECT_EQ(numbers->stats.generation_tokens, 3 * 48 * (1 + 128 + kRows));
}

TEST(Serving, TwiceAsManyWaitForTheirTurn) {
  const auto host = serve({.requests_max = 2 * kRows});
  const auto rows = run(*host, {2 * kRows});
  ASSERT_TRUE(rows) << rows.error().message;
  EXPECT_EQ(host->client().snapshot()->stats.generation_tokens, 3 * 48 * 2 * kRows);
}

// 256 sequences of 88 tokens want 1,536 blocks.
TEST(Serving, APoolThatTheyExhaustIsSharedInTurn) {
  for (const std::int64_t reserved : {512, 0}) {
    const auto host = serve({.blocks = 1100, .reserved = reserved});
    const auto rows = run(*host, {kRows});
    ASSERT_TRUE(rows) << rows.error().message;
    const auto numbers = host->client().snapshot();
    EXPECT_EQ(numbers->stats.generation_tokens, 3 * 48 * kRows);
    // Without reservations some are preempted, unless they come so slowly that the first end before the last begin.
    if (reserved > 0) {
      EXPECT_EQ(numbers->preemptions, 0);
    }
  }
}

TEST(Serving, AWaveOfMoreThanTheEngineTakesIsRefused) {
  const auto host = serve({.requests_max = kRows - 1});
  const auto rows = run(*host, {kRows});
  ASSERT_FALSE(rows);
  EXPECT_EQ(rows.error().field, "max-num-seqs");
}  // the host ends with 255 requests under way

TEST(Serving, AHostEndsWithStepsInFlight) {
  auto host = serve({});
  std::vector<std::unique_ptr<scheduler::Generation>> live;
  for (int i = 0; i < kRows; ++i) {
    scheduler::Request request;
    request.prompt.assign(40, i % kSizes.vocabulary);
    request.max_tokens = 400;
    auto generation = host->client().submit(std::move(request));
    ASSERT_TRUE(generation) << generation.error().message;
    live.push_back(std::move(*generation));
  }
  auto first = live.back()->wait();
  while (first.kind != scheduler::Event::Kind::kTokens && !first.terminal()) first = live.back()->wait();
  ASSERT_FALSE(first.terminal()) << first.error.message;
  host.reset();
  const auto ended = [](const std::unique_ptr<scheduler::Generation>& generation) {
    auto event = generation->poll();
    while (event && !event->terminal()) event = generation->poll();
    return event.has_value();
  };
  EXPECT_EQ(std::ranges::count_if(live, ended), kRows);
}

}  // namespace
}  // namespace met::bench
