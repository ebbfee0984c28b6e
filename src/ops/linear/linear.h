// Matrix product of a step's rows with a packed weight matrix, norm before and epilogue after in the same
// kernel.
#pragma once

#include "gpu/backend.h"
#include "met/ops.h"
#include "ops/linear/linear_pack.h"

namespace met::ops {

/// y[r, n] = epilogue(sum over k of W[n, k] * p(x[g(r), k]) + bias[n])
///   g(r) = gather[r] where given, else r; p = RMSNorm by norm_weight (+ norm_offset) where given, else
///   identity. kStore: the sum; kResidual: residual + sum; kSiluMul, kGeluMul: W holds gate and up
///   interleaved by tiles (linear_pack.h) and y[r, i] = act(gate_i) * up_i, n / 2 columns.
///
/// Shapes   x: [*, ldx]; W: n rows of k values, packed; bias: [n]; residual, y: [rows, ldy]; `rows` is read
/// on the device. Types    CPU: F32 rows. Weights of 4 to 8 bits meet rows quantised to int8 in blocks of 32
/// (or F32 rows, by the pack's
///          activation mode); sums inside a block are exact integers, blocks are added in FP32 in order of k.
/// Alias    residual may be y. Any other overlap is a defect.
/// Rows     y[r] depends on its own row alone, bit for bit, whatever the number of rows and threads (D5).
/// Oracle   FP64 over the dequantised weights, tests/ops/oracle/linear.h.
/// Cost     reads the packed weights once up to some rows; bound by memory for few rows, by integer products
/// for many.
struct LinearShape {
  std::int64_t ldx = 0;
  std::int64_t ldy = 0;
  float norm_eps = 0;
  float norm_offset = 0;
  Epilogue epilogue = Epilogue::kStore;
};

struct LinearPlan {
  gpu::GpuBackend* device = nullptr;
  gpu::KernelHandle kernel;
  LinearPack pack;
  LinearShape shape;
};

/// Operands; those left out are null.
struct LinearTensors {
  gpu::DevicePtr x, weights, bias, norm_weight, residual, y, gather, rows, workspace;
};

Result<LinearPlan> plan_linear(gpu::GpuBackend& device, const LinearPack& pack, const LinearShape& shape);
Result<> linear(const LinearPlan& plan, const LinearTensors& tensors, gpu::Stream stream);

}  // namespace met::ops
