// Which graph a decode step replays, over a device that records: by its rows, and by whether all of them are brief.
#include "engine/cuda_runner.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "gpu/mock/mock_backend.h"
#include "tests/layers/cuda/tiny_decoder.h"

namespace met::engine {
namespace {

using testing::ElementsAre;

constexpr layers::cuda::testing::TinySizes kSizes{.heads = 16, .kv_heads = 8};

class CudaRunnerTest : public testing::Test {
 protected:
  void make(bool batch_invariant, bool graphs = true) {
    const RunnerOptions options{.limits = {.tokens = 64, .rows = 64, .logits = 64, .table = 64 * 128},
                                .positions = 2048,
                                .blocks = 256,
                                .cache = {.type = DType::kBF16},
                                .graphs = graphs,
                                .batch_invariant = batch_invariant};
    auto decoder =
        layers::cuda::Decoder::make(device_, config_, layers::cuda::testing::tiny_weights(device_, kSizes),
                                    CudaRunner::decoder_limits(options));
    ASSERT_TRUE(decoder) << decoder.error().message;
    auto runner = CudaRunner::make(device_, std::move(*decoder), options);
    ASSERT_TRUE(runner) << runner.error().message;
    runner_ = std::move(*runner);
    seen_ = device_.launches().size();
  }
  /// Modules of attention that the step brought into a new graph; none: it replayed a known one.
  std::vector<std::string> step(const std::vector<int>& contexts) {
    scheduler::StepBatch batch;
    for (const int context : contexts) {
      const auto row = static_cast<std::int32_t>(batch.rows.size());
      batch.rows.push_back({row, 1, context - 1, static_cast<std::int32_t>(batch.block_table.size())});
      batch.device_rows.push_back(row);
      batch.tokens.push_back(1);
      batch.positions.push_back(context - 1);
      batch.logits.push_back(row);
      for (int block = 0; block <= (context - 1) / 16; ++block) batch.block_table.push_back(1 + block);
    }
    batch.decode_rows = static_cast<std::int32_t>(contexts.size());
    scheduler::StepResults results;
    const auto enqueued = runner_->enqueue({}, batch);
    EXPECT_TRUE(enqueued) << enqueued.error().message;
    EXPECT_TRUE(runner_->settle(batch, results));
    replayed_ = results.replayed;
    std::vector<std::string> out;
    for (; seen_ < device_.launches().size(); ++seen_)
      if (device_.launches()[seen_].module.contains("attention"))
        out.push_back(device_.launches()[seen_].module);
    return out;
  }

  gpu::mock::MockBackend device_{{.multiprocessors = 132}};
  const config::ModelConfig config_ = layers::cuda::testing::tiny_config(kSizes);
  std::unique_ptr<ModelRunner> runner_;
  std::size_t seen_ = 0;
  bool replayed_ = false;
};

TEST_F(CudaRunnerTest, ALongRowTakesItsStepToTheOtherGraph) {
  make(/*batch_invariant=*/false);
  EXPECT_THAT(step({512}), ElementsAre()) << "captured at start";
  EXPECT_THAT(step({513}), ElementsAre()) << "captured at start";
  EXPECT_THAT(step({100, 512}), ElementsAre("decode_attention_brief"));
  EXPECT_THAT(step({513, 100}), ElementsAre("decode_attention"));
  EXPECT_THAT(step({7, 8}), ElementsAre()) << "known by now";
  EXPECT_THAT(step({600, 600}), ElementsAre()) << "known by now";
  EXPECT_THAT(step(std::vector<int>(40, 9)), ElementsAre("decode_attention"))
      << "too many rows for another form";
}

TEST_F(CudaRunnerTest, BatchInvariantStepsHaveOneForm) {
  make(/*batch_invariant=*/true);
  EXPECT_THAT(step({7}), ElementsAre()) << "captured at start";
  EXPECT_THAT(step({7, 8}), ElementsAre("prefill_attention")) << "as tokens of a prompt";
  EXPECT_THAT(step({700, 8}), ElementsAre());
}

TEST_F(CudaRunnerTest, AStepSaysWhetherItWasAGraph) {  // G6
  for (const bool graphs : {true, false}) {
    make(/*batch_invariant=*/false, graphs);
    step({7});
    EXPECT_EQ(replayed_, graphs);
  }
}

}  // namespace
}  // namespace met::engine
