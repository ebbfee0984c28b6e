// Router of a mixture-of-experts layer: tokens are chosen for by all threads, pairs are grouped by the first.
#include "met/cpu_kernel.h"
#include "met/cpu_moe_ops.h"
#include "simd.h"

namespace {

/// Softmax of `count` logits in place. The order of the sum is a function of `count` alone.
void softmax(float* p, std::int32_t count) {
  float peak = p[0];
  for (std::int32_t e = 1; e < count; ++e) peak = p[e] > peak ? p[e] : peak;
  float total = 0;
  for (std::int32_t e = 0; e < count; e += simd::kLanes) {
    alignas(64) float lanes[simd::kLanes] = {};
    const std::int32_t here = count - e < simd::kLanes ? count - e : simd::kLanes;
    const auto bytes = static_cast<std::size_t>(here) * sizeof(float);
    std::memcpy(lanes, p + e, bytes);
    simd::store(lanes, simd::exp(simd::sub(simd::load(lanes), simd::set1(peak))));
    for (std::int32_t i = 0; i < here; ++i) total += lanes[i];
    std::memcpy(p + e, lanes, bytes);
  }
  for (std::int32_t e = 0; e < count; ++e) p[e] /= total;
}

/// The top_k greatest of p, which loses them: experts to `chosen`, probabilities to `weights`.
void choose(const met::MoeRouteArgs& args, float* p, std::int32_t* chosen, float* weights) {
  float total = 0;
  for (std::int32_t j = 0; j < args.top_k; ++j) {
    std::int32_t best = -1;
    for (std::int32_t e = 0; e < args.experts; ++e) {
      // Taken ones are negative. A row with a NaN is NaN all over, takes its first experts and spoils itself alone.
      if (!(p[e] < 0) && (best < 0 || p[e] > p[best])) best = e;
    }
    chosen[j] = best;
    weights[j] = p[best];
    total += p[best];
    p[best] = -1;
  }
  if (args.renormalise != 0)
    for (std::int32_t j = 0; j < args.top_k; ++j) weights[j] /= total;
}

/// From experts in `places` to places, begin and tokens.
void group(const met::MoeRouteArgs& args, std::int64_t tokens) {
  const met::MoePairs& pairs = args.pairs;
  const std::int64_t count = tokens * args.top_k;
  std::memset(pairs.begin, 0, static_cast<std::size_t>(args.experts + 1) * sizeof(std::int32_t));
  for (std::int64_t i = 0; i < count; ++i) ++pairs.begin[pairs.places[i] + 1];
  for (std::int32_t e = 0; e < args.experts; ++e) pairs.begin[e + 1] += pairs.begin[e];
  // begin[e] walks to the end of its pairs, which is where begin[e + 1] stood.
  for (std::int64_t i = 0; i < count; ++i) {
    std::int32_t& next = pairs.begin[pairs.places[i]];
    pairs.tokens[next] = static_cast<std::int32_t>(i / args.top_k);
    pairs.places[i] = next++;
  }
  for (std::int32_t e = args.experts; e > 0; --e) pairs.begin[e] = pairs.begin[e - 1];
  pairs.begin[0] = 0;
}

}  // namespace

MET_CPU_KERNEL(moe_route, met::MoeRouteArgs) {
  const std::int64_t tokens = *args.tokens;
  for (std::int64_t t = ctx->thread; t < tokens; t += ctx->threads) {
    float* p = args.logits + t * args.experts;
    softmax(p, args.experts);
    choose(args, p, args.pairs.places + t * args.top_k, args.pairs.weights + t * args.top_k);
  }
  if (ctx->threads > 1) met_barrier(ctx);
  if (ctx->thread == 0) group(args, tokens);
}
