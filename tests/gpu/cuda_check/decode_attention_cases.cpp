// Inputs and FP64 oracle of decode attention.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "ops/cuda/decode_attention.h"
#include "ops/cuda/tensor_map.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

constexpr int kBlockTokens = 16;
constexpr float kEps = 1e-6F;
constexpr std::uint32_t kBlocks =
    5;  // of the grid, where a case sets its splits: blocks take several items each

struct AttentionCase {
  int heads, kv_heads, head_dim;
  std::vector<int> contexts;  // of the decode rows, the new token counted
  int rows_max = 0;           // 0: as many as there are rows
  DType cache = DType::kBF16;
  int rotary_dim = -1;  // -1: head_dim
  bool interleaved = false;
  bool norms = false;
  bool sinks = false;
  int window = 0;
  float softcap = 0;
  int splits = 0;      // 0: the plan's
  bool coded = false;  // y goes out as codes
  bool brief = false;  // planned for contexts of kBriefPositions
};

struct Inputs {
  std::vector<std::uint16_t> qkv, y;
  std::vector<float> q_norm, k_norm, inverse, sinks;
  std::vector<StepRow> rows;
  std::vector<std::int32_t> table;
  std::vector<std::byte> k_cache, v_cache;
  std::vector<double> k_values, v_values;  // of the caches
  int blocks = 0;
  int rows_max = 0;
};

bool is_e4m3(const AttentionCase& c) { return c.cache == DType::kF8E4M3; }
float k_scale(const AttentionCase& c) { return is_e4m3(c) ? 0.02F : 1.0F; }
float v_scale(const AttentionCase& c) { return is_e4m3(c) ? 0.005F : 1.0F; }
int rotary(const AttentionCase& c) { return c.rotary_dim < 0 ? c.head_dim : c.rotary_dim; }
int longest(const AttentionCase& c) { return c.contexts.empty() ? 0 : *std::ranges::max_element(c.contexts); }
float query_scale(const AttentionCase& c) {
  return (c.norms ? 1.5F : 1.0F) / std::sqrt(static_cast<float>(c.head_dim));
}

/// Rounds as a cache stores.
double rounded(const AttentionCase& c, double v) {
  return is_e4m3(c) ? f8e4m3_to_f32(f32_to_f8e4m3(static_cast<float>(std::clamp(v, -448.0, 448.0))))
                    : bf16_to_f32(f32_to_bf16(static_cast<float>(v)));
}

std::size_t line_of(const AttentionCase& c, const Inputs& in, const StepRow& row, int head, int position) {
  const auto block =
      static_cast<std::size_t>(in.table[static_cast<std::size_t>(row.table_begin + position / kBlockTokens)]);
  return ((block * static_cast<std::size_t>(c.kv_heads) + static_cast<std::size_t>(head)) * kBlockTokens +
          static_cast<std::size_t>(position % kBlockTokens)) *
         static_cast<std::size_t>(c.head_dim);
}

/// Random slots where `timed`; else NaN, and values only where a row may look.
void fill_cache(const AttentionCase& c, Inputs& in, Rng& rng, bool timed, double magnitude,
                std::vector<std::byte>& cache) {
  const std::size_t count = static_cast<std::size_t>(in.blocks) * static_cast<std::size_t>(c.kv_heads) *
                            kBlockTokens * static_cast<std::size_t>(c.head_dim);
  std::vector<std::uint16_t> bf16(is_e4m3(c) ? 0 : count, 0x7fc0);
  std::vector<std::uint8_t> e4m3(is_e4m3(c) ? count : 0, 0x7f);
  const auto put = [&](std::size_t i, double v) {
    if (is_e4m3(c))
      e4m3[i] = f32_to_f8e4m3(static_cast<float>(v));
    else
      bf16[i] = f32_to_bf16(static_cast<float>(v));
  };
  if (timed) {
    if (is_e4m3(c))
      for (std::size_t i = 0; i < count; ++i) e4m3[i] = static_cast<std::uint8_t>(rng.next() & 0xbfU);
    else
      bf16 = random_bf16(rng, count, magnitude);
  } else {
    for (const StepRow& row : in.rows) {
      const int from = c.window > 0 ? std::max(0, row.position - c.window + 1) : 0;
      for (int p = from; p < row.position; ++p)
        for (int h = 0; h < c.kv_heads; ++h)
          for (int d = 0; d < c.head_dim; ++d)
            put(line_of(c, in, row, h, p) + static_cast<std::size_t>(d), rng.uniform(-magnitude, magnitude));
    }
  }
  cache = is_e4m3(c) ? raw(e4m3) : raw(bf16);
}

std::vector<double> decoded(const AttentionCase& c, const std::vector<std::byte>& cache) {
  std::vector<double> values;
  const std::size_t bytes = is_e4m3(c) ? 1 : 2;
  values.reserve(cache.size() / bytes);
  for (std::size_t i = 0; i < cache.size(); i += bytes) {
    const auto low = static_cast<unsigned>(cache[i]);
    values.push_back(
        is_e4m3(c) ? f8e4m3_to_f32(static_cast<std::uint8_t>(low))
                   : bf16_to_f32(static_cast<std::uint16_t>(low | static_cast<unsigned>(cache[i + 1]) << 8)));
  }
  return values;
}

Inputs inputs_of(const AttentionCase& c, bool timed) {
  Rng rng{static_cast<std::uint64_t>(c.heads * 1009 + c.head_dim + c.window * 31) + c.contexts.size()};
  Inputs in;
  const auto rows = static_cast<int>(c.contexts.size());
  in.rows_max = std::max(c.rows_max, rows);
  for (int r = 0; r < rows; ++r) {
    in.rows.push_back({r, 1, c.contexts[static_cast<std::size_t>(r)] - 1, in.blocks});
    in.blocks += (c.contexts[static_cast<std::size_t>(r)] + kBlockTokens - 1) / kBlockTokens;
  }
  in.blocks += 1;  // one that no row has
  in.table.resize(static_cast<std::size_t>(in.blocks));
  std::iota(in.table.begin(), in.table.end(), 0);
  for (std::size_t i = in.table.size() - 1; i > 0; --i)
    std::swap(in.table[i], in.table[rng.next() % (i + 1)]);
  for (int r = rows; r < in.rows_max; ++r) in.rows.push_back({r, 1, 1 << 20, 1 << 20});  // beyond the count
  const std::size_t width =
      static_cast<std::size_t>(c.heads + 2 * c.kv_heads) * static_cast<std::size_t>(c.head_dim);
  in.qkv = random_bf16(rng, static_cast<std::size_t>(in.rows_max) * width, is_e4m3(c) || c.norms ? 2.0 : 3.0);
  std::fill(in.qkv.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(rows) * width),
            in.qkv.end(), 0x7fc0);
  in.y = random_bf16(
      rng, static_cast<std::size_t>(in.rows_max) * static_cast<std::size_t>(c.heads * c.head_dim), 2.0);
  for (int d = 0; d < c.head_dim; ++d) {
    in.q_norm.push_back(static_cast<float>(rng.uniform(0.5, 2.0)));
    in.k_norm.push_back(static_cast<float>(rng.uniform(-1.5, 1.5)));
  }
  for (int i = 0; i < std::max(1, rotary(c) / 2); ++i)
    in.inverse.push_back(static_cast<float>(std::pow(10000.0, -2.0 * i / std::max(2, rotary(c)))));
  for (int h = 0; h < c.heads; ++h) in.sinks.push_back(static_cast<float>(rng.uniform(-2.0, 4.0)));
  std::vector<StepRow> live(in.rows.begin(), in.rows.begin() + rows);
  std::swap(live, in.rows);
  fill_cache(c, in, rng, timed, is_e4m3(c) ? 100.0 : 2.0, in.k_cache);
  fill_cache(c, in, rng, timed, is_e4m3(c) ? 200.0 : 1.0, in.v_cache);
  std::swap(live, in.rows);
  if (!timed) {
    in.k_values = decoded(c, in.k_cache);
    in.v_values = decoded(c, in.v_cache);
  }
  return in;
}

/// A head after its norm, where there are weights, and rotation.
std::vector<double> prepared(const AttentionCase& c, const Inputs& in, const std::uint16_t* from,
                             int position, const std::vector<float>& weights) {
  std::vector<double> head;
  for (int d = 0; d < c.head_dim; ++d) head.push_back(bf16_to_f32(from[d]));
  if (c.norms) {
    double sum = 0;
    for (const double v : head) sum += v * v;
    const double scale = 1.0 / std::sqrt(sum / c.head_dim + static_cast<double>(kEps));
    for (std::size_t d = 0; d < head.size(); ++d) head[d] *= scale * static_cast<double>(weights[d]);
  }
  const int half = rotary(c) / 2;
  for (int i = 0; i < half; ++i) {
    double& a = head[static_cast<std::size_t>(c.interleaved ? 2 * i : i)];
    double& b = head[static_cast<std::size_t>(c.interleaved ? 2 * i + 1 : i + half)];
    const double angle =
        static_cast<double>(static_cast<float>(position) * in.inverse[static_cast<std::size_t>(i)]);
    const double was = a;
    a = was * std::cos(angle) - b * std::sin(angle);
    b = b * std::cos(angle) + was * std::sin(angle);
  }
  return head;
}

/// One row and query head against the caches, which hold the new token already.
void attend(const AttentionCase& c, const Inputs& in, const StepRow& row, int head,
            const std::vector<double>& q, std::span<const double> k, std::span<const double> v, double* out) {
  const int kv_head = head / (c.heads / c.kv_heads);
  const int from = c.window > 0 ? std::max(0, row.position - c.window + 1) : 0;
  std::vector<double> scores;
  for (int p = from; p <= row.position; ++p) {
    const std::size_t line = line_of(c, in, row, kv_head, p);
    double dot = 0;
    for (int d = 0; d < c.head_dim; ++d)
      dot += q[static_cast<std::size_t>(d)] * k[line + static_cast<std::size_t>(d)];
    double s = dot * static_cast<double>(query_scale(c)) * static_cast<double>(k_scale(c));
    if (c.softcap > 0) s = static_cast<double>(c.softcap) * std::tanh(s / static_cast<double>(c.softcap));
    scores.push_back(s);
  }
  const double sink = c.sinks ? static_cast<double>(in.sinks[static_cast<std::size_t>(head)])
                              : -std::numeric_limits<double>::infinity();
  const double most = std::max(sink, *std::ranges::max_element(scores));
  double total = std::exp(sink - most);
  for (double& s : scores) total += s = std::exp(s - most);
  std::fill_n(out, c.head_dim, 0.0);
  for (int p = from; p <= row.position; ++p) {
    const std::size_t line = line_of(c, in, row, kv_head, p);
    const double weight =
        scores[static_cast<std::size_t>(p - from)] / total * static_cast<double>(v_scale(c));
    for (int d = 0; d < c.head_dim; ++d) out[d] += weight * v[line + static_cast<std::size_t>(d)];
  }
}

/// q is rounded to BF16 (F16 where the cache is E4M3, which is finer than the tolerance) after rotation.
double rounded_query(const AttentionCase& c, double v) {
  return is_e4m3(c) ? v : bf16_to_f32(f32_to_bf16(static_cast<float>(v)));
}

constexpr float kUntouched = 3.0F;  // a scale that nobody may write
constexpr std::size_t kCodesBuffer = 13;

std::size_t coded_width(const AttentionCase& c) { return static_cast<std::size_t>(c.heads * c.head_dim); }
/// Where the scale of row r and the value `at` of it stands.
std::size_t scale_index(const Inputs& in, std::size_t r, std::size_t at) {
  return (at / 128 * static_cast<std::size_t>(in.rows_max) + r) * 4 + at % 128 / 32;
}

/// Rows of y as codes; y itself stays as it was.
void code_output(const AttentionCase& c, const Inputs& in, std::span<Output> outputs) {
  const std::vector<double> y = std::exchange(outputs[0].want, values_of(in.y));
  outputs[3].want.assign(y.size(), 0.0);
  outputs[4].want.assign(scale_index(in, 0, (coded_width(c) + 127) / 128 * 128),
                         static_cast<double>(kUntouched));
  for (std::size_t r = 0; r < c.contexts.size(); ++r)
    for (std::size_t begin = 0; begin < coded_width(c); begin += 32) {
      const double* group = y.data() + r * coded_width(c) + begin;
      double most = 1e-20;
      for (int i = 0; i < 32; ++i) most = std::max(most, std::abs(group[i]));
      outputs[4].want[scale_index(in, r, begin)] = most / 448;
      for (std::size_t i = 0; i < 32; ++i)
        outputs[3].want[r * coded_width(c) + begin + i] = group[i] * 448 / most;
    }
}

/// What y and the caches hold afterwards.
void oracle(const AttentionCase& c, const Inputs& in, std::span<Output> outputs) {
  outputs[0].want = values_of(in.y);
  outputs[1].want = in.k_values;
  outputs[2].want = in.v_values;
  const int width = (c.heads + 2 * c.kv_heads) * c.head_dim;
  for (std::size_t r = 0; r < c.contexts.size(); ++r) {
    const StepRow& row = in.rows[r];
    const std::uint16_t* token = in.qkv.data() + static_cast<std::ptrdiff_t>(row.token_begin) * width;
    std::vector<std::vector<double>> seen{outputs[1].want, outputs[2].want};
    for (int h = 0; h < c.kv_heads; ++h) {
      const auto k = prepared(c, in, token + (c.heads + h) * c.head_dim, row.position, in.k_norm);
      const std::uint16_t* v = token + (c.heads + c.kv_heads + h) * c.head_dim;
      const std::size_t line = line_of(c, in, row, h, row.position);
      for (std::size_t d = 0; d < k.size(); ++d) {
        outputs[1].want[line + d] = k[d] / static_cast<double>(k_scale(c));
        outputs[2].want[line + d] = static_cast<double>(bf16_to_f32(v[d])) / static_cast<double>(v_scale(c));
        seen[0][line + d] = rounded(c, outputs[1].want[line + d]);
        seen[1][line + d] = rounded(c, outputs[2].want[line + d]);
        if (is_e4m3(c)) outputs[2].want[line + d] = std::clamp(outputs[2].want[line + d], -448.0, 448.0);
      }
    }
    for (int h = 0; h < c.heads; ++h) {
      auto q = prepared(c, in, token + h * c.head_dim, row.position, in.q_norm);
      for (double& v : q) v = rounded_query(c, v);
      attend(
          c, in, row, h, q, seen[0], seen[1],
          outputs[0].want.data() + (static_cast<std::ptrdiff_t>(row.token_begin) * c.heads + h) * c.head_dim);
    }
  }
}

std::string shape_of(const AttentionCase& c) {
  return std::to_string(c.contexts.size()) + "x" + std::to_string(longest(c)) + " " +
         std::to_string(c.heads) + "/" + std::to_string(c.kv_heads) + "x" + std::to_string(c.head_dim) +
         (c.window > 0 ? " window" : "") + (c.softcap > 0 ? " cap" : "") + (c.sinks ? " sinks" : "") +
         (c.norms ? " norms" : "") + (c.interleaved ? " pairs" : "") + (c.coded ? " coded" : "") +
         (c.brief ? " brief" : "") + (c.splits > 0 ? " splits " + std::to_string(c.splits) : "");
}

Result<OpCase> decode_attention(GpuBackend& gpu, const AttentionCase& c, bool timed) {
  const Inputs in = inputs_of(c, timed);
  const auto rows = static_cast<std::int32_t>(c.contexts.size());
  MET_ASSIGN(auto plan,
             ops::cuda::plan_decode_attention(
                 gpu, {.heads = c.heads,
                       .kv_heads = c.kv_heads,
                       .head_dim = c.head_dim,
                       .cache = c.cache,
                       .rows_max = in.rows_max,
                       .positions_max = c.brief ? ops::cuda::kBriefPositions : std::max(4096, longest(c)),
                       .brief = c.brief}));
  if (c.splits > 0) {
    plan.partial_bytes = static_cast<std::size_t>(in.rows_max * c.heads * c.splits * (c.head_dim + 2)) * 4;
    plan.grid.x = kBlocks;
    plan.splits = c.splits;
    plan.split_tokens_min = 16;
  }
  const StepCounts counts{rows, rows, rows, rows};
  const bool e4m3 = is_e4m3(c);
  OpCase op{
      .op = std::string("decode_attention ") + (e4m3 ? "e4m3" : "bf16"),
      .shape = shape_of(c),
      .buffers = {bytes_of(in.qkv), bytes_of(in.y), in.k_cache, in.v_cache, raw(in.q_norm), raw(in.k_norm),
                  raw(in.inverse), raw(in.sinks), raw(in.rows), raw(in.table), raw(std::vector{counts}),
                  std::vector<std::byte>(std::max<std::size_t>(plan.partial_bytes, 16), std::byte{0xff}),
                  std::vector<std::byte>(plan.finished_bytes), std::vector<std::byte>(in.y.size()),
                  raw(std::vector<float>(scale_index(in, 0, (coded_width(c) + 127) / 128 * 128),
                                         kUntouched))},
      .outputs = {{.buffer = 1,
                   .tolerance = {"BF16 probabilities and output", 0x1p-7, e4m3 ? 0x1p-10 : 0x1p-9}},
                  {.buffer = 2,
                   .type = c.cache,
                   .tolerance = e4m3 ? Tolerance{"one E4M3 rounding", 0x1p-4 + 0x1p-12, 0x1p-10 + 0x1p-12}
                                     : Tolerance{"one BF16 rounding, FP32 rotation", kBf16Rounding, 0x1p-17}},
                  {.buffer = 3,
                   .type = c.cache,
                   .tolerance = e4m3 ? Tolerance{"one E4M3 rounding", 0x1p-4 + 0x1p-12, 0x1p-10 + 0x1p-12}
                                     : Tolerance{"exact copy", 0, 0}}},
      .scratch = {11}};
  if (c.coded) {
    op.outputs.push_back({.buffer = kCodesBuffer,
                          .type = DType::kF8E4M3,
                          .tolerance = {"one E4M3 rounding over a scale", 0x1p-4 + 0x1p-6, 2.0}});
    op.outputs.push_back({.buffer = kCodesBuffer + 1,
                          .type = DType::kF32,
                          .tolerance = {"the largest of 32 values", 0x1p-6, 0x1p-18}});
  }
  op.oracle = [=](std::vector<Output>& outputs) {
    oracle(c, in, outputs);
    if (c.coded) code_output(c, in, outputs);
  };
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    const auto at = [&](std::size_t i) { return reinterpret_cast<void*>(p[i].value); };
    const auto floats = [&](std::size_t i) { return static_cast<float*>(at(i)); };
    const AttentionLayerArgs layer{.q_norm = c.norms ? floats(4) : nullptr,
                                   .k_norm = c.norms ? floats(5) : nullptr,
                                   .inv_freq = rotary(c) > 0 ? floats(6) : nullptr,
                                   .sinks = c.sinks ? floats(7) : nullptr,
                                   .k_cache = at(2),
                                   .v_cache = at(3),
                                   .k_scale = k_scale(c),
                                   .v_scale = v_scale(c),
                                   .heads = c.heads,
                                   .kv_heads = c.kv_heads,
                                   .head_dim = c.head_dim,
                                   .rotary_dim = rotary(c),
                                   .interleaved = c.interleaved,
                                   .window = c.window,
                                   .norm_eps = kEps,
                                   .rope_scale = 1.0F,
                                   .scale = query_scale(c),
                                   .softcap = c.softcap};
    CodedRows coded;
    if (c.coded)
      coded = {.codes = static_cast<std::uint8_t*>(at(kCodesBuffer)),
               .scales = floats(kCodesBuffer + 1),
               .width = static_cast<std::int32_t>(coded_width(c)),
               .rows = in.rows_max};
    DeviceTensorMap k_map{}, v_map{};
    if (!e4m3) {
      const std::int64_t blocks = static_cast<std::int64_t>(in.k_cache.size()) /
                                  (std::int64_t{kBlockTokens} * c.kv_heads * c.head_dim * 2);
      MET_ASSIGN(k_map, ops::cuda::cache_map(*plan.device, at(2), blocks, c.kv_heads, c.head_dim));
      MET_ASSIGN(v_map, ops::cuda::cache_map(*plan.device, at(3), blocks, c.kv_heads, c.head_dim));
    }
    return std::vector{
        ops::cuda::decode_attention_launch(plan, {.k_map = k_map,
                                                  .v_map = v_map,
                                                  .layer = layer,
                                                  .qkv = static_cast<const Bf16Bits*>(at(0)),
                                                  .y = static_cast<Bf16Bits*>(at(1)),
                                                  .coded = coded,
                                                  .rows = static_cast<const StepRow*>(at(8)),
                                                  .block_table = static_cast<const std::int32_t*>(at(9)),
                                                  .counts = static_cast<const StepCounts*>(at(10)),
                                                  .partial = floats(11),
                                                  .finished = static_cast<std::int32_t*>(at(12)),
                                                  .splits = 0,
                                                  .split_tokens_min = 0,
                                                  .group = 0})};
  };
  double tokens = 0;
  for (const int context : c.contexts) tokens += c.window > 0 ? std::min(context, c.window) : context;
  op.bytes = 2.0 * tokens * c.kv_heads * c.head_dim * (e4m3 ? 1 : 2);
  return op;
}

std::vector<AttentionCase> probes() {
  const std::vector<int> mixed{1, 2, 15, 16, 17, 33, 100, 257, 1000};
  std::vector<AttentionCase> cases;
  for (const DType cache : {DType::kBF16, DType::kF8E4M3}) {
    for (const int dim : {16, 32, 64, 96, 128, 256}) {
      cases.push_back({4, 2, dim, mixed, 11, cache});
      cases.push_back({12, 1, dim, {1, 40, 300, 777}, 0, cache});  // more than one 8-head tile
      cases.push_back({.heads = 8,
                       .kv_heads = 2,
                       .head_dim = dim,
                       .contexts = mixed,
                       .rows_max = 10,
                       .cache = cache,
                       .rotary_dim = dim / 2,
                       .interleaved = true,
                       .norms = true,
                       .sinks = true,
                       .window = 37,
                       .softcap = 5.0F,
                       .splits = 3});
    }
    for (const int dim : {64, 128}) {
      cases.push_back({.heads = 3,
                       .kv_heads = 3,
                       .head_dim = dim,
                       .contexts = {5000, 31},
                       .cache = cache,
                       .norms = true,
                       .splits = 64});
      cases.push_back({.heads = 32,
                       .kv_heads = 2,
                       .head_dim = dim,
                       .contexts = {1, 5000, 640},
                       .cache = cache,
                       .sinks = true,
                       .splits = 5});
      cases.push_back({.heads = 20,
                       .kv_heads = 1,
                       .head_dim = dim,
                       .contexts = {3000, 200},
                       .cache = cache,
                       .softcap = 30.0F,
                       .splits = 4});  // heads of two blocks
      cases.push_back({.heads = 8,
                       .kv_heads = 2,
                       .head_dim = dim,
                       .contexts = {4097, 512, 513, 1},
                       .cache = cache,
                       .window = 700,
                       .splits = 9});
      cases.push_back(
          {.heads = 8, .kv_heads = 2, .head_dim = dim, .contexts = {900}, .cache = cache, .rotary_dim = 0});
    }
    for (const int dim : {32, 64, 96, 128, 256}) {
      cases.push_back({.heads = 3,
                       .kv_heads = 1,
                       .head_dim = dim,
                       .contexts = mixed,
                       .rows_max = 11,
                       .cache = cache,
                       .coded = true});
      cases.push_back({.heads = 20,
                       .kv_heads = 2,
                       .head_dim = dim,
                       .contexts = {3000, 200},
                       .cache = cache,
                       .splits = 4,
                       .coded = true});
    }
    cases.push_back(
        {.heads = 32, .kv_heads = 8, .head_dim = 128, .contexts = {}, .rows_max = 3, .cache = cache});
    // As many rows as a large step has: blocks take several items, long ones in splits.
    std::vector<int> many;
    for (int r = 0; r < 90; ++r) many.push_back(1 + r * r % 211 + (r % 30 == 7 ? 2200 : 0));
    for (const int dim : {64, 128})
      cases.push_back({.heads = 16,
                       .kv_heads = 8,
                       .head_dim = dim,
                       .contexts = many,
                       .rows_max = 96,
                       .cache = cache,
                       .norms = true});
    const std::vector<int> some(many.begin(), many.begin() + 55);
    // Fewer items than warps: teams of four take them in, and of two those of twice as many rows.
    const std::vector<int> few(many.begin(), many.begin() + 29);
    for (const int dim : {64, 128})
      for (const int rows : {32, 64})
        cases.push_back({.heads = 24,
                         .kv_heads = 8,
                         .head_dim = dim,
                         .contexts = few,
                         .rows_max = rows,
                         .cache = cache,
                         .norms = true,
                         .sinks = true});
    for (const int dim : {64, 128}) {
      cases.push_back({.heads = 40,
                       .kv_heads = 8,
                       .head_dim = dim,
                       .contexts = some,
                       .rows_max = 64,
                       .cache = cache,
                       .sinks = true,
                       .window = 300,
                       .softcap = 20.0F});
      cases.push_back({.heads = 8,
                       .kv_heads = 8,
                       .head_dim = dim,
                       .contexts = some,
                       .rows_max = 64,
                       .cache = cache,
                       .coded = true});
    }
  }
  return cases;
}

std::vector<AttentionCase> brief_probes() {
  std::vector<AttentionCase> cases;
  const std::vector<int> edges{1, 2, 15, 16, 17, 63, 64, 65, 127, 256, 447, 448, 449, 511, 512};
  for (const DType cache : {DType::kBF16, DType::kF8E4M3})
    for (const int dim : {64, 128}) {
      AttentionCase c{
          .heads = 8, .kv_heads = 2, .head_dim = dim, .contexts = edges, .cache = cache, .brief = true};
      c.rows_max = 16;
      cases.push_back(c);
      c.coded = true;
      cases.push_back(c);
      c = {.heads = 32,
           .kv_heads = 8,
           .head_dim = dim,
           .contexts = {300, 1, 512, 90},
           .cache = cache,
           .norms = true,
           .brief = true};
      cases.push_back(c);
      c = {.heads = 24,
           .kv_heads = 3,
           .head_dim = dim,
           .contexts = {512, 70, 130},
           .rows_max = 5,
           .cache = cache,
           .rotary_dim = 0,
           .sinks = true,
           .brief = true};
      cases.push_back(c);
      c.coded = true;
      c.window = 131;
      cases.push_back(c);
      c = {.heads = 3,
           .kv_heads = 1,
           .head_dim = dim,
           .contexts = edges,
           .cache = cache,
           .rotary_dim = dim / 2,
           .interleaved = true,
           .norms = true,
           .sinks = true,
           .window = 37,
           .softcap = 5.0F,
           .coded = true,
           .brief = true};
      cases.push_back(c);
      cases.push_back({.heads = 32,
                       .kv_heads = 8,
                       .head_dim = dim,
                       .contexts = {},
                       .rows_max = 3,
                       .cache = cache,
                       .brief = true});
    }
  return cases;
}

std::vector<AttentionCase> timings() {
  std::vector<AttentionCase> cases;
  const auto add = [&](int heads, int kv_heads, int dim, int rows, int context, DType cache) {
    cases.push_back({.heads = heads,
                     .kv_heads = kv_heads,
                     .head_dim = dim,
                     .contexts = std::vector<int>(static_cast<std::size_t>(rows), context),
                     .cache = cache,
                     .norms = true});
  };
  add(32, 8, 128, 1, 256, DType::kBF16);
  add(32, 8, 128, 16, 256, DType::kBF16);
  add(32, 8, 128, 128, 256, DType::kBF16);
  add(32, 8, 128, 256, 256, DType::kBF16);
  for (const int rows : {32, 64, 128, 256}) add(32, 8, 128, rows, 300, DType::kBF16);
  add(32, 8, 128, 1, 32768, DType::kBF16);
  add(32, 8, 128, 16, 4096, DType::kBF16);
  add(32, 8, 128, 16, 4096, DType::kF8E4M3);
  add(32, 8, 128, 256, 256, DType::kF8E4M3);
  add(9, 3, 64, 16, 4096, DType::kBF16);
  add(8, 4, 256, 16, 4096, DType::kBF16);
  return cases;
}

std::vector<AttentionCase> brief_timings() {
  std::vector<AttentionCase> cases;
  for (const DType cache : {DType::kBF16, DType::kF8E4M3})
    for (const int rows : {1, 4})
      cases.push_back({.heads = 32,
                       .kv_heads = 8,
                       .head_dim = 128,
                       .contexts = std::vector<int>(static_cast<std::size_t>(rows), 256),
                       .cache = cache,
                       .norms = true,
                       .brief = true});
  return cases;
}

Result<std::vector<OpCase>> made(GpuBackend& gpu, const std::vector<AttentionCase>& wanted, bool timed) {
  std::vector<OpCase> cases;
  for (const AttentionCase& c : wanted) {
    MET_ASSIGN(OpCase op, decode_attention(gpu, c, timed));
    cases.push_back(std::move(op));
  }
  return cases;
}

}  // namespace

Result<std::vector<OpCase>> decode_attention_cases(GpuBackend& gpu, bool timed) {
  return made(gpu, timed ? timings() : probes(), timed);
}

Result<std::vector<OpCase>> brief_attention_cases(GpuBackend& gpu, bool timed) {
  return made(gpu, timed ? brief_timings() : brief_probes(), timed);
}

}  // namespace met::gpu::check
