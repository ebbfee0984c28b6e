// A dense decoder of one BF16 layer, small enough for a device that records.
#pragma once

#include "layers/cuda/decoder.h"

namespace met::layers::cuda::testing {

struct TinySizes {
  int hidden = 64;
  int ffn = 128;
  int heads = 2;
  int kv_heads = 1;
  int head_dim = 64;
  int vocabulary = 256;
};

inline config::ModelConfig tiny_config(const TinySizes& sizes) {
  config::ModelConfig config;
  config.hidden = sizes.hidden;
  config.ffn = sizes.ffn;
  config.heads = sizes.heads;
  config.kv_heads = sizes.kv_heads;
  config.head_dim = sizes.head_dim;
  config.vocabulary = sizes.vocabulary;
  config.tied_head = true;
  config.layer.resize(1);
  return config;
}

inline gpu::DeviceMemory device_memory(gpu::GpuBackend& device, std::size_t bytes) {
  return gpu::DeviceMemory::allocate(device, bytes, "weights").value();
}

/// Any contents.
inline DecoderWeights tiny_weights(gpu::GpuBackend& device, const TinySizes& sizes) {
  const auto matrix = [&](std::int64_t n, std::int64_t k) {
    DeviceMatrix m{.n = n, .k = k};
    m.data = device_memory(device, bytes_of(m.type, static_cast<std::size_t>(n * k)));
    return m;
  };
  const auto norm = [&] {
    return device_memory(device, static_cast<std::size_t>(sizes.hidden) * sizeof(float));
  };
  DecoderWeights weights;
  weights.embedding = matrix(sizes.vocabulary, sizes.hidden);
  weights.final_norm = norm();
  DecoderLayerWeights& layer = weights.layers.emplace_back();
  layer.spec = {.heads = sizes.heads, .kv_heads = sizes.kv_heads, .head_dim = sizes.head_dim};
  layer.attention_norm = norm();
  layer.ffn_norm = norm();
  layer.qkv = matrix((sizes.heads + 2 * sizes.kv_heads) * sizes.head_dim, sizes.hidden);
  layer.out = matrix(sizes.hidden, sizes.heads * sizes.head_dim);
  layer.gate_up = matrix(2 * sizes.ffn, sizes.hidden);
  layer.down = matrix(sizes.hidden, sizes.ffn);
  return weights;
}

}  // namespace met::layers::cuda::testing
