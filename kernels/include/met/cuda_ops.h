// Argument structs of the CUDA kernels: a kernel takes its struct by value as `const __grid_constant__`. Each
// kernel's own header comment is its contract; here stand only the members. Pointers are device addresses; the
// addresses and everything else here are fixed when a step is captured, what changes from step to step is read
// through them. C++20, no dependencies.
//
// Activations are BF16 unless said otherwise, `tokens` rows, the last index fastest. Kernels read how many rows
// there are from StepCounts; rows beyond are neither read for a result nor written.
#pragma once

#include <cstdint>

#include "met/ops.h"
#include "met/step.h"

namespace met {

/// A tensor as a bulk tensor copy sees it: gpu::TensorMap on the host, CUtensorMap on the device.
struct alignas(64) DeviceTensorMap {
  unsigned char bytes[128];
};

using Bf16Bits = std::uint16_t;

/// k of a product with E4M3 operands is a multiple of it: their rows begin at 16 bytes.
inline constexpr int kE4m3Granule = 16;

/// Values of k that share a scale of W where scales are of blocks, and then of x too.
inline constexpr int kBlockScaleValues = 128;
/// Values of k that share a scale of x in `gemm` where W has one a row: sums of as many products stay in the tensor core.
inline constexpr int kRowScaleValues = 512;

/// Sum of squares of each row of the residual stream, in parts that are added in order: rows divided by their
/// root mean square are never stored, the consumer scales its sums instead.
struct RowSquares {
  float* parts = nullptr;  // [tokens, count] FP32
  std::int32_t count = 0;
  float eps = 0;
};

/// Rows as E4M3 codes with a scale for each 32 values, as a decode projection with E4M3 weights reads them.
struct CodedRows {
  std::uint8_t* codes = nullptr;  // [tokens, width]; null: rows are not coded
  float* scales = nullptr;        // [ceil(width / 128), rows, 4] FP32; those past the width are finite
  std::int32_t width = 0;
  std::int32_t rows = 0;
};

/// How a decode projection is cut into tiles and stages; src/ops/cuda/projection.cpp chooses it.
struct ProjectionTile {
  std::int32_t rows;      // of W a tile, a multiple of 16
  std::int32_t split;     // blocks of a cluster that divide a tile's k among them: 1 or 2
  std::int32_t teams;     // warpgroups that take stages in turn, for tiles of up to 64 rows; else 1
  std::int32_t chunks;    // of 128 bytes of a row of W a stage of the ring
  std::int32_t stages;    // of the ring, a multiple of teams: a slot always belongs to one
  std::int32_t flight;    // stages of weights under way at a time
  std::int32_t exchange;  // where in shared memory sums of teams and of a split tile meet
};

/// Decode projection (module `projection`): s[t, n] = scale(t, n) * sum_k W[n, k] x[t, k] (+ bias[n]), for up to
/// 256 tokens, then the epilogue:
///   kStore     y[t, n] = s                                   (BF16, or F32 where y_f32)
///   kResidual  h = residual[t, n] + s; residual[t, n] = h; scaled[t, n] = h * next_norm[n] and its squares where given
///   kSiluMul, kGeluMul  rows of W alternate 8 of gate, 8 of up; y[t, n / 2] = act(gate) * up
/// With E4M3 weights x is coded, and gated rows or `scaled` may be.
struct ProjectionArgs {
  DeviceTensorMap weights;     // [n, k], BF16 or E4M3
  DeviceTensorMap x;           // [tokens_max, k], of the type of the weights
  const StepCounts* counts;    // rows = counts->tokens, or counts->logits where `logits`
  const float* x_scales;       // E4M3: as CodedRows::scales, rows the kernel's columns; else null
  const float* weight_scales;  // E4M3: [n], or [ceil(n / 128), ceil(k / 128)] where `block_scales`; else null
  const float* bias;           // [n] or null
  RowSquares norm;             // parts null: s is not scaled by 1 / rms(row)
  Bf16Bits* residual;          // [tokens, ldy]
  void* y;                     // [tokens, ldy]
  const float* next_norm;      // [n] F32 weights of the norm that reads the residual next, or null
  Bf16Bits* scaled;            // [tokens, ldy]
  float* squares;              // [tokens, squares_count]: this launch's parts, one a tile of rows of W
  CodedRows coded;             // in place of gated rows of y, or beside or in place of `scaled`
  std::int64_t ldy;
  std::int32_t n;
  std::int32_t k;
  std::int32_t squares_count;
  std::int32_t logits;
  std::int32_t y_f32;
  std::int32_t block_scales;
  Epilogue epilogue;
  ProjectionTile tile;
};

/// Prefill GEMM (module `gemm`): the same sums and epilogues for many tokens. `norm` and `squares` are for steps of up to
/// kGemmNormRows tokens; kResidual writes h * next_norm to `scaled` and its squares, one part for each `columns` of n that a
/// block finishes.
inline constexpr int kGemmNormRows = 256;
struct GemmArgs {
  DeviceTensorMap weights;  // [n, k]
  DeviceTensorMap x;        // [tokens_max, k]
  const StepCounts* counts;
  const float* weight_scales;  // as ProjectionArgs
  const float* x_scales;       // E4M3 x: as QuantiseArgs::scales, of 512, with block_scales 128; else null
  const float* bias;
  Bf16Bits* residual;
  Bf16Bits* y;
  std::int64_t ldy;
  std::int32_t n;
  std::int32_t k;
  std::int32_t block_scales;
  Epilogue epilogue;
  std::int32_t tokens_max;   // rows of x that may come; set by the plan
  std::int32_t x_scales_ld;  // a multiple of 128, at least the rows of x
  RowSquares norm;           // as ProjectionArgs, as what follows
  const float* next_norm;
  Bf16Bits* scaled;
  float* squares;
  std::int32_t squares_count;  // set by the plan
};

/// E4M3 rows (module `quantise`): v = x[t, k], or x[t, k] / rms(x[t]) * norm[k] where given; for each
/// `scale_values` of k scale = max |v| / 448, y = v / scale. A scale for 32 of k is CodedRows'.
struct QuantiseArgs {
  const Bf16Bits* x;  // [tokens, k]
  const float* norm;  // [k] or null
  std::uint8_t* y;    // [tokens, k] E4M3
  float* scales;      // [ceil(k / scale_values), scales_ld]; of 32: [ceil(k / 128), scales_ld, 4]
  const StepCounts* counts;
  std::int32_t k;
  std::int32_t scales_ld;
  std::int32_t scale_values;  // 32, kBlockScaleValues or kRowScaleValues
  float eps;
};

/// What both attention kernels know of a layer. Caches: [blocks, kv_heads, 16, head_dim], BF16 or E4M3.
struct AttentionLayerArgs {
  const float* q_norm;  // [head_dim] F32 or null
  const float* k_norm;
  const float* inv_freq;  // [rotary_dim / 2]; null: no rotation
  const float* sinks;     // [heads] or null
  void* k_cache;
  void* v_cache;
  float k_scale;  // E4M3 caches hold k / k_scale; else 1
  float v_scale;
  std::int32_t heads;
  std::int32_t kv_heads;
  std::int32_t head_dim;
  std::int32_t rotary_dim;
  std::int32_t interleaved;
  std::int32_t window;  // 0: none; else positions > p - window are seen
  float norm_eps;
  float rope_scale;
  float scale;    // of q . k
  float softcap;  // 0: none
};

/// Decode attention (module `decode_attention`): the step's first counts->decode_rows rows, one token each. Head
/// norms, rotation and the write of the new key and value are part of it; splits of the context are joined by the
/// last block of a row and head to finish.
struct DecodeAttentionArgs {
  DeviceTensorMap k_map;  // of a BF16 k_cache: [blocks * kv_heads * 16, head_dim], boxes of 16 x 64
  DeviceTensorMap v_map;
  AttentionLayerArgs layer;
  const Bf16Bits* qkv;  // [tokens, (heads + 2 * kv_heads) * head_dim] as projected
  Bf16Bits* y;          // [tokens, heads * head_dim]
  CodedRows coded;      // in place of y; head_dim % 32 == 0
  const StepRow* rows;
  const std::int32_t* block_table;
  const StepCounts* counts;
  float* partial;                       // [rows_max, heads, splits, head_dim + 2] FP32
  std::int32_t* finished;               // [rows_max, kv_heads], zero before and after each launch
  std::int32_t splits;                  // most parts that a row's context is divided into
  std::int32_t split_tokens_min = 256;  // of a split, into which contexts are divided evenly
  std::int32_t group = 0;               // heads / kv_heads
};

/// Rotation and cache write for prefill (module `rope_kv`): tokens from the first one behind the decode rows on.
/// q stays in qkv, normalised and rotated in place.
struct RopeKvDeviceArgs {
  AttentionLayerArgs layer;
  Bf16Bits* qkv;
  const std::int32_t* positions;  // [tokens]
  const std::int32_t* slots;      // [tokens] block * 16 + offset
  const StepCounts* counts;
};

/// Prefill attention (module `prefill_attention`): rows behind the decode rows, causal over their paged context.
struct PrefillAttentionArgs {
  DeviceTensorMap k_map;  // of k_cache; box and rank are the kernel's
  DeviceTensorMap v_map;
  DeviceTensorMap q_map;  // of qkv
  AttentionLayerArgs layer;
  const Bf16Bits* qkv;  // q after rope_kv
  Bf16Bits* y;          // [tokens, heads * head_dim]
  const StepRow* rows;
  const std::int32_t* block_table;
  const StepCounts* counts;
};

/// Embedding (module `embedding`): hidden[t] = scale * table[id], id = ids[t], or fed[device_rows[t]] where ids[t] is -1.
/// Also scaled[t] = hidden[t] * next_norm and its squares, one part, where given.
struct EmbeddingDeviceArgs {
  const std::int32_t* ids;          // [tokens]
  const std::int32_t* device_rows;  // [tokens]
  const std::int32_t* fed;          // [device rows]: ids sampled by the step before
  const Bf16Bits* table;            // [vocabulary, dim]
  Bf16Bits* hidden;
  const float* next_norm;  // [dim] F32 or null
  Bf16Bits* scaled;
  float* squares;  // [tokens, 1]
  const StepCounts* counts;
  std::int64_t dim;
  std::int64_t vocabulary;
  float scale;
};

/// Norms of the residual stream (module `residual_norm`), one row a block:
///   h = residual[t] (+ branch[t] / rms(branch[t]) * post_norm, where given; stored back)
///   normed[r] = h / rms(h) * norm, where given, t = gather ? gather[r] : r
///   scaled[t] = h * next_norm and its squares in one part, where given
struct ResidualNormArgs {
  Bf16Bits* residual;      // [tokens, dim]
  const Bf16Bits* branch;  // [tokens, dim] or null
  const float* post_norm;  // [dim]
  const float* norm;       // [dim] or null
  Bf16Bits* normed;        // [rows, dim]
  const float* next_norm;  // [dim] or null
  Bf16Bits* scaled;
  float* squares;
  const std::int32_t* gather;  // [logits] or null; rows = counts->logits then, else counts->tokens
  const StepCounts* counts;
  std::int64_t dim;
  float eps;
};

/// What the sampling kernels know of a device row (module `sample`); written when a sequence takes the row. Formulas:
/// docs/sampling.md.
struct SampleParams {
  std::uint64_t seed;
  double top_p;         // 1: off
  double min_p_offset;  // log(min_p) * temperature: logits below max + offset go; where kSampleMinP
  double repetition;    // 1: off, as presence and frequency 0
  double presence;
  double frequency;
  float inverse_temperature;
  std::int32_t choice;
  std::int32_t top_k;         // 0: off
  std::int32_t end_position;  // end ids are removed before this position (min_tokens)
  std::int32_t end_ids;       // how many of SampleArgs::end_ids
  std::int32_t biases;
  std::uint32_t modes;  // of SampleMode
};

enum SampleMode : std::uint32_t {
  kSampleGreedy = 1,
  kSampleAllowed = 2,  // SampleArgs::allowed counts
  kSampleCounts = 4,   // tokens are counted, penalties applied
  kSampleMinP = 8,
  kSampleOnHost = 16,  // the kernel only finishes the row's logits; the host chooses and writes `fed`
};

/// One row of a step to sample, uploaded with the step.
struct SampleRow {
  std::int32_t device_row;
  std::int32_t logits;    // row of SampleArgs::logits
  std::int32_t position;  // of the id to sample; keys its draw
  std::int32_t logprobs;  // -1: none; 0: of the id; k: and of the k best, at most kSampleTopMax
  std::int32_t mask;      // row of SampleArgs::masks, -1: none
  std::int32_t given;     // -1; else nothing is sampled or counted, log-probabilities are those of this id
};

/// What a step samples. Outcomes and log-probabilities go to the host's memory, where each step in flight has its own
/// entries.
struct SampleStep {
  std::int32_t rows;
  std::int32_t outcomes_begin;  // entry of row 0
};

enum SampleOutcomeFlag : std::uint32_t { kSampleNonFinite = 1, kSampleEmpty = 2, kSampleOutOfRange = 4 };

struct SampleOutcome {
  std::int32_t id;
  std::uint32_t flags;  // of SampleOutcomeFlag
};

struct SampleBias {
  std::int32_t id;
  float bias;
};

inline constexpr int kSampleTopMax = 20;
inline constexpr int kSampleEndMax = 64;
inline constexpr int kSampleBiasMax = 512;

/// Log-probabilities of one position under the model's logits: of the id, and of the best, of equals the lowest id.
struct SampleLogprobs {
  float chosen;
  float top[kSampleTopMax];
};
struct SampleTopIds {
  std::int32_t count;
  std::int32_t ids[kSampleTopMax];
  std::int32_t rank;  // of the id: tokens with a larger logit, plus 1
};

/// Sampling (module `sample`): one id a row, to `outcomes` and to `fed`, which the next step's embedding reads.
struct SampleArgs {
  float* logits;  // [logits, vocabulary]; rows on the host get scale and soft cap in place
  const SampleStep* step;
  const SampleRow* rows;         // [step->rows]
  const SampleParams* params;    // [device rows], as all that follows but masks, outcomes and logprobs
  const std::int32_t* end_ids;   // [device rows, kSampleEndMax]
  const SampleBias* biases;      // [device rows, kSampleBiasMax], no id twice
  const std::uint32_t* allowed;  // [device rows, ceil(vocabulary / 32)]: a bit for each token
  const std::uint32_t* masks;    // [masks, ceil(vocabulary / 32)]: the grammar's
  std::uint32_t* counts;         // [device rows, vocabulary]: kSampleInPrompt | times in the output
  std::int32_t* fed;             // [device rows]
  SampleOutcome* outcomes;       // [outcomes_begin + row], as the two that follow
  SampleLogprobs* logprobs;      // written where asked for
  SampleTopIds* top_ids;
  std::int64_t vocabulary;
  float scale;    // of the model's logits, before everything else
  float softcap;  // 0: none; else cap * tanh(l / cap)
};

inline constexpr std::uint32_t kSampleInPrompt = 0x80000000U;

/// Token counts of device rows that begin (module `sample`, entry sample_begin).
struct SampleBegin {
  std::int32_t device_row;
  std::int32_t ids_begin;  // in SampleBeginArgs::ids: first the prompt's, then the output's
  std::int32_t prompt;     // how many
  std::int32_t output;
};
struct SampleBeginArgs {
  const SampleBegin* rows;  // [grid]
  const std::int32_t* ids;
  std::uint32_t* counts;
  std::int64_t vocabulary;
};

}  // namespace met
