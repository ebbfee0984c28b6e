#include "ops/cuda/moe.h"

#include <algorithm>
#include <bit>
#include <span>
#include <string>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

// As kernels/hopper/common/moe_gemm_kernel.cuh.
constexpr int kExpertsMax = 512;
constexpr int kChunkBytes = 128;
constexpr int kGroupRows = 64;
constexpr int kGroupThreads = 128;
constexpr int kAlignment = 1024;
// As moe_tiles.cuh.
constexpr int kTilesBytes =
    2 * 4 * (kExpertsMax + 1) + kMoeOrderExperts * kMoeOrderTokens / 8 + kMoeOrderPairs + 16;

constexpr std::int64_t kCombineDimMax = 8192;
constexpr int kVector = 8;
constexpr int kWarp = 32;

/// An entry of the kernel, and up to how many places an expert has on average where it is taken: twice that mostly fits
/// one tile, and wider tiles fetch more of x for nothing.
struct Tile {
  int columns, groups, chunks, stages;
  double places;
};
constexpr Tile kBf16Tiles[] = {
    {8, 1, 4, 5, 4},   {16, 1, 4, 5, 8},    {32, 1, 4, 4, 16},
    {64, 2, 2, 4, 48}, {128, 2, 1, 6, 160}, {256, 2, 1, 4, 1e9},
};
/// Their scales of x lie beside the stages.
constexpr Tile kE4m3Tiles[] = {
    {8, 1, 2, 11, 4}, {16, 1, 2, 10, 8}, {32, 1, 2, 8, 16}, {64, 2, 1, 8, 48}, {128, 2, 1, 6, 1e9},
};

bool is_e4m3(const MoeGemmShape& shape) { return shape.weights == DType::kF8E4M3; }
std::span<const Tile> tiles_of(const MoeGemmShape& shape) {
  return is_e4m3(shape) ? std::span<const Tile>(kE4m3Tiles) : std::span<const Tile>(kBf16Tiles);
}

std::uint32_t shared_bytes(const Tile& tile, bool e4m3) {
  const int scales = e4m3 ? static_cast<int>(sizeof(float)) * tile.chunks * tile.columns : 0;
  const int stage = tile.chunks * (tile.groups * kGroupRows + tile.columns) * kChunkBytes + scales;
  return static_cast<std::uint32_t>(tile.stages * (stage + 16) + kTilesBytes + kAlignment);
}

template <class T>
T* at(gpu::DevicePtr p) {
  return reinterpret_cast<T*>(p.value);
}

}  // namespace

Result<MoeGemmPlan> plan_moe_gemm(gpu::GpuBackend& device, const MoeGemmShape& shape) {
  const bool gated = shape.epilogue == Epilogue::kSiluMul || shape.epilogue == Epilogue::kGeluMul;
  if (!gated && shape.epilogue != Epilogue::kStore)
    return unsupported("weights", "expert products store or gate, nothing else");
  const int granule = is_e4m3(shape) ? kE4m3Granule : kVector;
  if (shape.n < kVector || shape.n % (gated ? 2 * kVector : kVector) != 0 || shape.k < granule ||
      shape.k % granule != 0)
    return unsupported("moe_intermediate_size",
                       "expert products need multiples of " + std::to_string(granule) +
                           ", have n = " + std::to_string(shape.n) + ", k = " + std::to_string(shape.k));
  if (shape.experts < 1 || shape.experts > kExpertsMax)
    return unsupported("num_experts", "must be 1 to 512, is " + std::to_string(shape.experts));
  const double places = static_cast<double>(shape.tokens) * shape.top_k / shape.experts;
  const Tile& tile =
      *std::ranges::find_if(tiles_of(shape), [&](const Tile& t) { return places <= t.places; });
  const int rows = tile.groups * kGroupRows;
  const std::string module = is_e4m3(shape) ? "moe_gemm_e4m3" : "moe_gemm";
  return MoeGemmPlan{.device = &device,
                     .kernel = look_up(device, module, module + "_n" + std::to_string(tile.columns)),
                     .shape = shape,
                     .rows = rows,
                     .grid = {static_cast<std::uint32_t>(device.info().multiprocessors)},
                     .block = {static_cast<std::uint32_t>((tile.groups + 1) * kGroupThreads)},
                     .shared_bytes = shared_bytes(tile, is_e4m3(shape))};
}

Result<DeviceTensorMap> moe_weights_map(const MoeGemmPlan& plan, gpu::DevicePtr weights) {
  const MoeGemmShape& shape = plan.shape;
  const auto each = static_cast<std::uint32_t>(is_e4m3(shape) ? 1 : sizeof(Bf16Bits));
  gpu::TensorMapSpec spec{.base = weights,
                          .element = is_e4m3(shape) ? gpu::TensorElement::kByte : gpu::TensorElement::kBf16,
                          .rank = 2};
  spec.extents = {static_cast<std::uint64_t>(shape.k), static_cast<std::uint64_t>(shape.experts * shape.n)};
  spec.strides = {static_cast<std::uint64_t>(each * shape.k)};
  spec.box = {kChunkBytes / each, static_cast<std::uint32_t>(plan.rows)};
  MET_ASSIGN(const gpu::TensorMap map, plan.device->tensor_map(spec));
  return std::bit_cast<DeviceTensorMap>(map);
}

gpu::KernelLaunch moe_gemm_launch(const MoeGemmPlan& plan, const MoeGemmTensors& t) {
  const MoeGemmShape& shape = plan.shape;
  const MoeGemmArgs args{.weights = t.weights,
                         .weight_scales = at<const float>(t.weight_scales),
                         .x = at<const void>(t.x),
                         .x_scales = at<const float>(t.x_scales),
                         .pairs = t.pairs,
                         .choices = at<const std::int32_t>(t.choices),
                         .counts = at<const StepCounts>(t.counts),
                         .y = at<Bf16Bits>(t.y),
                         .ldy = t.ldy,
                         .experts = shape.experts,
                         .top_k = shape.top_k,
                         .n = static_cast<std::int32_t>(shape.n),
                         .k = static_cast<std::int32_t>(shape.k),
                         .gathers = t.gathers,
                         .x_scales_ld = t.x_scales_ld,
                         .block_scales = t.block_scales,
                         .epilogue = shape.epilogue};
  gpu::KernelLaunch launch(plan.kernel, plan.grid, plan.block, plan.shared_bytes);
  launch.scalar(args).dependent();
  launch.note({.operation = "moe_gemm"});
  return launch;
}

Result<MoeCombinePlan> plan_moe_combine(gpu::GpuBackend& device, std::int64_t dim, int tokens_max) {
  if (dim < kVector || dim % kVector != 0 || dim > kCombineDimMax)
    return unsupported("hidden_size", "must be a multiple of 8 up to 8192, is " + std::to_string(dim));
  const auto threads = static_cast<std::uint32_t>((dim / kVector + kWarp - 1) / kWarp * kWarp);
  return MoeCombinePlan{.device = &device,
                        .kernel = look_up(device, "moe_combine", "moe_combine"),
                        .grid = {static_cast<std::uint32_t>(tokens_max)},
                        .block = {threads}};
}

gpu::KernelLaunch moe_combine_launch(const MoeCombinePlan& plan, const MoeCombineArgs& args) {
  gpu::KernelLaunch launch(plan.kernel, plan.grid, plan.block);
  launch.scalar(args).dependent();
  launch.note({.operation = "moe_combine"});
  return launch;
}

}  // namespace met::ops::cuda
