// y = act(gate) * up for weights whose gate and up have different types and could not be interleaved.
#include "met/cpu_kernel.h"
#include "met/ops.h"
#include "simd.h"

namespace {

simd::Vf gate_times_up(simd::Vf gate, simd::Vf up, met::Epilogue activation) {
  return simd::mul(activation == met::Epilogue::kSiluMul ? simd::silu(gate) : simd::gelu_tanh(gate), up);
}

void gate_row(const met::GatedActivationArgs& args, const float* gate, float* y) {
  const float* up = gate + args.width;
  std::int64_t i = 0;
  for (; i + simd::kLanes <= args.width; i += simd::kLanes)
    simd::store(y + i, gate_times_up(simd::load(gate + i), simd::load(up + i), args.activation));
  if (i == args.width) return;
  alignas(64) float tail[2][simd::kLanes] = {};
  const auto bytes = static_cast<std::size_t>(args.width - i) * sizeof(float);
  std::memcpy(tail[0], gate + i, bytes);
  std::memcpy(tail[1], up + i, bytes);
  simd::store(tail[0], gate_times_up(simd::load(tail[0]), simd::load(tail[1]), args.activation));
  std::memcpy(y + i, tail[0], bytes);
}

}  // namespace

MET_CPU_KERNEL(gated_activation, met::GatedActivationArgs) {
  const std::int64_t rows = *args.rows;
  for (std::int64_t r = ctx->thread; r < rows; r += ctx->threads)
    gate_row(args, args.x + r * 2 * args.width, args.y + r * args.width);
}
