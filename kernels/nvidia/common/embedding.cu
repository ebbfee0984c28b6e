// y[t, d] = bf16(scale * table[ids[t], d]); an id outside [0, vocabulary) gives zeros.
//
// Shapes   ids: [*tokens]; table: [vocabulary, dim]; y: [*tokens, dim]; BF16, 16-byte aligned; dim % 8 == 0.
//          Arguments as EmbeddingArgs.
// Rounding one, at the store; with scale 1 the bits are copied.
// Launch   one block of 256 threads a token, grid >= tokens; tokens past *tokens do nothing.
// Cost     reads and writes 2 * dim * tokens bytes. Bound by memory, by launch for few tokens.
#include <cstdint>

#include "vector.cuh"

namespace {

constexpr int kThreads = 256;

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads) void embedding_bf16(const std::int32_t* ids,
                                                                      const uint4* table, uint4* y,
                                                                      const std::int32_t* tokens,
                                                                      std::int64_t dim,
                                                                      std::int64_t vocabulary, float scale) {
  if (static_cast<std::int64_t>(blockIdx.x) >= *tokens) return;
  const std::int64_t vectors = dim / kLanes;
  const std::int64_t id = ids[blockIdx.x];
  const bool known = id >= 0 && id < vocabulary;
  for (std::int64_t at = threadIdx.x; at < vectors; at += kThreads) {
    uint4 value = known ? __ldg(table + id * vectors + at) : uint4{};
    if (scale != 1.0F) {
      Floats8 f = unpack(value);
#pragma unroll
      for (int i = 0; i < kLanes; ++i) f.v[i] *= scale;
      value = pack(f);
    }
    y[blockIdx.x * vectors + at] = value;
  }
}
