#include "ops/cuda/gemm.h"

#include <algorithm>
#include <bit>
#include <string>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

// As kernels/hopper/common/gemm_tile.cuh.
constexpr std::uint32_t kThreads = 384;
constexpr int kTileRows = 128;
constexpr int kRowBytes = 128;
constexpr std::uint32_t kXBoxRows = 128;
constexpr std::uint32_t kWeightBoxRows = 64;
constexpr int kStagingBytes = 8 * 16 * kRowBytes;
constexpr int kNextColumns = 128;  // of a block that also writes for the next norm

constexpr int kOrder = 8;  // values that one store takes: n and k are multiples

enum class Share { kNone, kPair, kSplit };

/// E4M3 stages hold the scales of their rows of x too.
constexpr GemmTile tile(std::string_view entry, DType weights, int columns, Share share, int blocks,
                        int stages, double ns_k, double us_tile) {
  const int splits = share == Share::kSplit ? blocks : 1;
  const int sums = (splits - 1) * (columns / splits) * kTileRows * 4;
  const int stage = (kTileRows + columns) * kRowBytes + (weights == DType::kF8E4M3 ? kTileRows * 4 : 0);
  return {
      .entry = entry,
      .weights = weights,
      .columns = columns,
      .blocks = blocks,
      .m_tiles = share == Share::kPair ? blocks : 1,
      .splits = splits,
      .shared_bytes = 1024 + stages * stage + kStagingBytes + sums + kGemmNormRows * 4 + (2 * stages + 3) * 8,
      .ns_k = ns_k,
      .us_tile = us_tile};
}

// Times from Qwen3-8B's shapes at 128 to 1,024 rows on an H200 (docs/performance.md).
constexpr GemmTile kTiles[] = {
    tile("gemm_bf16_256_pair", DType::kBF16, 256, Share::kPair, 2, 4, 11.0, 3.0),
    tile("gemm_bf16_192", DType::kBF16, 192, Share::kNone, 1, 5, 7.5, 4.5),
    tile("gemm_bf16_128_pair", DType::kBF16, 128, Share::kPair, 2, 6, 5.5, 3.5),
    tile("gemm_bf16_128", DType::kBF16, 128, Share::kNone, 1, 6, 5.4, 3.5),
    tile("gemm_bf16_128_split2", DType::kBF16, 128, Share::kSplit, 2, 5, 5.6, 6.0),
    tile("gemm_bf16_64", DType::kBF16, 64, Share::kNone, 1, 8, 3.3, 3.5),
    tile("gemm_bf16_64_split2", DType::kBF16, 64, Share::kSplit, 2, 8, 4.5, 4.1),
    tile("gemm_bf16_64_split4", DType::kBF16, 64, Share::kSplit, 4, 7, 4.5, 5.0),
    tile("gemm_e4m3_128_pair", DType::kF8E4M3, 128, Share::kPair, 2, 6, 3.25, 5.0),
    tile("gemm_e4m3_128", DType::kF8E4M3, 128, Share::kNone, 1, 6, 3.15, 4.9),
    tile("gemm_e4m3_192", DType::kF8E4M3, 192, Share::kNone, 1, 5, 4.3, 5.0),
    tile("gemm_e4m3_64", DType::kF8E4M3, 64, Share::kNone, 1, 8, 2.6, 4.0),
    tile("gemm_e4m3_64_split2", DType::kF8E4M3, 64, Share::kSplit, 2, 7, 2.8, 4.7),
    tile("gemm_e4m3_128_split2", DType::kF8E4M3, 128, Share::kSplit, 2, 5, 3.6, 5.1),
};

int ceil_div(int a, int b) { return (a + b - 1) / b; }

int units(const GemmShape& shape, const GemmTile& tile) {
  return std::max(1, ceil_div(shape.tokens_max, kTileRows * tile.m_tiles) * ceil_div(shape.n, tile.columns));
}

constexpr int kScaleRows = 128;  // rows of W that share a scale where block_scales

/// Microseconds to expect: rounds of tiles, and the start and end of each.
double expected(const GemmShape& shape, const GemmTile& tile, int multiprocessors) {
  const int rounds = ceil_div(units(shape, tile), std::max(1, multiprocessors / tile.blocks));
  return rounds * (tile.us_tile + tile.ns_k * 1e-3 * shape.k / tile.splits);
}

Result<> check(const GemmShape& shape) {
  const bool gated = shape.epilogue == Epilogue::kSiluMul || shape.epilogue == Epilogue::kGeluMul;
  const int n_step = gated ? 2 * kOrder : kOrder;
  if (shape.n <= 0 || shape.n % n_step != 0)
    return unsupported("n", "rows of a weight must be a multiple of " + std::to_string(n_step) + ", are " +
                                std::to_string(shape.n));
  const int k_step = shape.weights == DType::kF8E4M3 ? kE4m3Granule : kOrder;
  if (shape.k <= 0 || shape.k % k_step != 0)
    return unsupported("k", "columns of a weight must be a multiple of " + std::to_string(k_step) + ", are " +
                                std::to_string(shape.k));
  return {};
}

/// Of rows of 128 bytes, `box_rows` a copy.
Result<DeviceTensorMap> map(gpu::GpuBackend& device, gpu::DevicePtr base, int rows, int k, DType type,
                            std::uint32_t box_rows) {
  const bool e4m3 = type == DType::kF8E4M3;
  const std::uint32_t bytes = e4m3 ? 1 : 2;
  MET_ASSIGN(const gpu::TensorMap made,
             device.tensor_map({.base = base,
                                .element = e4m3 ? gpu::TensorElement::kByte : gpu::TensorElement::kBf16,
                                .rank = 2,
                                .extents = {static_cast<std::uint64_t>(k), static_cast<std::uint64_t>(rows)},
                                .strides = {static_cast<std::uint64_t>(k) * bytes},
                                .box = {kRowBytes / bytes, box_rows}}));
  return std::bit_cast<DeviceTensorMap>(made);
}

}  // namespace

std::span<const GemmTile> gemm_tiles() { return kTiles; }

bool serves(const GemmTile& tile, const GemmShape& shape) {
  return tile.weights == shape.weights && (!shape.block_scales || kScaleRows % tile.columns == 0) &&
         (!shape.next_norm || tile.columns / tile.splits <= kNextColumns);
}

Result<GemmPlan> plan_gemm(gpu::GpuBackend& device, const GemmShape& shape) {
  const int multiprocessors = device.info().multiprocessors;
  const GemmTile* best = nullptr;
  for (const GemmTile& tile : kTiles) {
    if (!serves(tile, shape)) continue;
    if (best == nullptr || expected(shape, tile, multiprocessors) < expected(shape, *best, multiprocessors))
      best = &tile;
  }
  if (best == nullptr)
    return unsupported("weights", "must be BF16 or F8E4M3, are " + std::string(info(shape.weights).name));
  return plan_gemm(device, shape, *best);
}

Result<GemmPlan> plan_gemm(gpu::GpuBackend& device, const GemmShape& shape, const GemmTile& tile) {
  MET_TRY(check(shape));
  const int clusters = std::min(units(shape, tile), std::max(1, device.info().multiprocessors / tile.blocks));
  return GemmPlan{
      .device = &device,
      .kernel = look_up(device, shape.weights == DType::kF8E4M3 ? "gemm_e4m3" : "gemm", tile.entry),
      .shape = shape,
      .tile = &tile,
      .grid = {static_cast<std::uint32_t>(clusters * tile.blocks)},
      .squares_count = ceil_div(shape.n, tile.columns / tile.splits)};
}

Result<DeviceTensorMap> gemm_weights_map(gpu::GpuBackend& device, gpu::DevicePtr weights, int n, int k,
                                         DType type) {
  return map(device, weights, n, k, type, kWeightBoxRows);
}

Result<DeviceTensorMap> gemm_x_map(gpu::GpuBackend& device, gpu::DevicePtr x, int rows, int k, DType type) {
  return map(device, x, rows, k, type, kXBoxRows);
}

gpu::KernelLaunch gemm_launch(const GemmPlan& plan, const GemmArgs& args) {
  GemmArgs sized = args;
  sized.tokens_max = plan.shape.tokens_max;
  sized.squares_count = plan.squares_count;
  gpu::KernelLaunch launch(plan.kernel, plan.grid, {kThreads},
                           static_cast<std::uint32_t>(plan.tile->shared_bytes));
  launch.cluster({static_cast<std::uint32_t>(plan.tile->blocks)}).scalar(sized).dependent();
  launch.note({.operation = "gemm",
               .n = args.n,
               .k = args.k,
               .bytes = std::int64_t{args.n} * args.k * info(plan.shape.weights).block_bytes});
  return launch;
}

Result<> gemm(const GemmPlan& plan, const GemmArgs& args, gpu::Stream stream) {
  return plan.device->launch(gemm_launch(plan, args), stream);
}

}  // namespace met::ops::cuda
