// Inputs and FP64 oracle of the embedding.
#include <cmath>

#include "ops/cuda/residual_norm.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

struct EmbeddingShape {
  int tokens, tokens_max;
  std::int64_t dim, vocabulary;
  float scale;
  bool norm;
};

struct EmbeddingInputs {
  std::vector<std::uint16_t> table, hidden, scaled;
  std::vector<std::int32_t> ids, device_rows, fed;
  std::vector<float> norm, squares;
};

EmbeddingInputs inputs_of(const EmbeddingShape& s, bool timed) {
  Rng rng{static_cast<std::uint64_t>(s.tokens * 11 + s.dim)};
  EmbeddingInputs in;
  in.table = random_bf16(rng, static_cast<std::size_t>(s.vocabulary * s.dim), 2.0);
  in.hidden = random_bf16(rng, static_cast<std::size_t>(s.tokens_max * s.dim), 2.0);
  in.scaled = in.hidden;
  const auto random_id = [&] {
    return static_cast<std::int32_t>(rng.next() % static_cast<std::uint64_t>(s.vocabulary));
  };
  for (int t = 0; t < s.tokens_max; ++t) {
    in.ids.push_back(random_id());
    in.fed.push_back(random_id());
    in.device_rows.push_back(s.tokens_max - 1 - t);
  }
  for (std::int64_t d = 0; d < s.dim; ++d) in.norm.push_back(static_cast<float>(rng.uniform(-2, 2)));
  in.squares.assign(static_cast<std::size_t>(s.tokens_max), -1.0F);
  if (timed || s.tokens < 3) return in;
  in.ids[0] = -1;  // fed by the device
  in.ids[1] = static_cast<std::int32_t>(s.vocabulary);
  in.ids[2] = -2;
  return in;
}

/// hidden, scaled, squares. hidden with scale 1 is exact, so what follows it is judged tightly.
void oracle(const EmbeddingShape& s, const EmbeddingInputs& in, std::span<Output> outputs) {
  outputs[0].want = values_of(in.hidden);
  outputs[1].want = values_of(in.scaled);
  outputs[2].want.assign(in.squares.begin(), in.squares.end());
  const auto rows = values_of(in.table);
  for (int t = 0; t < s.tokens; ++t) {
    const auto at = static_cast<std::size_t>(t);
    const std::int32_t id =
        in.ids[at] == -1 ? in.fed[static_cast<std::size_t>(in.device_rows[at])] : in.ids[at];
    const bool known = id >= 0 && id < s.vocabulary;
    double squares = 0;
    for (std::int64_t d = 0; d < s.dim; ++d) {
      const double h =
          known ? rows[static_cast<std::size_t>(id * s.dim + d)] * static_cast<double>(s.scale) : 0.0;
      outputs[0].want[static_cast<std::size_t>(t * s.dim + d)] = h;
      if (s.norm)
        outputs[1].want[static_cast<std::size_t>(t * s.dim + d)] =
            h * static_cast<double>(in.norm[static_cast<std::size_t>(d)]);
      squares += h * h;
    }
    if (s.norm) outputs[2].want[at] = squares;
  }
}

Result<OpCase> embedding(GpuBackend& gpu, const EmbeddingShape& s, bool timed) {
  const EmbeddingInputs in = inputs_of(s, timed);
  const bool exact = s.scale == 1;
  const StepCounts counts{s.tokens, 0, 0, 0};
  OpCase op{
      .op = "embedding_bf16",
      .shape = std::to_string(s.tokens) + "x" + std::to_string(s.dim) + (exact ? "" : " scaled") +
               (s.norm ? " norm" : ""),
      .buffers = {raw(in.ids), raw(in.device_rows), raw(in.fed), bytes_of(in.table), bytes_of(in.hidden),
                  raw(in.norm), bytes_of(in.scaled), raw(in.squares), raw(std::vector{counts})},
      .outputs = {
          {.buffer = 4,
           .tolerance =
               exact ? Tolerance{"exact copy", 0, 0} : Tolerance{"one BF16 rounding", kBf16Rounding, 0}},
          {.buffer = 6, .tolerance = {"BF16 roundings", exact ? kBf16Rounding : 2 * kBf16Rounding, 0}},
          {.buffer = 7,
           .type = DType::kF32,
           .tolerance = {"FP32 sums of rounded values", exact ? 0x1p-18 : 0x1p-9, 0}}}};
  if (!timed) oracle(s, in, op.outputs);
  MET_ASSIGN(const auto plan, ops::cuda::plan_embedding_device(gpu, s.dim, s.tokens_max));
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    const auto at = [&](std::size_t i) { return reinterpret_cast<void*>(p[i].value); };
    return std::vector{ops::cuda::embedding_device_launch(
        plan, {.ids = static_cast<const std::int32_t*>(at(0)),
               .device_rows = static_cast<const std::int32_t*>(at(1)),
               .fed = static_cast<const std::int32_t*>(at(2)),
               .table = static_cast<const Bf16Bits*>(at(3)),
               .hidden = static_cast<Bf16Bits*>(at(4)),
               .next_norm = s.norm ? static_cast<const float*>(at(5)) : nullptr,
               .scaled = static_cast<Bf16Bits*>(at(6)),
               .squares = static_cast<float*>(at(7)),
               .counts = static_cast<const StepCounts*>(at(8)),
               .dim = s.dim,
               .vocabulary = s.vocabulary,
               .scale = s.scale})};
  };
  op.bytes = (s.norm ? 6.0 : 4.0) * static_cast<double>(s.dim) * s.tokens;
  return op;
}

}  // namespace

Result<std::vector<OpCase>> embedding_cases(GpuBackend& gpu, bool timed) {
  std::vector<EmbeddingShape> shapes;
  if (timed) {
    for (const int n : {1, 128, 16384}) shapes.push_back({n, n, 4096, n > 1000 ? 32768 : 1024, 1, n < 1000});
  } else {
    for (const float scale : {1.0F, 33.94F})
      for (const bool norm : {false, true})
        for (const int n : {0, 1, 5, 200})
          shapes.push_back({n, n + 3, n == 5 ? 4104 : 576, 1000, scale, norm});
  }
  std::vector<OpCase> cases;
  for (const EmbeddingShape& s : shapes) {
    MET_ASSIGN(OpCase op, embedding(gpu, s, timed));
    cases.push_back(std::move(op));
  }
  return cases;
}

}  // namespace met::gpu::check
