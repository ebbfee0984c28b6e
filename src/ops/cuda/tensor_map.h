// How matrices of attention are described to tensor copies.
#pragma once

#include <cstdint>

#include "gpu/backend.h"
#include "met/cuda_ops.h"

namespace met::ops::cuda {

/// [rows, columns] of 16-bit values in boxes of `box_rows` rows and 64 columns, swizzled by 128 bytes.
Result<DeviceTensorMap> matrix_map(gpu::GpuBackend& device, gpu::DevicePtr base, std::int64_t columns,
                                   std::int64_t rows, std::uint32_t box_rows);
/// A BF16 cache of `blocks` blocks, [blocks, kv_heads, 16, head_dim], in boxes of the 16 tokens of a block.
Result<DeviceTensorMap> cache_map(gpu::GpuBackend& device, const void* cache, std::int64_t blocks,
                                  int kv_heads, int head_dim);

}  // namespace met::ops::cuda
