// The activation of a gated product.
#pragma once

namespace {

__device__ inline float silu(float g) { return __fdividef(g, 1.0F + __expf(-g)); }

/// tanh form: g sigmoid(2 sqrt(2 / pi) (g + 0.044715 g^3))
__device__ inline float gelu(float g) {
  const float z = 1.5957691216F * (g + 0.044715F * g * g * g);
  return __fdividef(g, 1.0F + __expf(-z));
}

__device__ inline float activate(float gate, bool is_gelu) { return is_gelu ? gelu(gate) : silu(gate); }

}  // namespace
