#include "ops/cuda/tensor_map.h"

#include <bit>

namespace met::ops::cuda {

Result<DeviceTensorMap> matrix_map(gpu::GpuBackend& device, gpu::DevicePtr base, std::int64_t columns,
                                   std::int64_t rows, std::uint32_t box_rows) {
  constexpr std::uint32_t kColumns = 64;
  gpu::TensorMapSpec spec{.base = base, .element = gpu::TensorElement::kBf16, .rank = 2};
  spec.extents = {static_cast<std::uint64_t>(columns), static_cast<std::uint64_t>(rows)};
  spec.strides = {static_cast<std::uint64_t>(columns) * 2};
  spec.box = {kColumns, box_rows};
  MET_ASSIGN(const gpu::TensorMap map, device.tensor_map(spec));
  return std::bit_cast<DeviceTensorMap>(map);
}

Result<DeviceTensorMap> cache_map(gpu::GpuBackend& device, const void* cache, std::int64_t blocks,
                                  int kv_heads, int head_dim) {
  constexpr std::uint32_t kBlockTokens = 16;
  return matrix_map(device, {reinterpret_cast<std::uint64_t>(cache)}, head_dim,
                    blocks * kv_heads * kBlockTokens, kBlockTokens);
}

}  // namespace met::ops::cuda
