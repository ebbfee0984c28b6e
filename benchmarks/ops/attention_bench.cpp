#include <cstdio>
#include <vector>

#include "benchmarks/ops/bench.h"
#include "met/ops.h"
#include "ops/attention/attention.h"
#include "tests/ops/support/random.h"

namespace met::bench {
namespace {

struct Shape {
  int heads, kv_heads, head_dim;
};

/// `rows` sequences at `depth`, `tokens` new positions each.
void bench_shape(const Setup& setup, const Shape& shape, int rows, int tokens, int depth) {
  test::Random random(1);
  const int blocks_a_row = (depth + tokens + 15) / 16;
  const std::size_t elements =
      ops::kv_elements(static_cast<std::size_t>(rows * blocks_a_row), shape.kv_heads, shape.head_dim);
  const std::size_t copies = 1 + (std::size_t{64} << 20U) / (elements * 2);
  std::vector<std::uint16_t> k(elements * copies), v(elements * copies);
  for (std::size_t i = 0; i < k.size(); ++i) {
    k[i] = static_cast<std::uint16_t>(0x3000 + random() % 2048);
    v[i] = static_cast<std::uint16_t>(0x3000 + random() % 2048);
  }
  std::vector<std::int32_t> table;
  std::vector<StepRow> step_rows;
  for (int r = 0; r < rows; ++r) {
    step_rows.push_back({r * tokens, tokens, depth, r * blocks_a_row});
    for (int b = 0; b < blocks_a_row; ++b) table.push_back(r * blocks_a_row + b);
  }
  const StepCounts counts{rows * tokens, rows, 0, 0};
  const auto stride = static_cast<std::size_t>((shape.heads + 2 * shape.kv_heads) * shape.head_dim);
  std::vector<float> qkv =
      test::normal_floats(random, stride * static_cast<std::size_t>(rows * tokens), 1.0F);
  std::vector<float> y(qkv.size());
  test::Aligned workspace(ops::attention_workspace_bytes(rows, setup.pool->threads(), shape.heads,
                                                         shape.kv_heads, shape.head_dim,
                                                         static_cast<std::size_t>(depth + tokens)));
  AttentionArgs args{};
  args.qkv = qkv.data();
  args.y = y.data();
  args.step_rows = step_rows.data();
  args.block_table = table.data();
  args.counts = &counts;
  args.workspace = workspace.data();
  args.heads = shape.heads;
  args.kv_heads = shape.kv_heads;
  args.head_dim = shape.head_dim;
  args.scale = 0.125F;
  std::size_t turn = 0;
  const Time time = measure([&] {
    const std::size_t at = turn++ % copies * elements;
    args.k_cache = k.data() + at;
    args.v_cache = v.data() + at;
    setup.pool->run(setup.isa->find("attention"), &args);
  });
  const double gbs = static_cast<double>(elements) * 4 / time.median * 1e-9;
  const double positions = tokens * (depth + (tokens + 1) / 2.0) * rows;
  const double gmacs = positions * shape.heads * shape.head_dim * 2 / time.median * 1e-9;
  std::printf(
      "attention %2d/%d heads of %3d rows %2d tokens %3d depth %5d: %9.1f us (best %9.1f)  %5.1f GB/s (%3.0f "
      "%%)  %5.1f GMAC/s\n",
      shape.heads, shape.kv_heads, shape.head_dim, rows, tokens, depth, time.median * 1e6, time.best * 1e6,
      gbs, 100 * gbs / setup.limits.read_gbs, gmacs);
}

}  // namespace

void bench_attention(const Setup& setup) {
  for (const Shape& shape : {Shape{9, 3, 64}, Shape{32, 8, 128}, Shape{4, 1, 256}}) {
    bench_shape(setup, shape, 1, 1, 1023);
    bench_shape(setup, shape, 8, 1, 1023);
    bench_shape(setup, shape, 1, 1, 8000);
    bench_shape(setup, shape, 1, 512, 0);
  }
}

}  // namespace met::bench
