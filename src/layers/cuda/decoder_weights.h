// The weights of a decoder on a CUDA device, as its steps read them.
#pragma once

#include <vector>

#include "layers/attention_layer.h"
#include "layers/cuda/matrix_loader.h"
#include "met/ops.h"

namespace met::layers::cuda {

/// A mixture of experts: hidden += sum over the chosen experts e of weight_e * down_e(act(gate_up_e(norm(hidden)))).
struct MoeMatrices {
  DeviceMatrix router;   ///< [experts, hidden]
  DeviceMatrix gate_up;  ///< [experts * 2 width, hidden], in each expert rows alternate 8 of gate, 8 of up
  DeviceMatrix down;     ///< [experts * hidden, width]
};

/// One layer: hidden += post(out(attention(...qkv(norm(hidden))))), then hidden += post(down(act(gate_up(norm(hidden))))).
/// Norm weights are F32 with the family's offset added.
struct DecoderLayerWeights {
  AttentionSpec spec;
  gpu::DeviceMemory attention_norm;  ///< [hidden]
  DeviceMatrix qkv;
  DeviceMatrix out;
  gpu::DeviceMemory q_norm, k_norm;       ///< [head_dim]; empty: none
  gpu::DeviceMemory inverse;              ///< [rotary_dim / 2]; empty: no rotation
  gpu::DeviceMemory post_attention_norm;  ///< [hidden]; empty: none
  gpu::DeviceMemory ffn_norm;
  DeviceMatrix gate_up;  ///< rows alternate 8 of gate, 8 of up
  DeviceMatrix down;
  gpu::DeviceMemory post_ffn_norm;
  MoeMatrices moe;  ///< in place of gate_up and down where `sparse`
  Epilogue activation = Epilogue::kSiluMul;

  bool sparse() const { return moe.router.n > 0; }
};

struct DecoderWeights {
  DeviceMatrix embedding;
  std::vector<DecoderLayerWeights> layers;
  gpu::DeviceMemory final_norm;
  DeviceMatrix head;  ///< no memory: the embedding is the head

  const DeviceMatrix& head_matrix() const { return head.data ? head : embedding; }
};

}  // namespace met::layers::cuda
