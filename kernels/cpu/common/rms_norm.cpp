// RMS normalisation of rows, stored or added to y. A row is one thread's work.
#include "activations.h"
#include "met/cpu_kernel.h"

MET_CPU_KERNEL(rms_norm, met::RmsNormArgs) {
  const std::int64_t rows = *args.rows;
  for (std::int64_t r = ctx->thread; r < rows; r += ctx->threads) {
    const float* x = args.x + r * args.dim;
    float* y = args.y + r * args.dim;
    const float scale = activations::inverse_rms(x, args.dim, args.eps);
    for (std::int64_t i = 0; i < args.dim; ++i) {
      const float value = x[i] * scale * (args.weight[i] + args.offset);
      y[i] = args.add != 0 ? y[i] + value : value;
    }
  }
}
