// Rows of logits with random parameters; src/sampling chooses the ids that are wanted.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "engine/sample_params.h"
#include "ops/cuda/sample.h"
#include "sampling/sampler.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

using sampling::SamplingParams;

/// One sampled row of a case.
struct Row {
  SamplingParams params;
  std::vector<std::int32_t> prompt, output, end_ids;
  std::vector<std::uint32_t> mask;  ///< the grammar's; empty: none
  std::int32_t device_row = 0;
};

struct Shape {
  int rows = 0, rows_max = 0;  ///< sampled, and of the launch
  int vocabulary = 0;
  float scale = 1, softcap = 0;
  int steps = 1;  ///< launches that follow one another: counts and ids go on on the device
};

enum Buffer : std::size_t {
  kLogits,
  kSamples,
  kParams,
  kEndIds,
  kBiases,
  kAllowed,
  kMasks,
  kCounts,
  kFed,
  kBegins,
  kBeginIds,
  kLogprobs,
  kStepRows,  // and kStepOutcomes, for each step
};

template <class T>
std::vector<std::byte> poisoned(std::size_t count) {
  return std::vector<std::byte>(count * sizeof(T), std::byte{0xff});
}

/// Builds a case row by row.
class SampleCase {
 public:
  SampleCase(std::string name, const Shape& shape, std::vector<float> logits)
      : name_(std::move(name)), shape_(shape), logits_(std::move(logits)) {}

  void add(Row row) {
    row.device_row = static_cast<std::int32_t>(device_rows() - 1 - rows_.size());
    rows_.push_back(std::move(row));
  }
  OpCase finish(const ops::cuda::SamplePlan& plan) const;

 private:
  std::size_t device_rows() const { return static_cast<std::size_t>(shape_.rows_max) + 1; }
  std::vector<float> finished(std::size_t row) const;
  void fill_static(OpCase& op) const;
  void fill_steps(OpCase& op) const;

  std::string name_;
  Shape shape_;
  std::vector<float> logits_;  // [rows_max, vocabulary]
  std::vector<Row> rows_;
};

/// The row as the model means it.
std::vector<float> SampleCase::finished(std::size_t row) const {
  const auto v = static_cast<std::size_t>(shape_.vocabulary);
  std::vector<float> out(logits_.begin() + static_cast<std::ptrdiff_t>(row * v),
                         logits_.begin() + static_cast<std::ptrdiff_t>((row + 1) * v));
  for (float& l : out) {
    l *= shape_.scale;
    if (shape_.softcap != 0.0F) l = shape_.softcap * std::tanh(l / shape_.softcap);
  }
  return out;
}

/// What a device row holds from its begin on.
void SampleCase::fill_static(OpCase& op) const {
  const std::size_t rows = device_rows();
  const auto words = static_cast<std::size_t>(ops::cuda::sample_mask_words(shape_.vocabulary));
  std::vector<SampleParams> params(rows);
  std::vector<std::int32_t> end_ids(rows * kSampleEndMax, -1);
  std::vector<SampleBias> biases(rows * kSampleBiasMax, SampleBias{-1, NAN});
  std::vector<std::uint32_t> allowed(rows * words, 0);
  std::vector<std::uint32_t> masks(rows_.size() * words, 0);
  std::vector<SampleBegin> begins;
  std::vector<std::int32_t> begin_ids{0};
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const Row& row = rows_[r];
    const auto at = static_cast<std::size_t>(row.device_row);
    params[at] = engine::sample_params(row.params, row.prompt.size(), row.end_ids.size());
    std::ranges::copy(row.end_ids, end_ids.begin() + static_cast<std::ptrdiff_t>(at * kSampleEndMax));
    for (std::size_t b = 0; b < row.params.logit_bias.size(); ++b)
      biases[at * kSampleBiasMax + b] = {row.params.logit_bias[b].first, row.params.logit_bias[b].second};
    engine::set_allowed(row.params.allowed_token_ids, shape_.vocabulary,
                        std::span(allowed).subspan(at * words, words));
    std::ranges::copy(row.mask, masks.begin() + static_cast<std::ptrdiff_t>(r * words));
    begins.push_back({row.device_row, static_cast<std::int32_t>(begin_ids.size()),
                      static_cast<std::int32_t>(row.prompt.size()),
                      static_cast<std::int32_t>(row.output.size())});
    begin_ids.insert(begin_ids.end(), row.prompt.begin(), row.prompt.end());
    begin_ids.insert(begin_ids.end(), row.output.begin(), row.output.end());
  }
  begins.resize(std::max<std::size_t>(begins.size(), 1));
  masks.resize(std::max<std::size_t>(masks.size(), 1));
  op.buffers = {raw(logits_),
                raw(std::vector<std::int32_t>{shape_.rows}),
                raw(params),
                raw(end_ids),
                raw(biases),
                raw(allowed),
                raw(masks),
                poisoned<std::uint32_t>(rows * static_cast<std::size_t>(shape_.vocabulary)),
                {},
                raw(begins),
                raw(begin_ids),
                poisoned<SampleLogprobs>(static_cast<std::size_t>(shape_.rows_max))};
}

std::vector<double> as_numbers(const std::vector<std::int32_t>& values) {
  return {values.begin(), values.end()};
}

/// Rows and wanted outcomes of each step, and the counts and ids after the last.
void SampleCase::fill_steps(OpCase& op) const {
  const auto v = static_cast<std::size_t>(shape_.vocabulary);
  const auto max = static_cast<std::size_t>(shape_.rows_max);
  std::vector<std::int32_t> fed(device_rows(), -7);
  op.buffers[kFed] = raw(fed);
  std::vector<std::int32_t> counts(device_rows() * v, -1);
  std::vector<std::vector<SampleRow>> works(static_cast<std::size_t>(shape_.steps));
  std::vector<std::vector<std::int32_t>> wanted(works.size(), std::vector<std::int32_t>(2 * max, -1));
  for (auto& work : works)
    work.assign(max, SampleRow{1 << 30, 1 << 30, 0, 0, 1 << 30, -1});  // never to be read
  for (std::size_t r = 0; r < rows_.size(); ++r) {
    const Row& row = rows_[r];
    auto sampler = sampling::Sampler::create(
        row.params, {.vocab_size = shape_.vocabulary, .prompt = row.prompt, .end_ids = row.end_ids});
    MET_CHECK(sampler.has_value(), sampler.error().message);
    for (const std::int32_t id : row.output) sampler->accept(id);
    const auto at = static_cast<std::size_t>(row.device_row);
    std::fill_n(counts.begin() + static_cast<std::ptrdiff_t>(at * v), v, 0);
    for (const std::int32_t id : row.prompt)
      if (id < shape_.vocabulary)
        counts[at * v + static_cast<std::size_t>(id)] |= static_cast<std::int32_t>(kSampleInPrompt);
    for (const std::int32_t id : row.output) ++counts[at * v + static_cast<std::size_t>(id)];
    const bool counted = row.params.repetition_penalty != 1 || row.params.presence_penalty != 0 ||
                         row.params.frequency_penalty != 0;
    for (std::size_t s = 0; s < works.size(); ++s) {
      const auto position = static_cast<std::int32_t>(row.prompt.size() + row.output.size() + s);
      works[s][r] = {row.device_row,
                     static_cast<std::int32_t>((r + s) % max),
                     position,
                     -1,
                     row.mask.empty() ? -1 : static_cast<std::int32_t>(r),
                     -1};
      std::vector<float> logits = finished((r + s) % max);
      const auto sampled = sampler->sample(logits, position, row.mask);
      const std::int32_t flags = (sampled->non_finite ? 1 : 0) | (sampled->empty ? 2 : 0);
      wanted[s][2 * r] = sampled->id;
      wanted[s][2 * r + 1] = flags;
      fed[at] = sampled->id;
      if (flags != 0) continue;
      sampler->accept(sampled->id);
      if (counted) ++counts[at * v + static_cast<std::size_t>(sampled->id)];
    }
  }
  const Tolerance exact{"equal", 0, 0};
  op.outputs = {{.buffer = kCounts, .type = DType::kI32, .want = as_numbers(counts), .tolerance = exact},
                {.buffer = kFed, .type = DType::kI32, .want = as_numbers(fed), .tolerance = exact}};
  for (std::size_t s = 0; s < works.size(); ++s) {
    op.outputs.push_back({.buffer = op.buffers.size() + 1,
                          .type = DType::kI32,
                          .want = as_numbers(wanted[s]),
                          .tolerance = exact});
    op.buffers.push_back(raw(works[s]));
    op.buffers.push_back(poisoned<SampleOutcome>(max));
  }
}

SampleArgs args_of(std::span<const DevicePtr> p, const Shape& shape, std::size_t step) {
  const auto at = [&]<class T>(std::size_t i, T*) { return reinterpret_cast<T*>(p[i].value); };
  return {.logits = at(kLogits, static_cast<float*>(nullptr)),
          .samples = at(kSamples, static_cast<std::int32_t*>(nullptr)),
          .rows = at(kStepRows + 2 * step, static_cast<SampleRow*>(nullptr)),
          .params = at(kParams, static_cast<SampleParams*>(nullptr)),
          .end_ids = at(kEndIds, static_cast<std::int32_t*>(nullptr)),
          .biases = at(kBiases, static_cast<SampleBias*>(nullptr)),
          .allowed = at(kAllowed, static_cast<std::uint32_t*>(nullptr)),
          .masks = at(kMasks, static_cast<std::uint32_t*>(nullptr)),
          .counts = at(kCounts, static_cast<std::uint32_t*>(nullptr)),
          .fed = at(kFed, static_cast<std::int32_t*>(nullptr)),
          .outcomes = at(kStepRows + 2 * step + 1, static_cast<SampleOutcome*>(nullptr)),
          .logprobs = at(kLogprobs, static_cast<SampleLogprobs*>(nullptr)),
          .vocabulary = shape.vocabulary,
          .scale = shape.scale,
          .softcap = shape.softcap};
}

OpCase SampleCase::finish(const ops::cuda::SamplePlan& plan) const {
  OpCase op{.op = "sample", .shape = name_, .scratch = {kLogprobs}};
  fill_static(op);
  fill_steps(op);
  const Shape shape = shape_;
  const int begins = static_cast<int>(rows_.size());
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    std::vector<KernelLaunch> launches;
    if (begins > 0)
      launches.push_back(ops::cuda::sample_begin_launch(
          plan,
          {reinterpret_cast<SampleBegin*>(p[kBegins].value),
           reinterpret_cast<std::int32_t*>(p[kBeginIds].value),
           reinterpret_cast<std::uint32_t*>(p[kCounts].value), shape.vocabulary},
          begins));
    for (int s = 0; s < shape.steps; ++s)
      launches.push_back(
          ops::cuda::sample_launch(plan, args_of(p, shape, static_cast<std::size_t>(s)), shape.rows_max));
    return launches;
  };
  return op;
}

std::vector<float> normal_logits(Rng& rng, std::size_t count, double sigma) {
  std::vector<float> out(count);
  for (float& l : out) {
    double sum = 0;
    for (int i = 0; i < 4; ++i) sum += rng.uniform(-1, 1);
    l = static_cast<float>(sum * sigma * std::sqrt(0.75));
  }
  return out;
}

SamplingParams greedy() {
  SamplingParams p;
  p.temperature = 0;
  p.seed = 1;
  return p;
}

/// Greedy rows: ties, values that are no numbers, nothing at all.
Result<OpCase> greedy_case(GpuBackend& gpu, const Shape& shape, std::uint64_t seed) {
  MET_ASSIGN(const auto plan, ops::cuda::plan_sample(gpu, shape.vocabulary));
  Rng rng{seed};
  const auto v = static_cast<std::size_t>(shape.vocabulary);
  auto logits = normal_logits(rng, v * static_cast<std::size_t>(shape.rows_max), 4);
  const float infinity = std::numeric_limits<float>::infinity();
  for (int r = 0; r < shape.rows_max; ++r) {
    const auto row = std::span(logits).subspan(static_cast<std::size_t>(r) * v, v);
    const auto any = [&]() -> float& { return row[rng.next() % v]; };
    switch (r % 8) {
      case 1:
        for (int i = 0; i < 5; ++i) any() = 100;  // ties
        break;
      case 2:
        any() = NAN;
        break;
      case 3:
        any() = infinity;
        break;
      case 4:
        std::ranges::fill(row, -infinity);
        break;
      case 5:
        std::ranges::fill(row, -0.0F);
        any() = 0.0F;
        break;
      case 6:
        std::ranges::fill(row, NAN);
        break;
      case 7:
        row.back() = 1000;
        break;
      default:
        break;
    }
  }
  SampleCase made("greedy " + std::to_string(shape.rows) + "x" + std::to_string(shape.vocabulary) +
                      (shape.softcap != 0 ? " softcap" : ""),
                  shape, std::move(logits));
  for (int r = 0; r < shape.rows; ++r) made.add({.params = greedy(), .prompt = {1}});
  return made.finish(plan);
}

Result<OpCase> timed_case(GpuBackend& gpu, const std::string& name, const SamplingParams& params, int rows,
                          int vocabulary) {
  const Shape shape{.rows = rows, .rows_max = rows, .vocabulary = vocabulary};
  MET_ASSIGN(const auto plan, ops::cuda::plan_sample(gpu, vocabulary));
  Rng rng{7};
  auto logits = normal_logits(rng, static_cast<std::size_t>(vocabulary), 3);
  const auto v = logits.size();
  logits.resize(v * static_cast<std::size_t>(rows));
  for (std::size_t i = v; i < logits.size(); ++i) logits[i] = logits[i - v];
  SampleCase made(name + " " + std::to_string(rows) + "x" + std::to_string(vocabulary), shape,
                  std::move(logits));
  for (int r = 0; r < rows; ++r) made.add({.params = params, .prompt = {1}});
  OpCase op = made.finish(plan);
  op.launch = [=](std::span<const DevicePtr> p) -> Result<std::vector<KernelLaunch>> {
    return std::vector{ops::cuda::sample_launch(plan, args_of(p, shape, 0), rows)};
  };
  op.bytes = 4.0 * rows * vocabulary;
  return op;
}

}  // namespace

Result<std::vector<OpCase>> sample_cases(GpuBackend& gpu, bool timed) {
  std::vector<OpCase> cases;
  const auto add = [&](Result<OpCase> made) -> Result<> {
    if (!made) return std::unexpected(made.error());
    cases.push_back(std::move(*made));
    return {};
  };
  if (timed) {
    for (const int rows : {1, 8, 32, 256}) MET_TRY(add(timed_case(gpu, "greedy", greedy(), rows, 151936)));
    return cases;
  }
  for (const int vocabulary : {1, 3, 31, 384, 448, 49152, 32003, 151936})
    for (const int rows : {0, 1, 5, 16})
      MET_TRY(add(greedy_case(gpu, {.rows = rows, .rows_max = rows + 2, .vocabulary = vocabulary, .steps = 2},
                              static_cast<std::uint64_t>(vocabulary + rows))));
  MET_TRY(add(
      greedy_case(gpu, {.rows = 9, .rows_max = 16, .vocabulary = 1001, .scale = 0.25F, .softcap = 30}, 3)));
  return cases;
}

}  // namespace met::gpu::check
