#include <cstdio>
#include <vector>

#include "benchmarks/ops/bench.h"
#include "met/ops.h"
#include "ops/linear/linear_pack.h"
#include "tests/ops/support/quantised.h"

namespace met::bench {
namespace {

struct Shape {
  const char* what;
  DType type;
  std::int64_t n, k;
  bool gated;
};
// SmolLM2-135M's five, and one each of larger models.
constexpr Shape kShapes[] = {
    {"qkv", DType::kQ4_1, 960, 576, false},           {"gate up", DType::kQ4_1, 3072, 576, true},
    {"down", DType::kQ4_1, 576, 1536, false},         {"head", DType::kQ8_0, 49152, 576, false},
    {"4096 square", DType::kQ4_0, 4096, 4096, false}, {"bf16", DType::kBF16, 2048, 2048, false},
    {"square", DType::kQ3_K, 2048, 2048, false},      {"square", DType::kQ4_K, 2048, 2048, false},
    {"square", DType::kQ5_K, 2048, 2048, false},      {"square", DType::kQ6_K, 2048, 2048, false},
    {"square", DType::kMXFP4, 2048, 2048, false},     {"square", DType::kIQ4_XS, 2048, 2048, false},
};

void bench_shape(const Setup& setup, const Shape& shape, std::int32_t rows) {
  const auto pack =
      *ops::plan_linear_pack(shape.type, shape.n, shape.k, ops::ActivationMode::kInt8, shape.gated);
  test::Random random(1);
  // Copies beyond any L3, so that each call meets cold weights.
  const std::size_t copies = 1 + (std::size_t{256} << 20U) / pack.packed_bytes;
  test::Aligned weights(copies * pack.packed_bytes);
  const std::int64_t part = shape.gated ? shape.n / 2 : shape.n;
  const std::vector<std::byte> source = test::random_rows(random, shape.type, part, shape.k);
  const ops::LinearPart one{source.data(), bytes_of(shape.type, static_cast<std::size_t>(shape.k)), part};
  const std::vector<ops::LinearPart> parts(shape.gated ? 2 : 1, one);
  for (std::size_t i = 0; i < copies; ++i)
    ops::pack_linear(pack, parts, weights.data() + i * pack.packed_bytes, 0, pack.tiles);

  const auto row_count = static_cast<std::size_t>(rows);
  std::vector<float> x = test::normal_floats(random, row_count * static_cast<std::size_t>(shape.k), 1.0F);
  std::vector<float> y(row_count * static_cast<std::size_t>(shape.n));
  const std::vector<float> norm(static_cast<std::size_t>(shape.k), 1.0F);
  test::Aligned workspace(pack.workspace_row_bytes * row_count);
  LinearArgs args{};
  args.x = x.data();
  args.norm_weight = norm.data();
  args.y = y.data();
  args.rows = &rows;
  args.workspace = workspace.data();
  args.k = shape.k;
  args.n = shape.n;
  args.ldx = shape.k;
  args.ldy = part;
  args.norm_eps = 1e-5F;
  args.epilogue = shape.gated ? Epilogue::kSiluMul : Epilogue::kStore;
  const MetCpuKernel kernel = setup.isa->find(pack.entry);
  std::size_t turn = 0;
  const Time time = measure([&] {
    args.weights = weights.data() + turn++ % copies * pack.packed_bytes;
    setup.pool->run(kernel, &args);
  });
  const double gbs = static_cast<double>(pack.packed_bytes) / time.median * 1e-9;
  const double gmacs = static_cast<double>(rows * shape.n * shape.k) / time.median * 1e-9;
  std::printf(
      "%-12s %-5s n %6ld k %5ld rows %4d: %9.1f us (best %9.1f)  %8zu B  %5.1f GB/s (%3.0f %%)  %6.1f GMAC/s "
      "(%3.0f %%)\n",
      shape.what, std::string(info(shape.type).name).c_str(), static_cast<long>(shape.n),
      static_cast<long>(shape.k), rows, time.median * 1e6, time.best * 1e6, pack.packed_bytes, gbs,
      100 * gbs / setup.limits.read_gbs, gmacs, 100 * gmacs / setup.limits.int8_gmacs);
}

}  // namespace

void bench_linear(const Setup& setup) {
  for (const Shape& shape : kShapes)
    for (const std::int32_t rows : {1, 4, 16, 128, 512})
      if (rows <= 16 || shape.n < 40000) bench_shape(setup, shape, rows);
}

}  // namespace met::bench
