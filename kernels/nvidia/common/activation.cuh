// The activation of a gated product.
#pragma once

namespace {

/// SiLU, or GELU in its tanh form.
__device__ inline float activate(float gate, bool gelu) {
  if (!gelu) return gate / (1.0F + __expf(-gate));
  constexpr float kRootTwoOverPi = 0.7978845608028654F;
  constexpr float kCubic = 0.044715F;
  return 0.5F * gate * (1.0F + tanhf(kRootTwoOverPi * (gate + kCubic * gate * gate * gate)));
}

}  // namespace
