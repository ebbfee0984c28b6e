// Inputs and FP64 oracle of prefill attention.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "ops/cuda/prefill_attention.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

constexpr std::uint16_t kNan = 0x7fff;
constexpr std::uint8_t kNanE4m3 = 0x7f;
constexpr int kBlockTokens = 16;
constexpr double kValueMost = 1.0;

struct PrefillRow {
  int tokens, position;
};

struct PrefillShape {
  const char* name;
  std::vector<PrefillRow> rows;
  int heads, kv_heads, head_dim;
  int window = 0;
  float softcap = 0;
  bool sinks = false;
  int decode_rows = 0;
  DType cache = DType::kBF16;
};

struct PrefillInputs {
  std::vector<StepRow> rows;
  std::vector<std::int32_t> table;
  std::vector<float> sinks;
  std::vector<std::byte> k_bytes, v_bytes;
  std::vector<std::uint16_t> qkv;
  std::vector<double> k, v;  // as stored
  int tokens = 0, tokens_max = 0, blocks = 0;
  float k_scale = 1, v_scale = 1;
};

/// Rows of a cache block and head, in values.
std::size_t line_at(const PrefillShape& s, const PrefillInputs& in, const StepRow& row, int position,
                    int kv_head) {
  const int block = in.table[static_cast<std::size_t>(row.table_begin + position / kBlockTokens)];
  return (static_cast<std::size_t>(block * s.kv_heads + kv_head) * kBlockTokens + position % kBlockTokens) *
         static_cast<std::size_t>(s.head_dim);
}

/// Rows, decode rows first, and their blocks in a shuffled order.
void lay_out(const PrefillShape& s, Rng& rng, PrefillInputs& in) {
  for (int r = 0; r < s.decode_rows; ++r) in.rows.push_back({r, 1, 0, 0});
  in.tokens = s.decode_rows;
  std::vector<int> needed;
  for (const PrefillRow& row : s.rows)
    needed.push_back((row.position + row.tokens + kBlockTokens - 1) / kBlockTokens);
  in.blocks = std::accumulate(needed.begin(), needed.end(), 3);
  std::vector<std::int32_t> order(static_cast<std::size_t>(in.blocks));
  std::iota(order.begin(), order.end(), 0);
  for (std::size_t i = order.size() - 1; i > 0; --i) std::swap(order[i], order[rng.next() % (i + 1)]);
  for (std::size_t r = 0; r < s.rows.size(); ++r) {
    const auto begin = static_cast<std::int32_t>(in.table.size());
    in.rows.push_back({in.tokens, s.rows[r].tokens, s.rows[r].position, begin});
    in.table.insert(in.table.end(), order.begin() + begin, order.begin() + begin + needed[r]);
    in.tokens += s.rows[r].tokens;
  }
  in.table.push_back(0);
  in.tokens_max = in.tokens + 3;
}

/// A cache as stored, NaN wherever no row's position is.
void fill_cache(const PrefillShape& s, Rng& rng, const PrefillInputs& in, double most,
                std::vector<std::byte>& bytes, std::vector<double>& values) {
  const std::size_t count =
      static_cast<std::size_t>(in.blocks * s.kv_heads * kBlockTokens) * static_cast<std::size_t>(s.head_dim);
  const bool e4m3 = s.cache == DType::kF8E4M3;
  std::vector<std::uint16_t> wide(e4m3 ? 0 : count, kNan);
  std::vector<std::uint8_t> narrow(e4m3 ? count : 0, kNanE4m3);
  values.assign(count, 0.0);
  for (std::size_t r = static_cast<std::size_t>(s.decode_rows); r < in.rows.size(); ++r)
    for (int j = 0; j < in.rows[r].position + in.rows[r].tokens; ++j)
      for (int g = 0; g < s.kv_heads; ++g) {
        const std::size_t line = line_at(s, in, in.rows[r], j, g);
        for (std::size_t at = line; at < line + static_cast<std::size_t>(s.head_dim); ++at) {
          const auto value = static_cast<float>(rng.uniform(-most, most));
          if (e4m3) {
            narrow[at] = f32_to_f8e4m3(value);
            values[at] = static_cast<double>(f8e4m3_to_f32(narrow[at]));
          } else {
            wide[at] = f32_to_bf16(value);
            values[at] = static_cast<double>(bf16_to_f32(wide[at]));
          }
        }
      }
  bytes = e4m3 ? raw(narrow) : bytes_of(wide);
}

PrefillInputs inputs_of(const PrefillShape& s, bool timed) {
  Rng rng{static_cast<std::uint64_t>(s.head_dim * 31 + s.heads)};
  PrefillInputs in;
  lay_out(s, rng, in);
  const std::size_t row =
      static_cast<std::size_t>(s.heads + 2 * s.kv_heads) * static_cast<std::size_t>(s.head_dim);
  in.qkv = random_bf16(rng, static_cast<std::size_t>(in.tokens_max) * row, 2.0);
  std::fill_n(in.qkv.begin(), static_cast<std::size_t>(s.decode_rows) * row, kNan);
  std::fill(in.qkv.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(in.tokens) * row),
            in.qkv.end(), kNan);
  for (int h = 0; h < s.heads; ++h) in.sinks.push_back(static_cast<float>(rng.uniform(-3, 5)));
  if (s.cache == DType::kF8E4M3) {
    in.k_scale = 0.75F;
    in.v_scale = 0.4F;
  }
  if (timed) {
    const std::size_t count = static_cast<std::size_t>(in.blocks) *
                              static_cast<std::size_t>(s.kv_heads * kBlockTokens * s.head_dim);
    if (s.cache == DType::kF8E4M3) {
      std::vector<std::uint8_t> values(count);
      for (std::uint8_t& v : values) v = static_cast<std::uint8_t>(rng.next() & 0xb7);  // below 16
      in.k_bytes = in.v_bytes = raw(values);
    } else {
      in.k_bytes = bytes_of(random_bf16(rng, count, 2.0));
      in.v_bytes = bytes_of(random_bf16(rng, count, kValueMost));
    }
    return in;
  }
  fill_cache(s, rng, in, 2.0, in.k_bytes, in.k);
  fill_cache(s, rng, in, kValueMost / static_cast<double>(in.v_scale), in.v_bytes, in.v);
  return in;
}

/// One query of one head.
void attend(const PrefillShape& s, const PrefillInputs& in, const StepRow& row, int query, int head,
            double* y) {
  const int kv_head = head / (s.heads / s.kv_heads);
  const auto dim = static_cast<std::size_t>(s.head_dim);
  const std::size_t pitch = static_cast<std::size_t>(s.heads + 2 * s.kv_heads) * dim;
  const std::uint16_t* q = in.qkv.data() + static_cast<std::size_t>(row.token_begin + query) * pitch +
                           static_cast<std::size_t>(head) * dim;
  const int position = row.position + query;
  const int first = s.window > 0 ? std::max(0, position - s.window + 1) : 0;
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.head_dim)) * static_cast<double>(in.k_scale);
  std::vector<double> logits;
  for (int j = first; j <= position; ++j) {
    const double* k = in.k.data() + line_at(s, in, row, j, kv_head);
    double sum = 0;
    for (std::size_t i = 0; i < dim; ++i) sum += static_cast<double>(bf16_to_f32(q[i])) * k[i];
    sum *= scale;
    const double cap = static_cast<double>(s.softcap);
    logits.push_back(s.softcap > 0 ? cap * std::tanh(sum / cap) : sum);
  }
  double top = *std::ranges::max_element(logits);
  const double sink = static_cast<double>(in.sinks[static_cast<std::size_t>(head)]);
  if (s.sinks) top = std::max(top, sink);
  double total = s.sinks ? std::exp(sink - top) : 0;
  std::fill_n(y, dim, 0.0);
  for (int j = first; j <= position; ++j) {
    const double weight = std::exp(logits[static_cast<std::size_t>(j - first)] - top);
    const double* v = in.v.data() + line_at(s, in, row, j, kv_head);
    total += weight;
    for (std::size_t i = 0; i < dim; ++i) y[i] += weight * v[i];
  }
  for (std::size_t i = 0; i < dim; ++i) y[i] *= static_cast<double>(in.v_scale) / total;
}

Result<OpCase> prefill(GpuBackend& gpu, const PrefillShape& s, bool timed) {
  const PrefillInputs in = inputs_of(s, timed);
  Rng rng{77};
  const std::size_t width = static_cast<std::size_t>(s.heads) * static_cast<std::size_t>(s.head_dim);
  const auto y = random_bf16(rng, static_cast<std::size_t>(in.tokens_max) * width, 3.0);
  const StepCounts counts{in.tokens, static_cast<std::int32_t>(in.rows.size()), 0, s.decode_rows};
  auto rows = in.rows;
  rows.push_back({1 << 20, 1 << 20, 0, 1 << 20});  // beyond the count
  OpCase op{.op = std::string("prefill_attention ") + (s.cache == DType::kBF16 ? "bf16" : "e4m3"),
            .shape = s.name + (" (" + std::to_string(s.heads) + "/" + std::to_string(s.kv_heads) + ")x" +
                               std::to_string(s.head_dim)),
            .buffers = {bytes_of(y), bytes_of(in.qkv), in.k_bytes, in.v_bytes, raw(in.sinks), raw(rows),
                        raw(in.table), raw(std::vector{counts})},
            // Weights are rounded to BF16 before they meet v, the sum of weights is not.
            .outputs = {
                {.buffer = 0,
                 .tolerance = {"BF16 weights and output", kBf16Rounding, kValueMost * (0x1p-9 + 0x1p-13)}}}};
  op.oracle = [=](std::vector<Output>& outputs) {
    outputs[0].want = values_of(y);
    for (std::size_t r = static_cast<std::size_t>(s.decode_rows); r < in.rows.size(); ++r)
      for (int query = 0; query < in.rows[r].tokens; ++query)
        for (int h = 0; h < s.heads; ++h)
          attend(s, in, in.rows[r], query, h,
                 outputs[0].want.data() + static_cast<std::size_t>(in.rows[r].token_begin + query) * width +
                     static_cast<std::size_t>(h * s.head_dim));
  };
  MET_ASSIGN(const auto plan,
             ops::cuda::plan_prefill_attention(
                 gpu, {.heads = s.heads, .kv_heads = s.kv_heads, .head_dim = s.head_dim, .cache = s.cache}));
  const std::int64_t tokens_max = in.tokens_max;
  const std::int64_t blocks = in.blocks;
  const float k_scale = in.k_scale;
  const float v_scale = in.v_scale;
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    const AttentionLayerArgs layer{.q_norm = nullptr,
                                   .k_norm = nullptr,
                                   .inv_freq = nullptr,
                                   .sinks = s.sinks ? reinterpret_cast<const float*>(p[4].value) : nullptr,
                                   .k_cache = reinterpret_cast<void*>(p[2].value),
                                   .v_cache = reinterpret_cast<void*>(p[3].value),
                                   .k_scale = k_scale,
                                   .v_scale = v_scale,
                                   .heads = s.heads,
                                   .kv_heads = s.kv_heads,
                                   .head_dim = s.head_dim,
                                   .rotary_dim = 0,
                                   .interleaved = 0,
                                   .window = s.window,
                                   .norm_eps = 0,
                                   .rope_scale = 1,
                                   .scale = 1.0F / std::sqrt(static_cast<float>(s.head_dim)),
                                   .softcap = s.softcap};
    MET_ASSIGN(const PrefillAttentionArgs args, ops::cuda::bind(plan, {.layer = layer,
                                                                       .qkv = p[1],
                                                                       .y = p[0],
                                                                       .rows = p[5],
                                                                       .block_table = p[6],
                                                                       .counts = p[7],
                                                                       .tokens_max = tokens_max,
                                                                       .blocks = blocks}));
    return std::vector{ops::cuda::prefill_attention_launch(plan, args)};
  };
  const double value_bytes = s.cache == DType::kBF16 ? 2 : 1;
  op.bytes = 4.0 * static_cast<double>(width) * in.tokens;
  for (const PrefillRow& row : s.rows) {
    const double end = row.position + row.tokens;
    op.bytes += 2 * value_bytes * end * s.kv_heads * s.head_dim;
    op.flops += 2.0 * (end * end - static_cast<double>(row.position) * row.position) * s.heads * s.head_dim;
  }
  return op;
}

const std::vector<PrefillRow> kRagged = {{1, 0},     {17, 0},  {128, 37}, {129, 128},
                                         {150, 333}, {5, 511}, {200, 16}};

std::vector<PrefillShape> small_shapes(DType cache) {
  std::vector<PrefillShape> shapes = {
      {"no rows", {}, 4, 2, 64},
      {"decode rows alone", {}, 4, 2, 64, 0, 0, false, 2},
      {"one token", {{1, 0}}, 32, 8, 128},
      {"whole tiles", {{256, 128}}, 4, 1, 128},
      {"120 rows", {}, 2, 1, 64, 0, 0, false, 3},
  };
  for (int r = 0; r < 120; ++r) shapes.back().rows.push_back({1 + r * 7 % 40, r * 13 % 50});
  for (const int head_dim : {16, 32, 64, 128, 256}) {
    shapes.push_back({"ragged", kRagged, 4, 2, head_dim, 0, 0, false, 3});
    shapes.push_back({"ragged, window 77", kRagged, 2, 2, head_dim, 77});
    shapes.push_back({"ragged, window, softcap, sinks", kRagged, 3, 1, head_dim, 200, 20.0F, true, 1});
    shapes.push_back({"ragged, sinks", kRagged, 4, 2, head_dim, 0, 0, true});
  }
  for (PrefillShape& s : shapes) s.cache = cache;
  return shapes;
}

std::vector<PrefillShape> timed_shapes() {
  const std::vector<PrefillRow> bulk(16, {2048, 0});
  return {
      {"16x2048", bulk, 32, 8, 128},       {"2048", {{2048, 0}}, 32, 8, 128},
      {"8192", {{8192, 0}}, 32, 8, 128},   {"8192 behind 24576", {{8192, 24576}}, 32, 8, 128},
      {"32768", {{32768, 0}}, 32, 8, 128}, {"8192, window 1024", {{8192, 0}}, 32, 16, 128, 1024},
      {"8192", {{8192, 0}}, 9, 3, 64},     {"8192", {{8192, 0}}, 16, 8, 256},
  };
}

}  // namespace

Result<std::vector<OpCase>> prefill_attention_cases(GpuBackend& gpu, bool timed) {
  std::vector<OpCase> cases;
  std::vector<PrefillShape> shapes = timed ? timed_shapes() : small_shapes(DType::kBF16);
  if (!timed) std::ranges::move(small_shapes(DType::kF8E4M3), std::back_inserter(shapes));
  for (const PrefillShape& s : shapes) {
    MET_ASSIGN(OpCase made, prefill(gpu, s, timed));
    cases.push_back(std::move(made));
  }
  return cases;
}

}  // namespace met::gpu::check
