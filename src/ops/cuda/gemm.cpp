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
constexpr std::uint32_t kStageValues = kRowBytes / 2;
constexpr std::uint32_t kXBoxRows = 64;
constexpr std::uint32_t kWeightBoxRows = 32;
constexpr int kStagingBytes = 8 * 16 * kRowBytes;

constexpr int shared_bytes(int columns, int stages, int splits) {
  const int sums = splits > 1 ? columns * kTileRows * 4 : 0;
  return 1024 + stages * (kTileRows + columns) * kRowBytes + kStagingBytes + sums + (2 * stages + 2) * 8;
}

constexpr GemmTile kTiles[] = {
    {.entry = "gemm_bf16_256_pair",
     .columns = 256,
     .blocks = 2,
     .m_tiles = 2,
     .splits = 1,
     .shared_bytes = shared_bytes(256, 4, 1),
     .cost = 256},
    {.entry = "gemm_bf16_192",
     .columns = 192,
     .blocks = 1,
     .m_tiles = 1,
     .splits = 1,
     .shared_bytes = shared_bytes(192, 5, 1),
     .cost = 200},
    {.entry = "gemm_bf16_128_pair",
     .columns = 128,
     .blocks = 2,
     .m_tiles = 2,
     .splits = 1,
     .shared_bytes = shared_bytes(128, 6, 1),
     .cost = 140},
    {.entry = "gemm_bf16_128",
     .columns = 128,
     .blocks = 1,
     .m_tiles = 1,
     .splits = 1,
     .shared_bytes = shared_bytes(128, 6, 1),
     .cost = 140},
    {.entry = "gemm_bf16_96",
     .columns = 96,
     .blocks = 1,
     .m_tiles = 1,
     .splits = 1,
     .shared_bytes = shared_bytes(96, 7, 1),
     .cost = 110},
    {.entry = "gemm_bf16_96_split2",
     .columns = 96,
     .blocks = 2,
     .m_tiles = 1,
     .splits = 2,
     .shared_bytes = shared_bytes(96, 5, 2),
     .cost = 115},
    {.entry = "gemm_bf16_128_split2",
     .columns = 128,
     .blocks = 2,
     .m_tiles = 1,
     .splits = 2,
     .shared_bytes = shared_bytes(128, 4, 2),
     .cost = 145},
    {.entry = "gemm_bf16_128_split4",
     .columns = 128,
     .blocks = 4,
     .m_tiles = 1,
     .splits = 4,
     .shared_bytes = shared_bytes(128, 4, 4),
     .cost = 145},
};

int ceil_div(int a, int b) { return (a + b - 1) / b; }

/// Clusters that run at once. Four blocks do not fill every group of multiprocessors of the chip.
int clusters_at_once(int multiprocessors, int blocks) {
  return std::max(1, blocks > 2 ? multiprocessors / (4 * blocks) * 4 : multiprocessors / blocks);
}

int units(const GemmShape& shape, const GemmTile& tile) {
  return std::max(1, ceil_div(shape.tokens_max, kTileRows * tile.m_tiles) * ceil_div(shape.n, tile.columns));
}

/// Time to expect, in products of one column by one k: rounds of tiles, and the start and end of each.
double expected(const GemmShape& shape, const GemmTile& tile, int multiprocessors) {
  constexpr double kEndOfTile = 400;  // blocks of k that a tile's start and end take, in values of k
  constexpr double kSumOfSplits = 300;
  const int rounds = ceil_div(units(shape, tile), clusters_at_once(multiprocessors, tile.blocks));
  const double k =
      static_cast<double>(shape.k) / tile.splits + kEndOfTile + (tile.splits > 1 ? kSumOfSplits : 0);
  return rounds * k * tile.cost;
}

Result<DeviceTensorMap> map(gpu::GpuBackend& device, gpu::DevicePtr base, int rows, int k,
                            std::uint32_t box_rows) {
  MET_ASSIGN(const gpu::TensorMap made,
             device.tensor_map({.base = base,
                                .element = gpu::TensorElement::kBf16,
                                .rank = 2,
                                .extents = {static_cast<std::uint64_t>(k), static_cast<std::uint64_t>(rows)},
                                .strides = {static_cast<std::uint64_t>(k) * 2},
                                .box = {kStageValues, box_rows}}));
  return std::bit_cast<DeviceTensorMap>(made);
}

}  // namespace

std::span<const GemmTile> gemm_tiles() { return kTiles; }

Result<GemmPlan> plan_gemm(gpu::GpuBackend& device, const GemmShape& shape) {
  const int multiprocessors = device.info().multiprocessors;
  const GemmTile* best = std::ranges::min_element(
      kTiles, {}, [&](const GemmTile& tile) { return expected(shape, tile, multiprocessors); });
  return plan_gemm(device, shape, *best);
}

Result<GemmPlan> plan_gemm(gpu::GpuBackend& device, const GemmShape& shape, const GemmTile& tile) {
  const bool gated = shape.epilogue == Epilogue::kSiluMul || shape.epilogue == Epilogue::kGeluMul;
  const int step = gated ? 16 : 8;
  if (shape.n <= 0 || shape.n % step != 0)
    return unsupported("n", "rows of a weight must be a multiple of " + std::to_string(step) + ", are " +
                                std::to_string(shape.n));
  if (shape.k <= 0 || shape.k % 8 != 0)
    return unsupported("k", "columns of a weight must be a multiple of 8, are " + std::to_string(shape.k));
  const int clusters =
      std::min(units(shape, tile), clusters_at_once(device.info().multiprocessors, tile.blocks));
  return GemmPlan{.device = &device,
                  .kernel = look_up(device, "gemm", tile.entry),
                  .tile = &tile,
                  .grid = {static_cast<std::uint32_t>(clusters * tile.blocks)}};
}

Result<DeviceTensorMap> gemm_weights_map(gpu::GpuBackend& device, gpu::DevicePtr weights, int n, int k) {
  return map(device, weights, n, k, kWeightBoxRows);
}

Result<DeviceTensorMap> gemm_x_map(gpu::GpuBackend& device, gpu::DevicePtr x, int tokens_max, int k) {
  return map(device, x, tokens_max, k, kXBoxRows);
}

gpu::KernelLaunch gemm_launch(const GemmPlan& plan, const GemmArgs& args) {
  gpu::KernelLaunch launch(plan.kernel, plan.grid, {kThreads},
                           static_cast<std::uint32_t>(plan.tile->shared_bytes));
  launch.cluster({static_cast<std::uint32_t>(plan.tile->blocks)}).scalar(args).dependent();
  return launch;
}

Result<> gemm(const GemmPlan& plan, const GemmArgs& args, gpu::Stream stream) {
  return plan.device->launch(gemm_launch(plan, args), stream);
}

}  // namespace met::ops::cuda
