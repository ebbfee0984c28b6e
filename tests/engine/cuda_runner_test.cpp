// Which graph a decode step replays, over a device that records: by its rows, and by whether all of them are brief.
#include "engine/cuda_runner.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "gpu/mock/mock_backend.h"

namespace met::engine {
namespace {

using testing::ElementsAre;

constexpr int kHidden = 64, kFfn = 128, kHeads = 16, kKvHeads = 8, kHeadDim = 64, kVocabulary = 256;

class CudaRunnerTest : public testing::Test {
 protected:
  gpu::DeviceMemory memory(std::size_t bytes) {
    return gpu::DeviceMemory::allocate(device_, bytes, "weights").value();
  }
  layers::cuda::DeviceMatrix matrix(std::int64_t n, std::int64_t k) {
    layers::cuda::DeviceMatrix m{.n = n, .k = k};
    m.data = memory(bytes_of(m.type, static_cast<std::size_t>(n * k)));
    return m;
  }
  layers::cuda::DecoderWeights weights() {
    layers::cuda::DecoderWeights w;
    w.embedding = matrix(kVocabulary, kHidden);
    w.final_norm = memory(kHidden * sizeof(float));
    layers::cuda::DecoderLayerWeights& layer = w.layers.emplace_back();
    layer.spec = {.heads = kHeads, .kv_heads = kKvHeads, .head_dim = kHeadDim};
    layer.attention_norm = memory(kHidden * sizeof(float));
    layer.ffn_norm = memory(kHidden * sizeof(float));
    layer.qkv = matrix((kHeads + 2 * kKvHeads) * kHeadDim, kHidden);
    layer.out = matrix(kHidden, kHeads * kHeadDim);
    layer.gate_up = matrix(2 * kFfn, kHidden);
    layer.down = matrix(kHidden, kFfn);
    return w;
  }
  void make(bool batch_invariant) {
    config_.hidden = kHidden;
    config_.ffn = kFfn;
    config_.heads = kHeads;
    config_.kv_heads = kKvHeads;
    config_.head_dim = kHeadDim;
    config_.vocabulary = kVocabulary;
    config_.tied_head = true;
    config_.layer.resize(1);
    const RunnerOptions options{.limits = {.tokens = 64, .rows = 64, .logits = 64, .table = 64 * 128},
                                .positions = 2048,
                                .blocks = 256,
                                .cache = DType::kBF16,
                                .batch_invariant = batch_invariant};
    auto decoder =
        layers::cuda::Decoder::make(device_, config_, weights(), CudaRunner::decoder_limits(options));
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
    std::vector<std::string> out;
    for (; seen_ < device_.launches().size(); ++seen_)
      if (device_.launches()[seen_].module.starts_with("decode_attention"))
        out.push_back(device_.launches()[seen_].module);
    return out;
  }

  gpu::mock::MockBackend device_{{.multiprocessors = 132}};
  config::ModelConfig config_;
  std::unique_ptr<ModelRunner> runner_;
  std::size_t seen_ = 0;
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
  EXPECT_THAT(step({7, 8}), ElementsAre("decode_attention"));
  EXPECT_THAT(step({700, 8}), ElementsAre());
}

}  // namespace
}  // namespace met::engine
