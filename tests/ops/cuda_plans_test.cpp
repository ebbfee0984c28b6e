// What the CUDA operations decide on the host: every size of every model, and the tiny ones of the goldens, has a plan that fits a multiprocessor's
// shared memory and covers all rows. No device is needed: an H200's numbers on the mock.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "gpu/mock/mock_backend.h"
#include "ops/cuda/decode_attention.h"
#include "ops/cuda/gemm.h"
#include "ops/cuda/moe.h"
#include "ops/cuda/moe_few.h"
#include "ops/cuda/moe_router.h"
#include "ops/cuda/projection.h"
#include "ops/cuda/residual_norm.h"

namespace met::ops::cuda {
namespace {

constexpr std::uint32_t kSharedMax = 232448;    // of a block on sm_90
constexpr std::uint32_t kSharedOfAll = 233472;  // of all blocks of a multiprocessor, 1 KB each for the system
constexpr int kMultiprocessors = 132;

struct Matrix {
  int n, k;
  Epilogue epilogue;
};

// Qwen3-8B, Llama-3.1-8B, Gemma-3-27B, SmolLM2-135M, Qwen3-30B-A3B's attention, and checkpoints with hidden 64 and 128.
const Matrix kMatrices[] = {
    {6144, 4096, Epilogue::kStore},     {4096, 4096, Epilogue::kResidual}, {24576, 4096, Epilogue::kSiluMul},
    {4096, 12288, Epilogue::kResidual}, {151936, 4096, Epilogue::kStore},  {28672, 4096, Epilogue::kSiluMul},
    {4096, 14336, Epilogue::kResidual}, {128256, 4096, Epilogue::kStore},  {8192, 5376, Epilogue::kStore},
    {5376, 4096, Epilogue::kStore},     {43008, 5376, Epilogue::kGeluMul}, {5376, 21504, Epilogue::kStore},
    {262208, 5376, Epilogue::kStore},   {960, 576, Epilogue::kStore},      {576, 576, Epilogue::kResidual},
    {3072, 576, Epilogue::kSiluMul},    {576, 1536, Epilogue::kResidual},  {49152, 576, Epilogue::kStore},
    {5120, 2048, Epilogue::kStore},     {2048, 4096, Epilogue::kResidual}, {128, 64, Epilogue::kStore},
    {64, 128, Epilogue::kResidual},     {256, 64, Epilogue::kSiluMul},     {320, 64, Epilogue::kSiluMul},
    {64, 160, Epilogue::kResidual},     {384, 64, Epilogue::kStore},       {384, 128, Epilogue::kSiluMul},
    {128, 192, Epilogue::kResidual},    {448, 64, Epilogue::kStore},
};

std::string text(const Matrix& m, int tokens) {
  return std::to_string(m.n) + " x " + std::to_string(m.k) + ", " + std::to_string(tokens) + " tokens";
}

gpu::mock::MockBackend h200() { return gpu::mock::MockBackend({.multiprocessors = kMultiprocessors}); }

TEST(CudaPlans, EveryProjectionFits) {
  gpu::mock::MockBackend device = h200();
  for (const DType weights : {DType::kBF16, DType::kF8E4M3})
    for (const Matrix& m : kMatrices) {
      if (weights == DType::kF8E4M3 && m.k % kE4m3Granule != 0) continue;
      for (const int tokens : {1, 2, 8, 9, 16, 24, 32, 40, 64, 128, 256}) {
        if (weights == DType::kF8E4M3 && tokens > kProjectionTokensE4m3) continue;
        const bool coded = weights == DType::kF8E4M3 && m.epilogue != Epilogue::kStore;
        const auto beside = plan_projection(device, {.n = m.n,
                                                     .k = m.k,
                                                     .tokens = std::min(tokens, 8),
                                                     .tokens_max = 256,
                                                     .weights = weights,
                                                     .epilogue = m.epilogue,
                                                     .coded = coded,
                                                     .shared_max = 128 << 10});
        ASSERT_TRUE(beside) << text(m, tokens) << ": " << beside.error().message;
        EXPECT_LE(beside->shared_bytes, 128U << 10) << text(m, tokens);
        // Another team's slot may still be on its way, and then its phase looks like the one that is waited for.
        EXPECT_EQ(beside->tile.stages % beside->tile.teams, 0) << text(m, tokens);
        const auto plan = plan_projection(device, {.n = m.n,
                                                   .k = m.k,
                                                   .tokens = tokens,
                                                   .tokens_max = 256,
                                                   .weights = weights,
                                                   .epilogue = m.epilogue,
                                                   .coded = coded});
        ASSERT_TRUE(plan) << text(m, tokens) << ": " << plan.error().message;
        EXPECT_LE(plan->shared_bytes, kSharedMax) << text(m, tokens);
        EXPECT_GE(plan->columns, tokens);
        EXPECT_GE(plan->tile.stages, 2) << text(m, tokens);
        EXPECT_EQ(plan->tile.stages % plan->tile.teams, 0) << text(m, tokens);
        // Values that share a scale are made by one block: 32 of n, or of gate and as many of up.
        if (coded) {
          EXPECT_EQ(plan->tile.rows % (m.epilogue == Epilogue::kResidual ? 32 : 64), 0) << text(m, tokens);
        }
        if (m.epilogue == Epilogue::kResidual) {
          EXPECT_GE(std::int64_t{plan->squares_count} * plan->tile.rows, m.n) << text(m, tokens);
          EXPECT_LE(plan->squares_count, 512) << text(m, tokens);
        }
      }
    }
}

TEST(CudaPlans, TheInvariantTileFits) {
  gpu::mock::MockBackend device = h200();
  for (const Matrix& m : kMatrices)
    for (const int tokens : {8, 16, 32, 64, 128, 256}) {
      const auto plan = plan_projection(
          device, {.n = m.n, .k = m.k, .tokens = tokens, .tokens_max = 256, .epilogue = Epilogue::kStore},
          {.rows = 64, .split = 1, .teams = 1, .chunks = 1});
      ASSERT_TRUE(plan) << text(m, tokens) << ": " << plan.error().message;
    }
}

TEST(CudaPlans, EveryGemmHasATile) {
  gpu::mock::MockBackend device = h200();
  for (const DType weights : {DType::kBF16, DType::kF8E4M3})
    for (const Matrix& m : kMatrices) {
      if (weights == DType::kF8E4M3 && m.k % kE4m3Granule != 0) continue;
      for (const int tokens : {64, 128, 256, 512, 2048, 8448}) {
        const auto plan = plan_gemm(
            device, {.n = m.n, .k = m.k, .tokens_max = tokens, .weights = weights, .epilogue = m.epilogue});
        ASSERT_TRUE(plan) << text(m, tokens) << ": " << plan.error().message;
        EXPECT_LE(static_cast<std::uint32_t>(plan->tile->shared_bytes), kSharedMax) << text(m, tokens);
        EXPECT_EQ(plan->tile->weights, weights);
      }
    }
}

TEST(CudaPlans, FewTilesDivideK) {
  gpu::mock::MockBackend device = h200();
  const auto tile = [&](int n, int k) {
    const auto plan = plan_gemm(
        device, {.n = n, .k = k, .tokens_max = 128, .epilogue = Epilogue::kResidual, .next_norm = true});
    return plan ? std::string(plan->tile->entry) : plan.error().message;
  };
  EXPECT_EQ(tile(2048, 4096), "gemm_bf16_64_split4");
  EXPECT_EQ(tile(4096, 4096), "gemm_bf16_64_split2");
}

TEST(CudaPlans, ExpertsOfAStepFit) {
  gpu::mock::MockBackend device = h200();
  for (const int tokens : {1, 33, 64, 128, 256, 257, 512, 8192})
    for (const int experts : {8, 60, 128, 256, 512}) {
      const std::string what = std::to_string(tokens) + " tokens, " + std::to_string(experts) + " experts";
      for (const Matrix& m : {Matrix{1536, 2048, Epilogue::kSiluMul}, {2048, 768, Epilogue::kStore}}) {
        const auto plan = plan_moe_gemm(
            device,
            {.n = m.n, .k = m.k, .experts = experts, .top_k = 8, .tokens = tokens, .epilogue = m.epilogue});
        ASSERT_TRUE(plan) << what << ": " << plan.error().message;
        EXPECT_LE(plan->shared_bytes, kSharedMax) << what;
      }
      const auto router =
          plan_moe_router(device, {.hidden = 2048, .experts = experts, .top_k = 8, .tokens_max = tokens});
      ASSERT_TRUE(router) << what << ": " << router.error().message;
      EXPECT_EQ(router->orders, tokens > 256 || experts > 128) << what;
      EXPECT_GE(router->grid.y * router->grid.x * 16, static_cast<std::uint32_t>(tokens)) << what;
    }
  const auto many = plan_moe_router(device, {.hidden = 64, .experts = 64, .top_k = 32, .tokens_max = 65});
  ASSERT_TRUE(many);
  EXPECT_TRUE(many->orders) << "more pairs than the products can order";
}

TEST(CudaPlans, DecodeAttentionCoversTheContext) {
  gpu::mock::MockBackend device = h200();
  struct Heads {
    int heads, kv_heads, head_dim;
  };
  for (const Heads h :
       {Heads{32, 8, 128}, {32, 16, 128}, {9, 3, 64}, {32, 4, 128}, {4, 2, 16}, {2, 1, 64}, {8, 1, 256}})
    for (const int rows : {1, 16, 64, 256}) {
      const auto plan = plan_decode_attention(device, {.heads = h.heads,
                                                       .kv_heads = h.kv_heads,
                                                       .head_dim = h.head_dim,
                                                       .rows_max = rows,
                                                       .positions_max = 40960});
      ASSERT_TRUE(plan) << plan.error().message;
      EXPECT_GE(plan->grid.x * plan->grid.y * plan->grid.z, 1U);
      EXPECT_GE(plan->splits, 1);
    }
}

// D5: entries add squares in different orders.
TEST(CudaPlans, ANormOfFixedOrderIsOneEntryForAllSteps) {
  gpu::mock::MockBackend device = h200();
  for (const std::int64_t dim : {64, 576, 4096, 5376, 8192, 16384}) {
    const auto entry = [&](int rows) {
      EXPECT_TRUE(plan_residual_norm(device, {.dim = dim, .rows_max = rows, .fixed_order = true})) << dim;
      return device.lookups().back().function;
    };
    const std::string one = entry(1);
    for (const int rows : {8, 256, 257, 8192}) EXPECT_EQ(entry(rows), one) << dim << ", " << rows;
  }
}

// No warp of the device is without work where rows and key-value heads are at least a team for each of its warps.
TEST(CudaPlans, TeamsOfRingAttentionShareTheDeviceEvenly) {
  gpu::mock::MockBackend device = h200();
  const auto entry = [&](int rows, int kv_heads) {
    const DecodeAttentionShape shape{.heads = 4 * kv_heads,
                                     .kv_heads = kv_heads,
                                     .head_dim = 128,
                                     .rows_max = rows,
                                     .positions_max = 40960};
    EXPECT_TRUE(plan_decode_attention(device, shape));
    return device.lookups().back().function;
  };
  EXPECT_EQ(entry(16, 8), "decode_attention_d128_bf16_h8_wide");
  EXPECT_EQ(entry(32, 8), "decode_attention_d128_bf16_h8_ring4");
  EXPECT_EQ(entry(64, 8), "decode_attention_d128_bf16_h8_ring2");
  EXPECT_EQ(entry(128, 8), "decode_attention_d128_bf16_h8_ring1");
  EXPECT_EQ(entry(256, 8), "decode_attention_d128_bf16_h8_ring1");
  EXPECT_EQ(entry(128, 4), "decode_attention_d128_bf16_h8_ring2");
}

/// A mixture of experts: Qwen3-30B-A3B, Qwen3-235B-A22B, one with the widest experts that few tokens take, and goldens.
struct Mixture {
  int hidden, width, experts, top_k;
};
constexpr Mixture kMixtures[] = {
    {2048, 768, 128, 8}, {4096, 1536, 128, 8}, {2048, 1024, 64, 8}, {64, 32, 8, 2}, {64, 32, 16, 4}};

TEST(CudaPlans, ExpertsOfFewTokensFitOfEveryType) {
  gpu::mock::MockBackend device = h200();
  for (const Mixture& m : kMixtures)
    for (const DType gate_up : {DType::kBF16, DType::kF8E4M3})
      for (const DType down : {DType::kBF16, DType::kF8E4M3})
        for (const int tokens : {1, 8, 16, 32}) {
          const MoeFewShape shape{.hidden = m.hidden,
                                  .width = m.width,
                                  .experts = m.experts,
                                  .top_k = m.top_k,
                                  .tokens = tokens,
                                  .gate_up = gate_up,
                                  .down = down};
          const bool fits = fits_moe_few(shape);
          const int most = gate_up == DType::kF8E4M3 ? 8 : m.hidden <= 2048 ? 32 : 16;
          EXPECT_EQ(fits, tokens <= most) << m.hidden << ", " << tokens << " tokens";
          if (!fits) continue;
          const auto plan = plan_moe_few(device, shape);
          ASSERT_TRUE(plan) << plan.error().message;
          // Beside both lies what a block knows of the choice.
          constexpr std::uint32_t kChoice = 6464;
          EXPECT_LE(plan->gate_up_shared + kChoice, kSharedMax);
          EXPECT_LE(plan->down_shared + kChoice, kSharedMax);
          const std::uint32_t resident = plan->gate_up_grid.x / kMultiprocessors;
          EXPECT_LE(resident * (plan->gate_up_shared + kChoice + 1024), kSharedOfAll);
          EXPECT_EQ(resident, tokens <= 8 && m.hidden <= 2048 && gate_up == DType::kBF16 ? 2U : 1U);
          // 8 columns: a block of gate_up's and one of down's fit too, where experts are as wide as these.
          if (tokens <= 8 && m.hidden <= 2048 && m.width <= 768) {
            EXPECT_LE(plan->gate_up_shared + plan->down_shared + 2 * (kChoice + 1024), kSharedOfAll);
          }
        }
}

TEST(CudaPlans, ExpertProductsFitOfEveryType) {
  gpu::mock::MockBackend device = h200();
  for (const Mixture& m : kMixtures)
    for (const DType weights : {DType::kBF16, DType::kF8E4M3})
      for (const int tokens : {8, 64, 128, 512, 2048, 8192}) {
        const auto plan = plan_moe_gemm(device, {.n = 2 * m.width,
                                                 .k = m.hidden,
                                                 .experts = m.experts,
                                                 .top_k = m.top_k,
                                                 .tokens = tokens,
                                                 .epilogue = Epilogue::kSiluMul,
                                                 .weights = weights});
        ASSERT_TRUE(plan) << plan.error().message;
        EXPECT_LE(plan->shared_bytes, kSharedMax);
        EXPECT_EQ(plan->block.x, static_cast<std::uint32_t>(plan->rows / 64 + 1) * 128);
      }
  for (const DType weights : {DType::kBF16, DType::kF8E4M3}) {
    const auto odd =
        plan_moe_gemm(device, {.n = 64, .k = 72, .experts = 8, .top_k = 2, .tokens = 8, .weights = weights});
    EXPECT_EQ(odd.has_value(), weights == DType::kBF16) << "rows of E4M3 begin at 16 bytes";
  }
}

TEST(CudaPlans, SplitsOfBriefRowsAreClusters) {
  gpu::mock::MockBackend device = h200();
  const auto planned = [&](DecodeAttentionShape shape) {
    return plan_decode_attention(device, shape).value();
  };
  for (const int kv_heads : {1, 3, 4, 8, 16})
    for (const int rows : {1, 2, 4, 5, 8, 32}) {
      const DecodeAttentionShape shape{.heads = 8 * kv_heads,
                                       .kv_heads = kv_heads,
                                       .head_dim = 128,
                                       .rows_max = rows,
                                       .positions_max = kBriefPositions,
                                       .brief = true};
      const std::string where = std::to_string(kv_heads) + " kv heads, " + std::to_string(rows) + " rows";
      const DecodeAttentionPlan plan = planned(shape);
      EXPECT_EQ(brief_attention_pays(shape), kv_heads >= 8 && rows * kv_heads <= 16) << where;
      EXPECT_GT(plan.cluster, 1U) << where;
      EXPECT_LE(plan.cluster, 8U) << where;  // a portable cluster, and what the first block has room for
      EXPECT_EQ(plan.splits, static_cast<int>(plan.cluster)) << where;
      EXPECT_EQ(plan.grid.x, static_cast<std::uint32_t>(rows) * plan.cluster) << where;
      EXPECT_EQ(plan.grid.y, static_cast<std::uint32_t>(kv_heads)) << where;
      EXPECT_EQ(plan.partial_bytes, 0U) << where;
      const auto refused = [&](DecodeAttentionShape other) {
        return !brief_attention_pays(other) && !plan_decode_attention(device, other);
      };
      DecodeAttentionShape other = shape;
      other.positions_max = kBriefPositions + 1;
      EXPECT_TRUE(refused(other)) << where;
      other = shape;
      other.heads = 9 * kv_heads;
      EXPECT_TRUE(refused(other)) << where;
    }
}

}  // namespace
}  // namespace met::ops::cuda
