// Adds the weighted results of a token's experts to its residual stream, in the order of its choice.
#include "met/cpu_kernel.h"
#include "met/cpu_moe_ops.h"
#include "simd.h"

namespace {

void add_experts(const met::ExpertSumArgs& args, std::int64_t t) {
  const std::int32_t* places = args.pairs.places + t * args.top_k;
  const float* weights = args.pairs.weights + t * args.top_k;
  float* hidden = args.hidden + t * args.dim;
  for (std::int64_t i = 0; i < args.dim; i += simd::kLanes) {
    const std::int64_t here = args.dim - i < simd::kLanes ? args.dim - i : simd::kLanes;
    const auto bytes = static_cast<std::size_t>(here) * sizeof(float);
    alignas(64) float lanes[simd::kLanes] = {};
    simd::Vf sum = simd::zero();
    for (std::int32_t j = 0; j < args.top_k; ++j) {
      std::memcpy(lanes, args.y + places[j] * args.dim + i, bytes);
      sum = simd::fma(simd::set1(weights[j]), simd::load(lanes), sum);
    }
    std::memcpy(lanes, hidden + i, bytes);
    simd::store(lanes, simd::add(simd::load(lanes), sum));
    std::memcpy(hidden + i, lanes, bytes);
  }
}

}  // namespace

MET_CPU_KERNEL(expert_sum, met::ExpertSumArgs) {
  const std::int64_t tokens = *args.tokens;
  for (std::int64_t t = ctx->thread; t < tokens; t += ctx->threads) add_experts(args, t);
}
