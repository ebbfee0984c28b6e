// Inputs and FP64 oracle of the embedding.
#include <cmath>
#include <cstring>

#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

struct EmbeddingShape {
  int tokens, tokens_max;
  std::int64_t dim, vocabulary;
  float scale;
};

OpCase embedding(KernelHandle kernel, const EmbeddingShape& s, bool timed) {
  Rng rng{static_cast<std::uint64_t>(s.tokens * 11 + s.dim)};
  const auto table = random_bf16(rng, s.vocabulary * s.dim, 2.0);
  const auto y = random_bf16(rng, s.tokens_max * s.dim, 2.0);
  std::vector<std::int32_t> ids;
  for (int t = 0; t < s.tokens_max; ++t) ids.push_back(static_cast<std::int32_t>(rng.next() % s.vocabulary));
  if (!timed && s.tokens > 2) {
    ids[0] = -1;
    ids[1] = static_cast<std::int32_t>(s.vocabulary);
  }
  OpCase op{.op = "embedding_bf16",
            .shape = std::to_string(s.tokens) + "x" + std::to_string(s.dim) + (s.scale == 1 ? "" : " scaled"),
            .buffers = {raw(ids), bytes_of(table), bytes_of(y), raw(std::vector<std::int32_t>{s.tokens})},
            .outputs = {{.buffer = 2,
                         .tolerance = s.scale == 1 ? Tolerance{"exact copy", 0, 0}
                                                   : Tolerance{"one BF16 rounding", kBf16Rounding, 0}}}};
  if (!timed) {
    op.outputs[0].want = values_of(y);
    const auto rows = values_of(table);
    for (int t = 0; t < s.tokens; ++t)
      for (std::int64_t d = 0; d < s.dim; ++d) {
        const bool known = ids[t] >= 0 && ids[t] < s.vocabulary;
        op.outputs[0].want[t * s.dim + d] =
            known ? rows[ids[t] * s.dim + d] * static_cast<double>(s.scale) : 0.0;
      }
  }
  const auto blocks = static_cast<std::uint32_t>(s.tokens_max);
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    KernelLaunch launch(kernel, {blocks}, {256});
    launch.buffer(p[0]).buffer(p[1]).buffer(p[2]).buffer(p[3]);
    launch.scalar(s.dim).scalar(s.vocabulary).scalar(s.scale);
    return std::vector{launch};
  };
  op.bytes = 4.0 * static_cast<double>(s.dim) * s.tokens;
  return op;
}

}  // namespace

Result<std::vector<OpCase>> embedding_cases(GpuBackend& gpu, bool timed) {
  MET_ASSIGN(const KernelHandle lookup, gpu.kernel("embedding", "embedding_bf16"));
  std::vector<OpCase> cases;
  if (timed) {
    for (const int n : {1, 128, 16384})
      cases.push_back(embedding(lookup, {n, n, 4096, n > 1000 ? 32768 : 1024, 1}, true));
    return cases;
  }
  for (const float scale : {1.0F, 33.94F})
    for (const int n : {0, 1, 5, 200})
      cases.push_back(embedding(lookup, {n, n + 3, 576, 1000, scale}, false));
  return cases;
}

}  // namespace met::gpu::check
