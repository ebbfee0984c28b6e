// Inputs and FP64 oracle of the decode projection.
#include <algorithm>
#include <cmath>

#include "ops/cuda/projection.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

constexpr std::uint16_t kNan = 0x7fc0;  // rows that nobody may read for a result
constexpr float kEps = 1e-6F;

struct Shape {
  const char* name;
  std::int64_t n, k;
  int room, tokens;  ///< rows of the bucket and live ones
  Epilogue epilogue = Epilogue::kStore;
  bool norm = false, bias = false, next = false, y_f32 = false;
  int parts = 1;
  ProjectionTile tile{};  ///< rows 0: the plan's choice
  DType type = DType::kBF16;
  bool blocks = false;  ///< weight_scales of blocks
  bool coded = false;   ///< gated rows, or the next norm's, go out as codes
};

struct Inputs {
  std::vector<std::uint16_t> weights, x, residual, y;
  std::vector<std::uint8_t> e4m3, x_codes;  ///< where weights are E4M3
  std::vector<float> bias, parts, next_norm, y_f32, weight_scales, x_scales;
};

bool gated(const Shape& s) { return s.epilogue == Epilogue::kSiluMul || s.epilogue == Epilogue::kGeluMul; }
bool residual(const Shape& s) { return s.epilogue == Epilogue::kResidual; }
bool e4m3(const Shape& s) { return s.type == DType::kF8E4M3; }
std::int64_t ldy_of(const Shape& s) { return gated(s) ? s.n / 2 : s.n; }

constexpr std::int64_t kBlock = 128;
constexpr std::int64_t kGroup = ops::cuda::kScaleValues;
constexpr float kUntouched = 3.0F;  // a scale that nobody may write
std::int64_t blocks_of(std::int64_t size) { return (size + kBlock - 1) / kBlock; }
/// Rows of block scales: where gate and up alternate, blocks of both in turn.
std::int64_t block_rows(const Shape& s) { return gated(s) ? 2 * blocks_of(s.n / 2) : blocks_of(s.n); }
std::int64_t block_row(const Shape& s, std::int64_t n) {
  if (!gated(s)) return n / kBlock;
  const std::int64_t row = n / 16 * 8 + n % 8;  // of gate or of up
  return row / kBlock * 2 + n % 16 / 8;
}

/// Where the scale of row t and the value `at` of it stands, of rows as CodedRows.
std::size_t scale_index(int rows, int t, std::int64_t at) {
  return static_cast<std::size_t>((at / kBlock * rows + t) * (kBlock / kGroup) + at % kBlock / kGroup);
}
std::size_t scale_count(int rows, std::int64_t width) {
  return scale_index(rows, 0, blocks_of(width) * kBlock);
}

/// Live rows of x as codes with a scale for 32 of k; the others are NaN.
void code_x(const Shape& s, int columns, Inputs& in) {
  in.x_codes.assign(in.x.size(), 0x7f);
  in.x_scales.assign(scale_count(columns, s.k), kUntouched);
  for (int t = 0; t < s.tokens; ++t)
    for (std::int64_t begin = 0; begin < s.k; begin += kGroup) {
      const auto first = static_cast<std::size_t>(t * s.k + begin);
      const std::size_t end = first + static_cast<std::size_t>(std::min(kGroup, s.k - begin));
      float most = 1e-20F;
      for (std::size_t i = first; i < end; ++i) most = std::max(most, std::abs(bf16_to_f32(in.x[i])));
      const float scale = most / 448.0F;
      in.x_scales[scale_index(columns, t, begin)] = scale;
      for (std::size_t i = first; i < end; ++i) in.x_codes[i] = f32_to_f8e4m3(bf16_to_f32(in.x[i]) / scale);
    }
}

/// E4M3 weights of all values but NaN, subnormals and zeros included, with scales that bring a sum to order 1.
void make_e4m3(const Shape& s, Inputs& in, Rng& rng) {
  in.e4m3.resize(static_cast<std::size_t>(s.n * s.k));
  for (std::int64_t i = 0; i < s.n * s.k; ++i) {
    auto byte = static_cast<std::uint8_t>(rng.next());
    if ((byte & 0x7f) == 0x7f) byte ^= 1;
    in.e4m3[static_cast<std::size_t>(i)] = byte;
    in.weights[static_cast<std::size_t>(i)] = f32_to_bf16(f8e4m3_to_f32(byte));
  }
  const std::int64_t scales = s.blocks ? block_rows(s) * blocks_of(s.k) : s.n;
  for (std::int64_t i = 0; i < scales; ++i)
    in.weight_scales.push_back(
        static_cast<float>(rng.uniform(0.005, 0.02) / std::sqrt(static_cast<double>(s.k))));
}

Inputs inputs_of(const Shape& s, int columns) {
  Rng rng{static_cast<std::uint64_t>(s.n * 31 + s.k * 7 + s.tokens)};
  Inputs in;
  const auto rows = static_cast<std::size_t>(s.room);
  in.weights =
      random_bf16(rng, static_cast<std::size_t>(s.n * s.k), 2.0 / std::sqrt(static_cast<double>(s.k)));
  in.x = random_bf16(rng, rows * static_cast<std::size_t>(s.k), 2.0);
  std::fill(in.x.begin() + s.tokens * s.k, in.x.end(), kNan);
  in.residual = random_bf16(rng, rows * static_cast<std::size_t>(s.n), 3.0);
  in.y = random_bf16(rng, rows * static_cast<std::size_t>(ldy_of(s)), 1.0);
  for (const std::uint16_t v : in.y) in.y_f32.push_back(bf16_to_f32(v));
  for (std::int64_t i = 0; i < s.n; ++i) {
    in.bias.push_back(static_cast<float>(rng.uniform(-1.0, 1.0)));
    in.next_norm.push_back(static_cast<float>(rng.uniform(-2.0, 2.0)));
  }
  for (int i = 0; i < s.room * s.parts; ++i)
    in.parts.push_back(static_cast<float>(rng.uniform(0.1, 2.0) * static_cast<double>(s.k) / s.parts));
  if (e4m3(s)) make_e4m3(s, in, rng);
  if (e4m3(s)) code_x(s, columns, in);
  return in;
}

double weight_scale(const Shape& s, const Inputs& in, std::size_t n, std::int64_t k) {
  const auto row = static_cast<std::int64_t>(n);
  const std::int64_t at = s.blocks ? block_row(s, row) * blocks_of(s.k) + k / kBlock : row;
  return static_cast<double>(in.weight_scales[static_cast<std::size_t>(at)]);
}

/// A row of x as the product reads it.
std::vector<double> row_of(const Shape& s, const Inputs& in, int columns, int t) {
  std::vector<double> row;
  for (std::int64_t k = 0; k < s.k; ++k) {
    const auto at = static_cast<std::size_t>(t * s.k + k);
    row.push_back(e4m3(s) ? static_cast<double>(f8e4m3_to_f32(in.x_codes[at])) *
                                static_cast<double>(in.x_scales[scale_index(columns, t, k)])
                          : static_cast<double>(bf16_to_f32(in.x[at])));
  }
  return row;
}

/// s[t, :] with norm and bias, FP64.
std::vector<double> sums_of(const Shape& s, const Inputs& in, int columns, int t) {
  double scale = 1.0;
  if (s.norm) {
    double total = 0;
    for (int i = 0; i < s.parts; ++i)
      total += static_cast<double>(in.parts[static_cast<std::size_t>(t * s.parts + i)]);
    scale = 1.0 / std::sqrt(total / static_cast<double>(s.k) + static_cast<double>(kEps));
  }
  const std::vector<double> x = row_of(s, in, columns, t);
  std::vector<double> sums(static_cast<std::size_t>(s.n));
  for (std::size_t n = 0; n < sums.size(); ++n) {
    const std::uint16_t* row = in.weights.data() + n * x.size();
    double sum = 0;
    double part = 0;  // of a block of k
    for (std::size_t i = 0; i < x.size(); ++i) {
      part += static_cast<double>(bf16_to_f32(row[i])) * x[i];
      if ((i + 1) % kBlock != 0 && i + 1 != x.size()) continue;
      sum += e4m3(s) ? part * weight_scale(s, in, n, static_cast<std::int64_t>(i)) : part;
      part = 0;
    }
    sums[n] = scale * sum + (s.bias ? static_cast<double>(in.bias[n]) : 0.0);
  }
  return sums;
}

double activate(double gate, Epilogue epilogue) {
  if (epilogue == Epilogue::kSiluMul) return gate / (1.0 + std::exp(-gate));
  return 0.5 * gate * (1.0 + std::tanh(std::sqrt(2.0 / M_PI) * (gate + 0.044715 * gate * gate * gate)));
}

enum Buffer {
  kWeights,
  kX,
  kCounts,
  kBias,
  kParts,
  kResidualBuffer,
  kY,
  kNextNorm,
  kScaled,
  kSquares,
  kWeightScales,
  kXScales,
  kCodes,
  kCodeScales
};

/// A row's codes and scales.
void code_row(const Shape& s, int columns, int t, std::span<const double> row, Output& codes,
              Output& scales) {
  for (std::int64_t begin = 0; begin < ldy_of(s); begin += kGroup) {
    const std::int64_t end = std::min(begin + kGroup, ldy_of(s));
    double most = 1e-20;
    for (std::int64_t i = begin; i < end; ++i)
      most = std::max(most, std::abs(row[static_cast<std::size_t>(i)]));
    scales.want[scale_index(columns, t, begin)] = most / 448;
    for (std::int64_t i = begin; i < end; ++i)
      codes.want[static_cast<std::size_t>(t * ldy_of(s) + i)] = row[static_cast<std::size_t>(i)] * 448 / most;
  }
}

/// Outputs as they stood before, then the live rows. Order: y, or residual, scaled, squares; then codes and scales. Gated
/// rows that are coded leave y alone.
void oracle(const Shape& s, const Inputs& in, const ops::cuda::ProjectionPlan& plan,
            std::span<Output> outputs) {
  const int tile_rows = plan.tile.rows;
  const auto ldy = static_cast<std::size_t>(ldy_of(s));
  outputs[0].want = residual(s) ? values_of(in.residual) : values_of(in.y);
  if (s.next) {
    outputs[1].want.assign(in.residual.size(), 0.0);
    const auto tiles = static_cast<std::size_t>((s.n + tile_rows - 1) / tile_rows);
    outputs[2].want.assign(static_cast<std::size_t>(s.room) * tiles, 0.0);
  }
  const std::size_t first_coded = outputs.size() - 2;
  if (s.coded) {
    outputs[first_coded].want.assign(static_cast<std::size_t>(s.room) * ldy, 0.0);
    outputs[first_coded + 1].want.assign(scale_count(plan.columns, ldy_of(s)),
                                         static_cast<double>(kUntouched));
  }
  const std::vector<double> y_before = outputs[0].want;
  for (int t = 0; t < s.tokens; ++t) {
    const std::vector<double> sums = sums_of(s, in, plan.columns, t);
    const std::size_t row = static_cast<std::size_t>(t) * ldy;
    for (std::size_t n = 0; n < sums.size(); ++n) {
      if (gated(s)) {
        if (n % 16 >= 8) continue;
        outputs[0].want[row + n / 16 * 8 + n % 8] = activate(sums[n], s.epilogue) * sums[n + 8];
        continue;
      }
      double& y = outputs[0].want[row + n];
      y = residual(s) ? y + sums[n] : sums[n];
      if (!s.next) continue;
      outputs[1].want[row + n] = y * static_cast<double>(in.next_norm[n]);
      const std::size_t tiles = outputs[2].want.size() / static_cast<std::size_t>(s.room);
      outputs[2].want[static_cast<std::size_t>(t) * tiles + n / static_cast<std::size_t>(tile_rows)] += y * y;
    }
    if (!s.coded) continue;
    const std::vector<double>& rows = outputs[gated(s) ? 0 : 1].want;
    code_row(s, plan.columns, t, std::span(rows).subspan(row, ldy), outputs[first_coded],
             outputs[first_coded + 1]);
  }
  if (s.coded && gated(s)) outputs[0].want = y_before;
}

std::vector<Output> outputs_of(const Shape& s) {
  // Sums of terms of order 1, as tensor cores add them: of E4M3 they keep some 13 bits within 128 of k.
  const double kSums = !e4m3(s) ? 0x1p-13 : gated(s) ? 0x1p-5 : 0x1p-7;
  const Tolerance bf16{"one BF16 rounding of FP32 sums", kBf16Rounding, kSums};
  const Tolerance f32{"FP32 sums", 0x1p-18, kSums};
  std::vector<Output> outputs;
  if (residual(s))
    outputs.push_back({.buffer = kResidualBuffer, .tolerance = bf16});
  else
    outputs.push_back(
        {.buffer = kY, .type = s.y_f32 ? DType::kF32 : DType::kBF16, .tolerance = s.y_f32 ? f32 : bf16});
  if (s.next) {
    outputs.push_back({.buffer = kScaled, .tolerance = {"two BF16 roundings", 2 * kBf16Rounding, 4 * kSums}});
    outputs.push_back({.buffer = kSquares,
                       .type = DType::kF32,
                       .tolerance = {"squares of BF16 roundings", 2 * kBf16Rounding, 0x1p-7}});
  }
  if (s.coded) {
    outputs.push_back({.buffer = kCodes,
                       .type = DType::kF8E4M3,
                       .tolerance = {"one E4M3 rounding of sums over a scale", 0x1p-4 + 0x1p-6, 4.0}});
    outputs.push_back({.buffer = kCodeScales,
                       .type = DType::kF32,
                       .tolerance = {"the largest of 32 sums", 0x1p-6, 4 * kSums / 448}});
  }
  return outputs;
}

Result<OpCase> projection(GpuBackend& gpu, const Shape& s) {
  const ops::cuda::ProjectionShape shape{.n = s.n,
                                         .k = s.k,
                                         .tokens = s.room,
                                         .tokens_max = s.room,
                                         .weights = s.type,
                                         .block_scales = s.blocks,
                                         .epilogue = s.epilogue,
                                         .coded = s.coded};
  MET_ASSIGN(const auto plan, s.tile.rows != 0 ? ops::cuda::plan_projection(gpu, shape, s.tile)
                                               : ops::cuda::plan_projection(gpu, shape));
  const Inputs in = inputs_of(s, plan.columns);
  const auto zeros = [&](std::int64_t values, int bytes) {
    return std::vector<std::byte>(static_cast<std::size_t>(s.room * values * bytes));
  };
  const StepCounts counts{s.tokens, s.tokens, s.tokens, s.tokens};
  OpCase op{
      .op = std::string(e4m3(s) ? "projection e4m3 " : "projection ") + s.name,
      .shape = std::to_string(s.tokens) + "/" + std::to_string(plan.columns) + " " + std::to_string(s.n) +
               "x" + std::to_string(s.k) + " (" + std::to_string(plan.tile.rows) + "," +
               std::to_string(plan.tile.split) + "," + std::to_string(plan.tile.chunks) + "," +
               std::to_string(plan.tile.stages) + ")",
      .buffers = {e4m3(s) ? raw(in.e4m3) : bytes_of(in.weights), e4m3(s) ? raw(in.x_codes) : bytes_of(in.x),
                  raw(std::vector{counts}), raw(in.bias), raw(in.parts), bytes_of(in.residual),
                  s.y_f32 ? raw(in.y_f32) : bytes_of(in.y), raw(in.next_norm), zeros(s.n, 2),
                  zeros(plan.squares_count, 4), raw(in.weight_scales), raw(in.x_scales), zeros(ldy_of(s), 1),
                  raw(std::vector<float>(scale_count(plan.columns, ldy_of(s)), kUntouched))},
      .outputs = outputs_of(s)};
  op.oracle = [=](std::vector<Output>& outputs) { oracle(s, in, plan, outputs); };
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    const auto given = [&](bool wanted, Buffer b) { return wanted ? p[b] : DevicePtr{}; };
    ops::cuda::ProjectionTensors t{.weights = p[kWeights], .x = p[kX], .counts = p[kCounts]};
    t.bias = given(s.bias, kBias);
    t.weight_scales = given(e4m3(s), kWeightScales);
    t.x_scales = given(e4m3(s), kXScales);
    if (s.coded)
      t.coded = {.codes = reinterpret_cast<std::uint8_t*>(p[kCodes].value),
                 .scales = reinterpret_cast<float*>(p[kCodeScales].value),
                 .width = static_cast<std::int32_t>(ldy_of(s)),
                 .rows = plan.columns};
    if (s.norm) t.norm = {reinterpret_cast<float*>(p[kParts].value), s.parts, kEps};
    t.residual = given(residual(s), kResidualBuffer);
    t.y = given(!residual(s), kY);
    t.next_norm = given(s.next, kNextNorm);
    t.scaled = given(s.next, kScaled);
    t.squares = given(s.next, kSquares);
    t.ldy = ldy_of(s);
    t.y_f32 = s.y_f32;
    MET_ASSIGN(const KernelLaunch launch, ops::cuda::projection_launch(plan, t));
    return std::vector{launch};
  };
  const double rows = s.tokens;
  const double x_bytes = e4m3(s) ? 1.0 : 2.0;
  op.bytes = x_bytes * static_cast<double>(s.n * s.k) +
             rows * (x_bytes * static_cast<double>(s.k) + 2.0 * static_cast<double>(ldy_of(s)));
  op.flops = s.room >= 64 ? 2.0 * rows * static_cast<double>(s.n * s.k) : 0.0;
  return op;
}

Shape with_e4m3(Shape s) {
  s.type = DType::kF8E4M3;
  return s;
}
/// E4M3 as a step launches it: what the next product reads goes out as codes.
Shape with_codes(Shape s) {
  s.coded = gated(s) || s.next;
  return with_e4m3(s);
}
Shape with_blocks(Shape s) {
  s.blocks = true;
  return with_e4m3(s);
}

std::vector<Shape> timed_shapes() {
  std::vector<Shape> shapes;
  for (const int n : {1, 8, 16, 32, 64, 128, 256}) {
    shapes.push_back({"qkv", 6144, 4096, n, n, Epilogue::kStore, true, false, false, false, 64});
    shapes.push_back({"out", 4096, 4096, n, n, Epilogue::kResidual, false, false, true});
    shapes.push_back({"gate up", 24576, 4096, n, n, Epilogue::kSiluMul, true, false, false, false, 64});
    shapes.push_back({"down", 4096, 12288, n, n, Epilogue::kResidual, false, false, true});
  }
  const std::vector<Shape> layers = shapes;
  for (const Shape& layer : layers)
    if (layer.room <= ops::cuda::kProjectionTokensE4m3) shapes.push_back(with_codes(layer));
  for (const int n : {1, 32, 256})
    shapes.push_back({"head", 151936, 4096, n, n, Epilogue::kStore, true, false, false, true, 64});
  for (const int n : {1, 16}) {
    shapes.push_back({"qkv smollm2", 960, 576, n, n, Epilogue::kStore, true, false, false, false, 9});
    shapes.push_back({"down smollm2", 576, 1536, n, n, Epilogue::kResidual, false, false, true});
    shapes.push_back(
        {"gate up llama3", 28672, 4096, n, n, Epilogue::kSiluMul, true, false, false, false, 64});
    shapes.push_back({"down llama3", 4096, 14336, n, n, Epilogue::kResidual, false, false, true});
  }
  return shapes;
}

std::vector<Shape> probing_shapes() {
  std::vector<Shape> shapes;
  constexpr auto kStore = Epilogue::kStore;
  constexpr auto kAdd = Epilogue::kResidual;
  // Small and odd sizes: tails of k within a chunk and of n within a tile, no rows, one row, part of the bucket.
  for (const int room : {8, 16, 32, 64, 128, 256})
    for (const int tokens : {0, 1, room - 3, room}) {
      shapes.push_back({"qkv", 192, 64, room, tokens, kStore, true, true, false, false, 3});
      shapes.push_back({"out", 72, 160, room, tokens, kAdd, false, false, true});
      shapes.push_back({"gate up", 320, 72, room, tokens, Epilogue::kSiluMul, true, true, false, false, 40});
      shapes.push_back({"gate up gelu", 384, 128, room, tokens, Epilogue::kGeluMul, false, false});
      shapes.push_back({"down", 129, 192, room, tokens, kAdd, false, true, true});
      shapes.push_back({"head", 451, 200, room, tokens, kStore, true, false, false, true, 2});
    }
  // Every way to cut a tile.
  for (const int room : {8, 64, 256})
    for (const int rows : {16, 32, 48, 64, 96, 128})
      for (const int split : {1, 2}) {
        const ProjectionTile tile{.rows = rows,
                                  .split = split,
                                  .teams = 1,
                                  .chunks = room > 64 ? 1 : 2,
                                  .stages = 0,
                                  .flight = 0,
                                  .exchange = 0};
        shapes.push_back({"cut", 576, 1536, room, room - 1, kAdd, false, true, true, false, 1, tile});
        shapes.push_back(
            {"cut", 480, 576, room, room - 1, Epilogue::kSiluMul, true, false, false, false, 5, tile});
      }
  // Teams of warpgroups, with fewer stages than teams, several tiles a block, and a cluster.
  for (const int room : {8, 32, 64})
    for (const int teams : {2, 3})
      for (const int split : {1, 2}) {
        const ProjectionTile tile{
            .rows = 16, .split = split, .teams = teams, .chunks = 1, .stages = 0, .flight = 0, .exchange = 0};
        shapes.push_back({"teams", 576, 576, room, room - 1, kAdd, false, true, true, false, 1, tile});
        shapes.push_back({"teams", 4096, 64, room, room - 1, kStore, true, false, false, true, 5, tile});
        if (room > ops::cuda::kProjectionTokensE4m3) continue;
        shapes.push_back(
            with_e4m3({"teams", 576, 576, room, room - 1, kAdd, false, true, true, false, 1, tile}));
        shapes.push_back(
            with_blocks({"teams", 4096, 64, room, room - 1, kStore, true, false, false, true, 5, tile}));
      }
  // E4M3: k with and without a tail of a 128-byte chunk, and of what the copy engine takes at once.
  for (const int room : {8, 16, 32})
    for (const int tokens : {0, 1, room - 1}) {
      shapes.push_back(with_blocks({"qkv", 456, 592, room, tokens, kStore, true, true, false, false, 3}));
      shapes.push_back(with_blocks({"out", 129, 208, room, tokens, kAdd, false, true, true}));
      shapes.push_back(with_blocks({"gate up", 560, 272, room, tokens, Epilogue::kSiluMul, true, true}));
      shapes.push_back(with_e4m3({"gate up gelu", 384, 16, room, tokens, Epilogue::kGeluMul}));
      shapes.push_back(with_e4m3({"qkv", 192, 64, room, tokens, kStore, true, true, false, false, 3}));
      shapes.push_back(with_e4m3({"out", 72, 192, room, tokens, kAdd, false, false, true}));
      shapes.push_back(
          with_e4m3({"gate up", 320, 128, room, tokens, Epilogue::kSiluMul, true, true, false, false, 40}));
      shapes.push_back(with_e4m3({"down", 576, 1536, room, tokens, kAdd, false, true, true}));
      // Coded rows: with and without a tail of 32, and several tiles a block.
      shapes.push_back(with_codes({"down coded", 576, 1536, room, tokens, kAdd, false, true, true}));
      shapes.push_back(with_codes({"out coded", 129, 208, room, tokens, kAdd, false, false, true}));
      shapes.push_back(with_codes({"out coded", 30000, 64, room, tokens, kAdd, false, false, true}));
      shapes.push_back(with_codes({"gate up coded", 560, 272, room, tokens, Epilogue::kSiluMul, true, true}));
      shapes.push_back(with_codes({"gate up coded", 384, 16, room, tokens, Epilogue::kGeluMul}));
      shapes.push_back(with_codes({"gate up coded", 30000, 64, room, tokens, Epilogue::kSiluMul}));
      shapes.push_back(with_e4m3({"head", 451, 320, room, tokens, kStore, true, false, false, true, 2}));
    }
  for (const int room : {8, 16, 32})
    for (const int rows : {32, 64, 96, 128, 192})
      for (const int split : {1, 2}) {
        const ProjectionTile tile{.rows = rows, .split = split, .teams = 1, .chunks = 1};
        shapes.push_back(
            with_codes({"cut", 576, 1536, room, room - 1, kAdd, false, true, true, false, 1, tile}));
        Shape gate_up{"cut", 480,   576,   room,  room - 1, Epilogue::kSiluMul,
                      true,  false, false, false, 5,        tile};
        if (rows % 64 == 0) gate_up.coded = true;
        shapes.push_back(with_blocks(gate_up));
      }
  shapes.push_back(with_e4m3({"qkv qwen3-8b", 6144, 4096, 8, 5, kStore, true, false, false, false, 64}));
  shapes.push_back(with_codes({"down qwen3-8b", 4096, 12288, 16, 3, kAdd, false, false, true}));
  // Sizes of models.
  shapes.push_back({"qkv qwen3-8b", 6144, 4096, 8, 5, kStore, true, false, false, false, 128});
  shapes.push_back({"down qwen3-8b", 4096, 12288, 8, 3, kAdd, false, false, true});
  shapes.push_back(
      {"gate up qwen3-8b", 24576, 4096, 8, 2, Epilogue::kSiluMul, true, false, false, false, 64});
  shapes.push_back({"head smollm2", 49152, 576, 16, 9, kStore, true, false, false, true, 9});
  shapes.push_back({"down qwen3-0.6b", 1024, 3072, 128, 100, kAdd, false, false, true});
  return shapes;
}

}  // namespace

Result<std::vector<OpCase>> projection_cases(GpuBackend& gpu, bool timed) {
  std::vector<OpCase> cases;
  for (const Shape& s : timed ? timed_shapes() : probing_shapes()) {
    MET_ASSIGN(OpCase made, projection(gpu, s));
    cases.push_back(std::move(made));
  }
  return cases;
}

}  // namespace met::gpu::check
