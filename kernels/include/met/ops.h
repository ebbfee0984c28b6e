// Argument structs of the CPU kernels, one an operation. The contract of each operation is its header in
// src/ops; here stand only the members, in launch order. Pointers are device addresses (on the CPU backend:
// plain memory). C++20, no dependencies.
#pragma once

#include <cstdint>

#include "met/step.h"

namespace met {

/// What a linear kernel does with its sums before they are stored.
enum class Epilogue : std::int32_t {
  kStore = 0,     ///< y = s (+ bias)
  kResidual = 1,  ///< y = residual + s (+ bias)
  kSiluMul = 2,   ///< weight rows alternate gate, up in tiles; y[n / 2] = silu(gate) * up
  kGeluMul = 3,   ///< the same with tanh-approximated GELU
};

/// y[r, n] = epilogue(sum_k W[n, k] * p(x[g(r), k])), p = RMSNorm by norm_weight where given, g = gather
/// where given.
struct LinearArgs {
  const float* x;              // [*, k]
  const void* weights;         // packed, see src/ops/linear/linear_pack.h
  const float* bias;           // [n] or null
  const float* norm_weight;    // [k] or null
  const float* residual;       // [rows, ldy] or null; may be y
  float* y;                    // [rows, ldy]
  const std::int32_t* gather;  // [rows] rows of x, or null
  const std::int32_t* rows;    // device count
  void* workspace;             // quantised rows, shared by the threads
  std::int64_t k;
  std::int64_t n;    // rows of W (gate and up counted)
  std::int64_t ldx;  // floats from one row of x to the next
  std::int64_t ldy;
  float norm_eps;
  float norm_offset;  // 1 for norms stored as (w - 1), else 0
  Epilogue epilogue;
};

/// y[t, d] = scale * table[ids[t], d]; an id outside [0, vocabulary) gives zeros.
struct EmbeddingArgs {
  const std::int32_t* ids;  // [tokens]
  const void* table;        // packed rows
  float* y;                 // [tokens, dim]
  const std::int32_t* tokens;
  std::int64_t dim;
  std::int64_t vocabulary;
  float scale;
};

/// y[r, d] = (add ? y[r, d] : 0) + x[r, d] / sqrt(mean(x[r]^2) + eps) * (w[d] + offset)
struct RmsNormArgs {
  const float* x;
  const float* weight;
  float* y;
  const std::int32_t* rows;
  std::int64_t dim;
  float eps;
  float offset;
  std::int32_t add;  // 1: adds to y (post-norm before a residual)
};

/// Splits qkv, normalises heads where weights are given, rotates q and k, writes k and v into the paged
/// cache. q stays in qkv, rotated in place.
struct RopeKvArgs {
  float* qkv;           // [tokens, (heads + 2 * kv_heads) * head_dim]
  const float* q_norm;  // [head_dim] or null
  const float* k_norm;
  const float* inv_freq;  // [rotary_dim / 2]; null: no rotation
  void* k_cache;          // see src/ops/attention/attention.h
  void* v_cache;
  const StepRow* step_rows;
  const std::int32_t* block_table;
  const StepCounts* counts;
  std::int32_t heads;
  std::int32_t kv_heads;
  std::int32_t head_dim;
  std::int32_t rotary_dim;
  std::int32_t interleaved;  // 1: pairs (2i, 2i+1); 0: pairs (i, i + rotary_dim / 2)
  float norm_eps;
  float norm_offset;
  float rope_scale;   // attention factor of yarn, multiplies cos and sin
  float k_scale = 1;  // E4M3 caches hold k / k_scale; else 1
  float v_scale = 1;
};

/// Causal attention of the step's tokens over their sequences' paged KV, online softmax over absolute tiles.
struct AttentionArgs {
  const float* qkv;  // [tokens, (heads + 2 * kv_heads) * head_dim]; q at the front of a row
  const void* k_cache;
  const void* v_cache;
  const float* sinks;  // [heads] or null
  float* y;            // [tokens, heads * head_dim]
  const StepRow* step_rows;
  const std::int32_t* block_table;
  const StepCounts* counts;
  void* workspace;  // partial results of split rows
  std::int32_t heads;
  std::int32_t kv_heads;
  std::int32_t head_dim;
  std::int32_t window;  // 0: none; else positions > p - window are seen
  float scale;
  float softcap;      // 0: none
  float k_scale = 1;  // E4M3 caches hold k / k_scale; else 1
  float v_scale = 1;
};

/// y[r, i] = act(x[r, i]) * x[r, width + i]
struct GatedActivationArgs {
  const float* x;  // [rows, 2 * width]
  float* y;        // [rows, width]
  const std::int32_t* rows;
  std::int64_t width;
  Epilogue activation;  // kSiluMul or kGeluMul
};

}  // namespace met
