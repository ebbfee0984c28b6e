// Which kernels a mixture of experts enqueues for a step, and what they read: on the mock device.
#include "layers/cuda/moe_block.h"

#include <gmock/gmock.h>

#include <cstring>

#include "gpu/mock/mock_backend.h"

namespace met::layers::cuda {
namespace {

using ::testing::ElementsAre;

constexpr int kHidden = 256, kWidth = 96, kExperts = 16, kTopK = 4, kTokens = 1024;

class MoeBlockTest : public ::testing::Test {
 protected:
  /// `gate_up` and `down` tell how the matrices of the sparse layer are stored.
  void make(bool batch_invariant, DType gate_up = DType::kBF16, DType down = DType::kBF16) {
    config_.hidden = kHidden;
    config_.experts = kExperts;
    config_.experts_per_token = kTopK;
    config_.expert_ffn = kWidth;
    config_.renormalise_experts = true;
    std::vector<DecoderLayerWeights> layers(2);  // the first is dense
    MoeMatrices& w = layers[1].moe;
    w.router = matrix(kExperts, kHidden);
    w.gate_up = matrix(2 * kExperts * kWidth, kHidden, gate_up);
    w.down = matrix(kExperts * kHidden, kWidth, down);
    auto made = MoeBlock::make(
        device_, config_,
        {.tokens = kTokens, .buckets = buckets_, .layers = layers, .batch_invariant = batch_invariant});
    ASSERT_TRUE(made) << made.error().message;
    block_.emplace(std::move(*made));
    const bool codes = gate_up == DType::kF8E4M3 || down == DType::kF8E4M3;
    const auto allocated = block_->allocate(layers, codes ? DType::kF8E4M3 : DType::kBF16);
    ASSERT_TRUE(allocated) << allocated.error().message;
    weights_ = std::move(w);
    for (gpu::DeviceMemory& m : rows_)
      m = gpu::DeviceMemory::allocate(device_, kTokens * kHidden * 2, "rows").value();
  }
  DeviceMatrix matrix(std::int64_t n, std::int64_t k, DType type = DType::kBF16) {
    DeviceMatrix m{.type = type, .n = n, .k = k};
    if (type == DType::kF8E4M3)
      m.scales = gpu::DeviceMemory::allocate(device_, static_cast<std::size_t>(n) * 4, "w").value();
    m.data =
        gpu::DeviceMemory::allocate(device_, bytes_of(m.type, static_cast<std::size_t>(n * k)), "w").value();
    return m;
  }
  MoeBlock::Rows rows(bool next = true) const {
    return {.counts = rows_[0].data(),
            .residual = rows_[1].data(),
            .scaled = rows_[2].data(),
            .squares = rows_[3].data(),
            .next_norm = next ? rows_[4].data() : gpu::DevicePtr{}};
  }
  /// Functions that a step enqueues, from `first_` on.
  std::vector<std::string> launched() {
    std::vector<std::string> out;
    for (std::size_t i = first_; i < device_.launches().size(); ++i)
      out.push_back(device_.launches()[i].function);
    return out;
  }
  std::vector<std::string> decode(int bucket) {
    first_ = device_.launches().size();
    norm_ = {.parts = reinterpret_cast<float*>(rows_[3].data().value), .count = 7, .eps = 1e-6F};
    EXPECT_TRUE(block_->decode(1, bucket, weights_, rows(), norm_, device_.default_stream()));
    return launched();
  }
  std::vector<std::string> mixed(std::int64_t tokens, bool next = true) {
    first_ = device_.launches().size();
    EXPECT_TRUE(block_->mixed(1, tokens, weights_, rows(next), device_.default_stream()));
    return launched();
  }
  template <class Args>
  Args arguments(std::size_t launch) const {
    Args args{};
    std::memcpy(&args, device_.launches()[first_ + launch].arguments.at(0).bytes.data(), sizeof args);
    return args;
  }

  gpu::mock::MockBackend device_{{.multiprocessors = 132}};
  config::ModelConfig config_;
  std::vector<int> buckets_ = {1, 8, 32, 64};
  std::optional<MoeBlock> block_;
  MoeMatrices weights_;
  gpu::DeviceMemory rows_[5];
  RowSquares norm_;
  std::size_t first_ = 0;
};

TEST_F(MoeBlockTest, FewTokensTakeThreeKernelsAndLeaveTheNextNormsInput) {
  make(false);
  EXPECT_THAT(decode(1), ElementsAre("moe_logits", "moe_few_gate_up_8_4", "moe_few_down_1"));
  EXPECT_EQ(norm_.count, kHidden / 16) << "parts that the next reader adds up";
  EXPECT_EQ(arguments<MoeRouterArgs>(0).norm.count, 7) << "parts that the block's input came with";
  const auto down = arguments<MoeFewArgs>(2);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(down.next_norm), rows_[4].data().value);
  EXPECT_EQ(down.x, arguments<MoeFewArgs>(1).y);
  EXPECT_THAT(decode(32), ElementsAre("moe_logits", "moe_few_gate_up_32_4", "moe_few_down_1"));
}

TEST_F(MoeBlockTest, MoreTokensAreGroupedByExpert) {
  make(false);
  EXPECT_THAT(decode(64), ElementsAre("moe_choose", "moe_gemm_n32", "moe_gemm_n32", "moe_combine"));
  EXPECT_EQ(norm_.count, 1);
  EXPECT_EQ(arguments<MoeGemmArgs>(1).x, arguments<MoeRouterArgs>(0).normed);
  for (const std::size_t product : {1, 2}) {
    EXPECT_EQ(arguments<MoeGemmArgs>(product).choices, arguments<MoeRouterArgs>(0).choices);
    EXPECT_EQ(reinterpret_cast<std::uint64_t>(arguments<MoeGemmArgs>(product).counts), rows_[0].data().value);
    EXPECT_EQ(arguments<MoeGemmArgs>(product).gathers, product == 1 ? 1 : 0);
  }
  EXPECT_EQ(arguments<MoeGemmArgs>(1).pairs.places, arguments<MoeCombineArgs>(3).pairs.places);
  EXPECT_NE(arguments<MoeCombineArgs>(3).next_norm, nullptr);
  EXPECT_EQ(arguments<MoeCombineArgs>(3).norm, nullptr);
}

TEST_F(MoeBlockTest, StepsWithPrefillReadNormedRowsAndNormTheNextOnes) {
  make(false);
  EXPECT_THAT(mixed(1024), ElementsAre("moe_router_wide", "moe_gemm_n256", "moe_gemm_n256", "moe_combine"));
  const auto router = arguments<MoeRouterArgs>(0);
  EXPECT_EQ(router.norm.parts, nullptr);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(router.x), rows_[2].data().value);
  EXPECT_EQ(arguments<MoeGemmArgs>(1).x, router.x);
  EXPECT_EQ(arguments<MoeGemmArgs>(1).choices, nullptr) << "the router ordered the pairs";
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(arguments<MoeCombineArgs>(3).normed), rows_[2].data().value);
  mixed(1024, /*next=*/false);
  EXPECT_EQ(arguments<MoeCombineArgs>(3).normed, nullptr) << "the last layer: the head norms its own rows";
}

TEST_F(MoeBlockTest, FewTokensWidenE4m3InTheProducts) {
  make(false, DType::kF8E4M3, DType::kF8E4M3);
  EXPECT_THAT(decode(8), ElementsAre("moe_logits", "moe_few_gate_up_e4m3_8_2", "moe_few_down_e4m3_1"));
  const auto gate_up = arguments<MoeFewArgs>(1);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(gate_up.weight_scales), weights_.gate_up.scales.data().value);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(arguments<MoeFewArgs>(2).weight_scales),
            weights_.down.scales.data().value);
  EXPECT_EQ(gate_up.block_scales, 0);
  EXPECT_THAT(decode(32), ElementsAre("moe_choose", "quantise_e4m3", "moe_gemm_e4m3_n16",
                                      "quantise_e4m3_pairs", "moe_gemm_e4m3_n16", "moe_combine"));
}

TEST_F(MoeBlockTest, MoreTokensReadRowsOfE4m3) {
  make(false, DType::kF8E4M3, DType::kF8E4M3);
  weights_.down.block_scales = true;
  EXPECT_THAT(decode(64), ElementsAre("moe_choose", "quantise_e4m3", "moe_gemm_e4m3_n32",
                                      "quantise_e4m3_pairs", "moe_gemm_e4m3_n32", "moe_combine"));
  const auto rows = arguments<QuantiseArgs>(1);
  const auto gate_up = arguments<MoeGemmArgs>(2);
  const auto pairs = arguments<QuantiseArgs>(3);
  const auto down = arguments<MoeGemmArgs>(4);
  EXPECT_EQ(rows.x, arguments<MoeRouterArgs>(0).normed);
  EXPECT_EQ(gate_up.choices, arguments<MoeRouterArgs>(0).choices);
  EXPECT_EQ(down.choices, gate_up.choices);
  EXPECT_EQ(rows.k, kHidden);
  EXPECT_EQ(gate_up.x, rows.y);
  EXPECT_EQ(gate_up.x_scales, rows.scales);
  EXPECT_EQ(gate_up.x_scales_ld, rows.scales_ld);
  EXPECT_EQ(rows.scales_ld, kTokens);
  EXPECT_EQ(rows.scale_values, 128);
  EXPECT_EQ(gate_up.block_scales, 0);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(gate_up.weight_scales), weights_.gate_up.scales.data().value);
  EXPECT_EQ(pairs.x, gate_up.y);
  EXPECT_EQ(pairs.k, kWidth);
  EXPECT_EQ(pairs.scales_ld, kTokens * kTopK);
  EXPECT_EQ(pairs.scale_values, 128);
  EXPECT_EQ(down.x_scales_ld, pairs.scales_ld);
  EXPECT_EQ(down.block_scales, 1);
  EXPECT_THAT(mixed(1024), ElementsAre("moe_router_wide", "quantise_e4m3", "moe_gemm_e4m3_n128",
                                       "quantise_e4m3_pairs", "moe_gemm_e4m3_n128", "moe_combine"));
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(arguments<QuantiseArgs>(1).x), rows_[2].data().value);
}

TEST_F(MoeBlockTest, GateUpAndDownMayBeStoredDifferently) {
  make(false, DType::kF8E4M3, DType::kBF16);
  EXPECT_THAT(decode(1), ElementsAre("moe_logits", "moe_few_gate_up_e4m3_8_2", "moe_few_down_1"));
  EXPECT_THAT(decode(64),
              ElementsAre("moe_choose", "quantise_e4m3", "moe_gemm_e4m3_n32", "moe_gemm_n32", "moe_combine"));
}

TEST_F(MoeBlockTest, BatchInvariantStepsTakeOneWay) {
  make(true);
  EXPECT_EQ(mixed(1), mixed(kTokens));
}

TEST_F(MoeBlockTest, WithoutExpertsNothingIsTaken) {
  auto made = MoeBlock::make(device_, config_, {.tokens = kTokens, .buckets = buckets_});
  ASSERT_TRUE(made);
  EXPECT_EQ(MoeBlock::buffer_bytes(config_, kTokens, DType::kF8E4M3), 0U);
  EXPECT_TRUE(made->allocate({}, DType::kF8E4M3));
  EXPECT_EQ(made->allocated_bytes(), 0U);
}

}  // namespace
}  // namespace met::layers::cuda
