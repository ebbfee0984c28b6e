#include "ops/cuda/projection.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

// As kernels/hopper/common/projection_ring.cuh.
constexpr int kChunkK = 64;
constexpr int kChunkBytes = 128;
constexpr int kGroupRows = 64;
constexpr int kGroupThreads = 128;
constexpr int kGroupWarps = 4;
constexpr int kTokensMax = 256;
constexpr int kStagesMax = 24;
constexpr int kExchangeMax = 16 << 10;  // larger ones use the ring again
constexpr std::size_t kSharedMax = 232448;

int ceil_div(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }

int columns_of(int tokens) {
  int columns = 8;
  while (columns < tokens) columns *= 2;
  return columns;
}

int groups_of(const ProjectionTile& tile) { return ceil_div(tile.rows, kGroupRows); }
/// Warpgroups that have registers for this many columns.
int groups_max(int columns) { return columns > 64 ? 2 : 3; }
int stage_bytes(const ProjectionTile& tile, int columns) {
  return tile.chunks * (tile.rows + columns) * kChunkBytes;
}
/// Barriers, 1 / rms and squares behind the ring.
int tail_bytes(const ProjectionTile& tile, int columns) {
  const int bytes = 16 * (tile.stages + 1) + 4 * columns * (1 + kGroupWarps * groups_of(tile));
  return ceil_div(bytes, 16) * 16;
}
/// Sums that the other blocks of a cluster leave with one.
int exchange_bytes(const ProjectionTile& tile, int columns) {
  const int each = std::max(columns / 8 / tile.split, 1);
  return (tile.split - 1) * each * groups_of(tile) * kGroupThreads * 16;
}

/// As many stages as shared memory holds, and where the rest lies. False: not even two.
bool fit(ProjectionTile& tile, int columns, std::uint32_t& shared) {
  const int exchange = exchange_bytes(tile, columns);
  const bool apart = exchange > 0 && exchange <= kExchangeMax;
  const auto bytes = [&] {
    return static_cast<std::size_t>(tile.stages) * static_cast<std::size_t>(stage_bytes(tile, columns)) +
           static_cast<std::size_t>(tail_bytes(tile, columns) + (apart ? exchange : 0));
  };
  tile.stages = kStagesMax;
  while (tile.stages > 1 && bytes() > kSharedMax) --tile.stages;
  const int ring = tile.stages * stage_bytes(tile, columns);
  tile.exchange = apart ? ring + tail_bytes(tile, columns) : 0;
  // The last group's fragment reads 64 rows even where the tile ends before.
  const int beyond = (groups_of(tile) * kGroupRows - tile.rows) * kChunkBytes;
  const int read = ring - tile.chunks * columns * kChunkBytes + beyond;
  const std::size_t wanted =
      std::max({bytes(), static_cast<std::size_t>(read), static_cast<std::size_t>(exchange)});
  shared = static_cast<std::uint32_t>(wanted);
  return tile.stages >= 2 && wanted <= kSharedMax;
}

/// Bytes that pass through the busiest multiprocessor, with x from the L2 cache at a fraction of the price of weights and
/// an exchange over a cluster as so many bytes' time.
double cost(const ProjectionShape& shape, const ProjectionTile& tile, int columns, int processors) {
  constexpr double kCached = 0.4;
  constexpr double kExchange = 40e3;
  const int tiles = ceil_div(shape.n, tile.rows);
  const int rounds = ceil_div(tiles, std::max(processors / tile.split, 1));
  const double each = (tile.rows + kCached * columns) * static_cast<double>(shape.k) / tile.split;
  return 2 * rounds * each + (tile.split > 1 ? kExchange : 0.0);
}

ProjectionTile choose_tile(const ProjectionShape& shape, int columns, int processors) {
  constexpr std::array kRows{16, 32, 48, 64, 96, 128, 192};
  constexpr int kStageWanted = 32 << 10;
  ProjectionTile best{};
  double least = std::numeric_limits<double>::infinity();
  for (const int rows : kRows)
    for (const int split : {1, 2, 4}) {
      ProjectionTile tile{.rows = rows, .split = split, .chunks = 1, .stages = 0, .exchange = 0};
      if (groups_of(tile) > groups_max(columns)) continue;
      if (split > 1 && ceil_div(shape.n, rows) * split > processors) continue;
      while (tile.chunks < 8 && 2 * stage_bytes(tile, columns) <= kStageWanted) tile.chunks *= 2;
      const double price = cost(shape, tile, columns, processors);
      if (price >= least) continue;
      least = price;
      best = tile;
    }
  return best;
}

Result<> check_shape(const ProjectionShape& shape) {
  if (shape.n < 1 || shape.k < 8 || shape.k % 8 != 0)
    return unsupported("weights", "a projection needs k a multiple of 8, has n = " + std::to_string(shape.n) +
                                      ", k = " + std::to_string(shape.k));
  if (shape.tokens < 1 || shape.tokens > kTokensMax || shape.tokens_max < 1)
    return unsupported("max_batch_size",
                       "a projection takes 1 to 256 tokens, not " + std::to_string(shape.tokens));
  const bool gated = shape.epilogue == Epilogue::kSiluMul || shape.epilogue == Epilogue::kGeluMul;
  if (gated && shape.n % 16 != 0)
    return unsupported("intermediate_size", "must be a multiple of 8, is " + std::to_string(shape.n / 2));
  if (shape.weights != DType::kBF16)
    return unsupported("weights", "must be BF16, are " + std::string(info(shape.weights).name));
  return {};
}

/// [rows, k] in chunks of 64 k and boxes of `rows_box` rows and, where k divides, all chunks of a stage.
gpu::TensorMapSpec map_of(gpu::DevicePtr base, std::int64_t rows, std::int64_t k, std::int64_t stride,
                          int rows_box, int chunks) {
  gpu::TensorMapSpec spec{.base = base, .element = gpu::TensorElement::kBf16};
  const auto row_bytes = static_cast<std::uint64_t>(2 * stride);
  const auto box_rows = static_cast<std::uint32_t>(rows_box);
  spec.extents = {static_cast<std::uint64_t>(k), static_cast<std::uint64_t>(rows)};
  spec.strides = {row_bytes};
  spec.box = {kChunkK, box_rows};
  if (k % kChunkK != 0) return spec;
  spec.rank = 3;
  spec.extents = {kChunkK, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(k / kChunkK)};
  spec.strides = {row_bytes, kChunkBytes};
  spec.box = {kChunkK, box_rows, static_cast<std::uint32_t>(chunks)};
  return spec;
}

Result<DeviceTensorMap> encode(gpu::GpuBackend& device, const gpu::TensorMapSpec& spec) {
  MET_ASSIGN(const gpu::TensorMap map, device.tensor_map(spec));
  return std::bit_cast<DeviceTensorMap>(map);
}

template <class T>
T* at(gpu::DevicePtr p) {
  return reinterpret_cast<T*>(p.value);
}

}  // namespace

Result<ProjectionPlan> plan_projection(gpu::GpuBackend& device, const ProjectionShape& shape) {
  MET_TRY(check_shape(shape));
  const int processors = std::max(device.info().multiprocessors, 1);
  return plan_projection(device, shape, choose_tile(shape, columns_of(shape.tokens), processors));
}

Result<ProjectionPlan> plan_projection(gpu::GpuBackend& device, const ProjectionShape& shape,
                                       const ProjectionTile& tile) {
  MET_TRY(check_shape(shape));
  ProjectionPlan plan{
      .device = &device, .kernel = {}, .shape = shape, .tile = tile, .columns = columns_of(shape.tokens)};
  if (tile.rows < 16 || tile.rows % 16 != 0 || groups_of(tile) > groups_max(plan.columns) ||
      !fit(plan.tile, plan.columns, plan.shared_bytes))
    return fail(ErrorCode::kInternal,
                "a projection tile of " + std::to_string(tile.rows) + " rows does not fit");
  const int tiles = ceil_div(shape.n, tile.rows);
  const int processors = std::max(device.info().multiprocessors, 1);
  // With a split every cluster has one tile; else as many blocks as make all rounds equally full.
  const int blocks = tile.split > 1 ? tiles * tile.split : ceil_div(tiles, ceil_div(tiles, processors));
  plan.kernel = look_up(device, "projection", "projection_bf16_n" + std::to_string(plan.columns));
  plan.grid = {static_cast<std::uint32_t>(blocks)};
  plan.block = {static_cast<std::uint32_t>((groups_of(tile) + 1) * kGroupThreads)};
  plan.squares_count = tiles;
  return plan;
}

Result<gpu::KernelLaunch> projection_launch(const ProjectionPlan& plan, const ProjectionTensors& t) {
  const ProjectionShape& shape = plan.shape;
  const std::int64_t ldx = t.ldx != 0 ? t.ldx : shape.k;
  ProjectionArgs args{};
  MET_ASSIGN(args.weights, encode(*plan.device, map_of(t.weights, shape.n, shape.k, shape.k, plan.tile.rows,
                                                       plan.tile.chunks)));
  MET_ASSIGN(args.x, encode(*plan.device,
                            map_of(t.x, shape.tokens_max, shape.k, ldx, plan.columns, plan.tile.chunks)));
  args.counts = at<const StepCounts>(t.counts);
  args.weight_scales = at<const float>(t.weight_scales);
  args.bias = at<const float>(t.bias);
  args.norm = t.norm;
  args.residual = at<Bf16Bits>(t.residual);
  args.y = at<void>(t.y);
  args.next_norm = at<const float>(t.next_norm);
  args.scaled = at<Bf16Bits>(t.scaled);
  args.squares = at<float>(t.squares);
  args.ldy = t.ldy;
  args.n = static_cast<std::int32_t>(shape.n);
  args.k = static_cast<std::int32_t>(shape.k);
  args.squares_count = plan.squares_count;
  args.logits = t.logits;
  args.y_f32 = t.y_f32;
  args.block_scales = 0;
  args.epilogue = shape.epilogue;
  args.tile = plan.tile;
  gpu::KernelLaunch launch(plan.kernel, plan.grid, plan.block, plan.shared_bytes);
  launch.scalar(args).dependent();
  if (plan.tile.split > 1) launch.cluster({static_cast<std::uint32_t>(plan.tile.split)});
  return launch;
}

Result<> projection(const ProjectionPlan& plan, const ProjectionTensors& tensors, gpu::Stream stream) {
  MET_ASSIGN(const gpu::KernelLaunch launch, projection_launch(plan, tensors));
  return plan.device->launch(launch, stream);
}

}  // namespace met::ops::cuda
