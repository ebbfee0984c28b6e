// Where a step's tensors lie in device memory. Sized once at load; the addresses never change (rule G4).
#pragma once

#include "gpu/launch.h"
#include "ops/moe/moe.h"

namespace met::layers {

struct StepBuffers {
  // Written by the host before a step.
  gpu::DevicePtr ids;          ///< [tokens] I32
  gpu::DevicePtr rows;         ///< [rows] StepRow
  gpu::DevicePtr block_table;  ///< blocks of all rows, one after another, I32
  gpu::DevicePtr logit_rows;   ///< [logits] I32: tokens whose logits are wanted
  gpu::DevicePtr counts;       ///< StepCounts

  // Made and read by the step.
  gpu::DevicePtr hidden;     ///< [tokens, hidden]: the residual stream
  gpu::DevicePtr qkv;        ///< [tokens, (heads + 2 * kv_heads) * head_dim]
  gpu::DevicePtr attention;  ///< [tokens, heads * head_dim]
  gpu::DevicePtr gate_up;    ///< [tokens, 2 * ffn], where gate and up could not be one projection
  gpu::DevicePtr ffn;        ///< [tokens, ffn]
  gpu::DevicePtr branch;     ///< [tokens, hidden]: a sublayer's output before its post-norm
  gpu::DevicePtr logits;     ///< [logits, vocabulary] F32

  // Of mixtures of experts; absent where there are none. A pair is a token with one of its experts.
  gpu::DevicePtr router;      ///< [tokens, experts]
  ops::MoePairBuffers pairs;  ///< who goes where
  gpu::DevicePtr expert_ffn;  ///< [pairs, expert_ffn]
  gpu::DevicePtr expert_out;  ///< [pairs, hidden]

  gpu::DevicePtr workspace;  ///< scratch of the running kernel

  gpu::DevicePtr tokens() const { return counts; }           ///< address of StepCounts::tokens
  gpu::DevicePtr logit_count() const { return counts + 8; }  ///< address of StepCounts::logits
};

/// One layer's part of the paged cache.
struct KvLayer {
  gpu::DevicePtr k;
  gpu::DevicePtr v;
};

}  // namespace met::layers
