// Root mean square normalisation of rows.
#pragma once

#include "gpu/backend.h"

namespace met::ops {

/// y[r, d] = (add ? y[r, d] : 0) + x[r, d] / sqrt(mean(x[r, :]^2) + eps) * (w[d] + offset)
///
/// Shapes   x, y: [rows, dim], last index fastest; w: [dim]; `rows` is read on the device at run time.
/// Types    CPU: all F32. The mean is summed in FP32 in an order fixed by dim.
/// Alias    y may be x itself unless `add`. Any other overlap is a defect.
/// Rows     y[r] depends on x[r] (and y[r]) alone, bit for bit, whatever else is in the batch.
/// Oracle   FP64, tests/ops/rms_norm_test.cpp.
/// Cost     reads 4 * dim * (rows + 1) bytes, writes 4 * dim * rows.
/// Source   Zhang and Sennrich, Root Mean Square Layer Normalization, arXiv:1910.07467, section 4.
struct RmsNormPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  std::int64_t dim = 0;
  float eps = 0;
  float offset = 0;
  bool add = false;
};

Result<RmsNormPlan> plan_rms_norm(gpu::GpuBackend& device, std::int64_t dim, float eps, float offset,
                                  bool add);
Result<> rms_norm(const RmsNormPlan& plan, gpu::DevicePtr x, gpu::DevicePtr weight, gpu::DevicePtr y,
                  gpu::DevicePtr rows, gpu::Stream stream);

}  // namespace met::ops
