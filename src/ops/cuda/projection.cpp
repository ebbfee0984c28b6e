#include "ops/cuda/projection.h"

#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

// As kernels/hopper/common/projection_ring.cuh.
constexpr int kChunkBytes = 128;
constexpr int kGroupRows = 64;
constexpr int kGroupThreads = 128;
constexpr int kGroupWarps = 4;
constexpr int kTokensMax = 256;
constexpr int kStagesMax = 24;
constexpr int kSpreadBytes = 80;
constexpr int kStageBarriers = 3;
constexpr int kXScaleBytes = 16;
constexpr int kSharedMax = 232448;

int ceil_div(std::int64_t a, std::int64_t b) { return static_cast<int>((a + b - 1) / b); }

int columns_of(int tokens) {
  int columns = 8;
  while (columns < tokens) columns *= 2;
  return columns;
}

int groups_of(const ProjectionTile& tile) { return ceil_div(tile.rows, kGroupRows); }
bool e4m3(const ProjectionShape& shape) { return shape.weights == DType::kF8E4M3; }
bool gated(const ProjectionShape& shape) {
  return shape.epilogue == Epilogue::kSiluMul || shape.epilogue == Epilogue::kGeluMul;
}
/// Warpgroups of consumers that have registers for this many columns.
int groups_max(int columns) { return columns <= 128 ? 3 : 2; }
int stage_bytes(const ProjectionTile& tile, int columns) {
  return tile.chunks * (tile.rows + columns) * kChunkBytes;
}
/// Stages that a ring has at least. With BF16 weights a team gives a stage back when its next one runs: it needs two of its
/// own, or both it and who fills the ring wait for ever.
int stages_min(const ProjectionShape& shape, const ProjectionTile& tile) {
  return std::max(2, e4m3(shape) ? tile.teams : 2 * tile.teams);
}
/// Scales of x, pieces of the warps, barriers, 1 / rms, squares and largest magnitudes behind the ring.
int tail_bytes(const ProjectionShape& shape, const ProjectionTile& tile, int columns) {
  const int warps = kGroupWarps * groups_of(tile);
  const int scales = e4m3(shape) ? tile.stages * tile.chunks * columns * kXScaleBytes : 0;
  const int row_warps = e4m3(shape) ? 3 * warps : warps;
  const int bytes = scales + warps * std::min(columns, 16) * kSpreadBytes + kStageBarriers * 8 * tile.stages +
                    16 + 4 * columns * (1 + row_warps);
  return ceil_div(bytes, 16) * 16;
}
/// Rows of a tile are a multiple of it: values that share a scale are of one block.
int rows_granule(const ProjectionShape& shape) {
  if (!shape.coded) return 16;
  return gated(shape) ? 2 * kScaleValues : kScaleValues;
}
/// Sums that other teams leave with the first, and those of half the columns, in slices of 16, that the other block of a
/// cluster leaves with one.
int exchange_bytes(const ProjectionTile& tile, int columns) {
  constexpr int kGroupBytes = kGroupThreads * 16;  // of 8 columns
  const int teams = (tile.teams - 1) * columns / 8 * kGroupBytes;
  if (tile.split == 1) return teams;
  return teams + (columns <= 16 ? columns / 8 : columns / 16) * groups_of(tile) * kGroupBytes;
}

int shared_max_of(const ProjectionShape& shape) {
  return shape.shared_max > 0 ? std::min(shape.shared_max, kSharedMax) : kSharedMax;
}

/// As many stages as shared memory holds, a multiple of the teams, and where the rest lies. A slot always belongs to one
/// team: a barrier tells apart two phases, not more, and who finds another's stage on its way would take the phase of the use
/// before for its own. False: fewer than stages_min.
bool fit(const ProjectionShape& shape, ProjectionTile& tile, int columns, std::uint32_t& shared) {
  const int most = shared_max_of(shape);
  const int stage = stage_bytes(tile, columns);
  const int exchange = exchange_bytes(tile, columns);
  const auto bytes = [&] { return tile.stages * stage + tail_bytes(shape, tile, columns) + exchange; };
  tile.stages = kStagesMax;
  while (tile.stages > 1 && (bytes() > most || tile.stages % tile.teams != 0)) --tile.stages;
  const int ring = tile.stages * stage;
  tile.exchange = ring + tail_bytes(shape, tile, columns);
  tile.flight = tile.flight == 0 ? tile.stages : std::min(tile.flight, tile.stages);
  // The last group's fragment reads 64 rows even where the tile ends before.
  const int beyond = (groups_of(tile) * kGroupRows - tile.rows) * kChunkBytes;
  const int wanted = std::max(bytes(), ring - tile.chunks * columns * kChunkBytes + beyond);
  shared = static_cast<std::uint32_t>(wanted);
  return tile.stages >= stages_min(shape, tile) && wanted <= most;
}

/// Time of the busiest multiprocessor in bytes of its share of the memory's bandwidth: weights, x from the L2 cache at a
/// fraction of the price, rows of a fragment that the tile leaves unused, an exchange over a cluster.
double cost(const ProjectionShape& shape, const ProjectionTile& tile, int columns, int processors) {
  constexpr double kCached = 0.4;
  constexpr double kExchange = 10e3;
  constexpr double kUnused = 0.15;
  const int tiles = ceil_div(shape.n, tile.rows);
  const int rounds = ceil_div(tiles, std::max(processors / tile.split, 1));
  const double rows = tile.rows + kUnused * (groups_of(tile) * kGroupRows - tile.rows);
  const double share = static_cast<double>(shape.k) / tile.split;
  const double bytes = (rows + kCached * columns) * (e4m3(shape) ? 1 : 2) * share;
  return rounds * bytes + (tile.split > 1 ? kExchange : 0.0);
}

/// Warpgroups for a tile of one fragment. BF16: out, 8 columns: 9.8 us with one, 9.4 with two.
int teams_of(const ProjectionShape& shape, const ProjectionTile& tile, int columns) {
  if (groups_of(tile) > 1 || columns > 64) return 1;
  if (e4m3(shape)) return 2;
  return columns <= 16 ? 2 : 1;
}

/// Chunks of a stage: large copies, but three stages at least, with E4M3 weights four, and what stages_min asks for.
int chunks_of(const ProjectionShape& shape, const ProjectionTile& tile, int columns) {
  constexpr int kStageBf16 = 40 << 10;
  constexpr int kStageE4m3 = 32 << 10;  // and row group
  const int ring = shared_max_of(shape) / 8 * 7;
  const int each = stage_bytes({.rows = tile.rows, .split = 1, .teams = 1, .chunks = 1}, columns);
  const int wanted = e4m3(shape) ? kStageE4m3 * groups_of(tile) : kStageBf16;
  const int stages = e4m3(shape) ? 4 : 3;
  int chunks = 1;
  while (chunks < 8 && 2 * chunks * each <= wanted && 2 * stages * chunks * each <= ring) chunks *= 2;
  const auto fits = [&](ProjectionTile whole) {
    std::uint32_t shared = 0;
    whole.chunks = chunks;
    return fit(shape, whole, columns, shared);
  };
  while (chunks > 1 && !fits(tile)) chunks /= 2;
  return chunks;
}

ProjectionTile choose_tile(const ProjectionShape& shape, int columns, int processors) {
  constexpr std::array kRows{16, 32, 48, 64, 96, 128, 192};
  constexpr int kFlightBf16 = 48 << 10;  // Qwen3-8B's chain, 8 columns: 3.66 ms; 24 KB 3.95, 128 KB 3.71
  constexpr int kFlightE4m3 = 32 << 10;  // 2.42 ms; 64 KB 2.48
  ProjectionTile best{};
  double least = std::numeric_limits<double>::infinity();
  for (const int rows : kRows)
    for (const int split : {1, 2}) {
      ProjectionTile tile{.rows = rows, .split = split, .teams = 1, .chunks = 1};
      if (rows % rows_granule(shape) != 0 || groups_of(tile) > groups_max(columns)) continue;
      if (split > 1 && ceil_div(shape.n, rows) * split > processors) continue;
      tile.teams = teams_of(shape, tile, columns);
      tile.chunks = chunks_of(shape, tile, columns);
      const double price = cost(shape, tile, columns, processors);
      std::uint32_t shared = 0;
      if (price > least || !fit(shape, tile, columns, shared)) continue;
      least = price;
      best = tile;
    }
  const int flight = e4m3(shape) ? kFlightE4m3 : kFlightBf16;
  best.flight = flight / (best.chunks * best.rows * kChunkBytes) + 1;
  return best;
}

Result<> check_shape(const ProjectionShape& shape) {
  if (shape.n < 1 || shape.k < 8 || shape.k % 8 != 0)
    return unsupported("weights", "a projection needs k a multiple of 8, has n = " + std::to_string(shape.n) +
                                      ", k = " + std::to_string(shape.k));
  const int most = e4m3(shape) ? kProjectionTokensE4m3 : kTokensMax;
  if (shape.tokens < 1 || shape.tokens > most || shape.tokens_max < 1)
    return unsupported("max_batch_size", "a projection takes 1 to " + std::to_string(most) + " tokens, not " +
                                             std::to_string(shape.tokens));
  if (gated(shape) && shape.n % 16 != 0)
    return unsupported("intermediate_size", "must be a multiple of 8, is " + std::to_string(shape.n / 2));
  if (shape.weights != DType::kBF16 && shape.weights != DType::kF8E4M3)
    return unsupported("weights", "must be BF16 or F8E4M3, are " + std::string(info(shape.weights).name));
  if (e4m3(shape) && shape.k % kE4m3Granule != 0)
    return unsupported("weights", "E4M3 weights need k a multiple of 16, have " + std::to_string(shape.k));
  return {};
}

/// [rows, k] in chunks of 128 bytes and boxes of `rows_box` rows and, where chunks fill k, all chunks of a stage.
gpu::TensorMapSpec map_of(gpu::DevicePtr base, gpu::TensorElement element, std::int64_t rows, std::int64_t k,
                          std::int64_t stride, int rows_box, int chunks) {
  const int bytes = element == gpu::TensorElement::kByte ? 1 : 2;
  const std::uint32_t chunk_k = static_cast<std::uint32_t>(kChunkBytes / bytes);
  const auto row_bytes = static_cast<std::uint64_t>(bytes * stride);
  const auto box_rows = static_cast<std::uint32_t>(rows_box);
  gpu::TensorMapSpec spec{.base = base, .element = element};
  spec.extents = {static_cast<std::uint64_t>(k), static_cast<std::uint64_t>(rows)};
  spec.strides = {row_bytes};
  spec.box = {chunk_k, box_rows};
  if (k % chunk_k != 0) return spec;
  spec.rank = 3;
  spec.extents = {chunk_k, static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(k) / chunk_k};
  spec.strides = {row_bytes, kChunkBytes};
  spec.box = {chunk_k, box_rows, static_cast<std::uint32_t>(chunks)};
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
  if (tile.rows < 16 || tile.rows % rows_granule(shape) != 0 || tile.split < 1 || tile.split > 2 ||
      tile.teams < 1 || groups_of(tile) * tile.teams > groups_max(plan.columns) ||
      (tile.teams > 1 && tile.rows > kGroupRows) || !fit(shape, plan.tile, plan.columns, plan.shared_bytes))
    return fail(ErrorCode::kInternal,
                "a projection tile of " + std::to_string(tile.rows) + " rows does not fit");
  const int tiles = ceil_div(shape.n, tile.rows);
  const int processors = std::max(device.info().multiprocessors, 1);
  // With a split every cluster has one tile; else as many blocks as make all rounds equally full.
  const int blocks = tile.split > 1 ? tiles * tile.split : ceil_div(tiles, ceil_div(tiles, processors));
  const std::string columns = std::to_string(plan.columns);
  plan.kernel = e4m3(shape) ? look_up(device, "projection_e4m3", "projection_e4m3_n" + columns)
                            : look_up(device, "projection", "projection_bf16_n" + columns);
  plan.grid = {static_cast<std::uint32_t>(blocks)};
  plan.block = {static_cast<std::uint32_t>((groups_of(tile) * tile.teams + 1) * kGroupThreads)};
  plan.squares_count = tiles;
  return plan;
}

Result<gpu::KernelLaunch> projection_launch(const ProjectionPlan& plan, const ProjectionTensors& t) {
  const ProjectionShape& shape = plan.shape;
  const std::int64_t ldx = t.ldx != 0 ? t.ldx : shape.k;
  ProjectionArgs args{};
  using gpu::TensorElement;
  const TensorElement element = e4m3(shape) ? TensorElement::kByte : TensorElement::kBf16;
  MET_ASSIGN(args.weights, encode(*plan.device, map_of(t.weights, element, shape.n, shape.k, shape.k,
                                                       plan.tile.rows, plan.tile.chunks)));
  MET_ASSIGN(args.x, encode(*plan.device, map_of(t.x, element, shape.tokens_max, shape.k, ldx, plan.columns,
                                                 plan.tile.chunks)));
  MET_CHECK(t.coded.codes == nullptr || shape.coded,
            "coded rows of a projection that was not planned for them");
  args.counts = at<const StepCounts>(t.counts);
  args.x_scales = at<const float>(t.x_scales);
  args.weight_scales = at<const float>(t.weight_scales);
  args.bias = at<const float>(t.bias);
  args.norm = t.norm;
  args.residual = at<Bf16Bits>(t.residual);
  args.y = at<void>(t.y);
  args.next_norm = at<const float>(t.next_norm);
  args.scaled = at<Bf16Bits>(t.scaled);
  args.squares = at<float>(t.squares);
  args.coded = t.coded;
  args.ldy = t.ldy;
  args.n = static_cast<std::int32_t>(shape.n);
  args.k = static_cast<std::int32_t>(shape.k);
  args.squares_count = plan.squares_count;
  args.logits = t.logits;
  args.y_f32 = t.y_f32;
  args.block_scales = shape.block_scales;
  args.epilogue = shape.epilogue;
  args.tile = plan.tile;
  gpu::KernelLaunch launch(plan.kernel, plan.grid, plan.block, plan.shared_bytes);
  launch.scalar(args).dependent().note({.operation = "projection",
                                        .n = shape.n,
                                        .k = shape.k,
                                        .bytes = shape.n * shape.k * info(shape.weights).block_bytes});
  if (plan.tile.split > 1) launch.cluster({static_cast<std::uint32_t>(plan.tile.split)});
  return launch;
}

Result<> projection(const ProjectionPlan& plan, const ProjectionTensors& tensors, gpu::Stream stream) {
  MET_ASSIGN(const gpu::KernelLaunch launch, projection_launch(plan, tensors));
  return plan.device->launch(launch, stream);
}

}  // namespace met::ops::cuda
