#include "ops/cuda/prefill_attention.h"

#include <algorithm>
#include <array>
#include <string>

#include "ops/cuda/tensor_map.h"
#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

// As kernels/hopper/common/prefill_attention.cu.
constexpr std::uint32_t kThreads = 384;
constexpr std::uint32_t kQueries = 128;
constexpr std::uint32_t kSlab = 64;  // values of a box
constexpr std::uint32_t kStages = 2;
constexpr std::uint32_t kBarrierBytes = 256;
constexpr std::uint32_t kAlignment = 1024;

struct Tile {
  int head_dim;
  std::uint32_t keys;          // positions of a tile
  std::uint32_t query_stages;  // tiles of queries in shared memory
};
constexpr std::array kTiles = {
    Tile{16, 128, 2}, Tile{32, 128, 2}, Tile{64, 128, 2}, Tile{128, 128, 2}, Tile{256, 64, 1},
};

std::uint32_t shared_bytes(const Tile& tile, DType cache) {
  const auto dim = static_cast<std::uint32_t>(tile.head_dim);
  const std::uint32_t wide = std::max(kSlab, dim);
  const std::uint32_t narrow =
      cache == DType::kF8E4M3 ? 2 * tile.keys * dim : 0;  // keys and values as they come
  const std::uint32_t values = kQueries * tile.query_stages + 2 * kStages * tile.keys;
  return 2 * wide * values + narrow + kBarrierBytes + kAlignment;
}

template <class T>
T* address(gpu::DevicePtr p) {
  return reinterpret_cast<T*>(p.value);
}

}  // namespace

Result<PrefillAttentionPlan> plan_prefill_attention(gpu::GpuBackend& device,
                                                    const PrefillAttentionShape& shape) {
  const auto tile = std::ranges::find(kTiles, shape.head_dim, &Tile::head_dim);
  if (tile == kTiles.end())
    return unsupported("head_dim", "must be 16, 32, 64, 128 or 256, is " + std::to_string(shape.head_dim));
  if (shape.kv_heads <= 0 || shape.heads % shape.kv_heads != 0)
    return unsupported("num_key_value_heads", "attention heads (" + std::to_string(shape.heads) +
                                                  ") must be a multiple of key-value heads (" +
                                                  std::to_string(shape.kv_heads) + ")");
  if (shape.cache != DType::kBF16 && shape.cache != DType::kF8E4M3)
    return unsupported("kv_cache_dtype", "must be BF16 or F8E4M3, is " + std::string(info(shape.cache).name));
  const std::string entry = "prefill_attention_" + std::to_string(shape.head_dim) +
                            (shape.cache == DType::kBF16 ? "_bf16" : "_e4m3");
  return PrefillAttentionPlan{.device = &device,
                              .kernel = look_up(device, "prefill_attention", entry),
                              .shape = shape,
                              .grid = {static_cast<std::uint32_t>(device.info().multiprocessors)},
                              .shared_bytes = shared_bytes(*tile, shape.cache)};
}

Result<PrefillAttentionArgs> bind(const PrefillAttentionPlan& plan, const PrefillAttentionTensors& t) {
  const PrefillAttentionShape& shape = plan.shape;
  gpu::GpuBackend& device = *plan.device;
  const std::int64_t row = static_cast<std::int64_t>(shape.heads + 2 * shape.kv_heads) * shape.head_dim;
  PrefillAttentionArgs args{};
  MET_ASSIGN(args.q_map, matrix_map(device, t.qkv, row, t.tokens_max, kQueries));
  if (shape.cache == DType::kBF16) {
    MET_ASSIGN(args.k_map, cache_map(device, t.layer.k_cache, t.blocks, shape.kv_heads, shape.head_dim));
    MET_ASSIGN(args.v_map, cache_map(device, t.layer.v_cache, t.blocks, shape.kv_heads, shape.head_dim));
  }
  args.layer = t.layer;
  args.qkv = address<const Bf16Bits>(t.qkv);
  args.y = address<Bf16Bits>(t.y);
  args.rows = address<const StepRow>(t.rows);
  args.block_table = address<const std::int32_t>(t.block_table);
  args.counts = address<const StepCounts>(t.counts);
  return args;
}

gpu::KernelLaunch prefill_attention_launch(const PrefillAttentionPlan& plan,
                                           const PrefillAttentionArgs& args) {
  gpu::KernelLaunch launch(plan.kernel, plan.grid, {kThreads}, plan.shared_bytes);
  launch.scalar(args).dependent();
  launch.note({.operation = "prefill_attention"});
  return launch;
}

Result<> prefill_attention(const PrefillAttentionPlan& plan, const PrefillAttentionArgs& args,
                           gpu::Stream stream) {
  return plan.device->launch(prefill_attention_launch(plan, args), stream);
}

}  // namespace met::ops::cuda
