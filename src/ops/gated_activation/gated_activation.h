// The gate of a feed-forward block, where the projections could not apply it themselves.
#pragma once

#include "config/model_config.h"
#include "gpu/backend.h"
#include "met/ops.h"

namespace met::ops {

/// y[r, i] = act(x[r, i]) * x[r, width + i]; act = SiLU, or GELU by its tanh approximation.
///
/// Shapes   x: [rows, 2 * width]; y: [rows, width]; `rows` is read on the device at run time.
/// Types    CPU: F32.
/// Alias    none.
/// Rows     independent.
/// Oracle   FP64, tests/ops/gated_activation_test.cpp.
/// Cost     reads 8 bytes and writes 4 a result.
/// Source   Shazeer, GLU variants improve Transformer, arXiv:2002.05202.
struct GatedActivationPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  std::int64_t width = 0;
  Epilogue activation = Epilogue::kSiluMul;
};

/// The epilogue that applies `activation`.
inline Epilogue gated_epilogue(config::Activation activation) {
  return activation == config::Activation::kSilu ? Epilogue::kSiluMul : Epilogue::kGeluMul;
}

Result<GatedActivationPlan> plan_gated_activation(gpu::GpuBackend& device, std::int64_t width,
                                                  Epilogue activation);
Result<> gated_activation(const GatedActivationPlan& plan, gpu::DevicePtr x, gpu::DevicePtr y,
                          gpu::DevicePtr rows, gpu::Stream stream);

}  // namespace met::ops
