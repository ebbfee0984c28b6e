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
  int logprobs = -1;
  std::int32_t given = -1;  ///< an id whose log-probabilities are wanted; nothing is sampled
  bool on_host = false;
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
  kSampleSteps,
  kParams,
  kEndIds,
  kBiases,
  kAllowed,
  kMasks,
  kCounts,
  kFed,
  kBegins,
  kBeginIds,
  kStep,  // the first of each step's
};

/// The buffers of each step, from kStep on.
enum StepBuffer : std::size_t { kRows, kOutcomes, kLogprobs, kTopIds, kStepBuffers };

constexpr std::size_t kTopIdWords = sizeof(SampleTopIds) / sizeof(std::int32_t);

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
  struct Wanted;
  void run_row(std::size_t r, Wanted& wanted) const;

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

std::vector<std::byte> steps_of(const Shape& shape) { return raw(std::vector<SampleStep>{{shape.rows, 1}}); }

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
    if (row.on_host) params[at].modes |= kSampleOnHost;
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
                steps_of(shape_),
                raw(params),
                raw(end_ids),
                raw(biases),
                raw(allowed),
                raw(masks),
                poisoned<std::uint32_t>(rows * static_cast<std::size_t>(shape_.vocabulary)),
                {},
                raw(begins),
                raw(begin_ids)};
}

template <class T>
std::vector<double> as_numbers(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

/// What the buffers shall hold.
struct SampleCase::Wanted {
  struct Step {
    std::vector<SampleRow> rows;
    std::vector<std::int32_t> outcomes, top_ids;
    std::vector<float> logprobs;
  };
  std::vector<std::int32_t> fed, counts;
  std::vector<Step> steps;
};

std::int32_t flags_of(const sampling::Sampled& sampled) {
  return (sampled.non_finite ? 1 : 0) | (sampled.empty ? 2 : 0);
}

/// Runs a row through all steps on the host.
void SampleCase::run_row(std::size_t r, Wanted& wanted) const {
  const auto v = static_cast<std::size_t>(shape_.vocabulary);
  const auto max = static_cast<std::size_t>(shape_.rows_max);
  const Row& row = rows_[r];
  const auto at = static_cast<std::size_t>(row.device_row);
  auto sampler = sampling::Sampler::create(
      row.params, {.vocab_size = shape_.vocabulary, .prompt = row.prompt, .end_ids = row.end_ids});
  MET_CHECK(sampler.has_value(), sampler.error().message);
  for (const std::int32_t id : row.output) sampler->accept(id);
  const auto counts = std::span(wanted.counts).subspan(at * v, v);
  std::ranges::fill(counts, 0);
  for (const std::int32_t id : row.prompt)
    if (id < shape_.vocabulary)
      counts[static_cast<std::size_t>(id)] |= static_cast<std::int32_t>(kSampleInPrompt);
  for (const std::int32_t id : row.output) ++counts[static_cast<std::size_t>(id)];
  const bool counted = row.params.repetition_penalty != 1 || row.params.presence_penalty != 0 ||
                       row.params.frequency_penalty != 0;
  for (std::size_t s = 0; s < wanted.steps.size(); ++s) {
    Wanted::Step& step = wanted.steps[s];
    const auto position = static_cast<std::int32_t>(row.prompt.size() + row.output.size() + s);
    const auto logits_row = static_cast<std::int32_t>((r + s) % max);
    step.rows[r] = {row.device_row,
                    logits_row,
                    position,
                    row.logprobs,
                    row.mask.empty() ? -1 : static_cast<std::int32_t>(r),
                    row.given};
    if (row.on_host) continue;
    std::vector<float> logits = finished((r + s) % max);
    std::int32_t id = row.given;
    if (id < 0) {
      const auto sampled = sampler->sample(logits, position, row.mask);
      id = sampled->id;
      step.outcomes[2 * (r + 1)] = id;
      step.outcomes[2 * (r + 1) + 1] = flags_of(*sampled);
      wanted.fed[at] = id;
      if (flags_of(*sampled) != 0) continue;
      sampler->accept(id);
      if (counted) ++counts[static_cast<std::size_t>(id)];
    }
    if (row.logprobs < 0) continue;
    std::vector<sampling::Logprob> logprobs;
    sampling::logprobs(finished((r + s) % max), id, row.logprobs, logprobs);
    step.logprobs[(r + 1) * (kSampleTopMax + 1)] = logprobs[0].logprob;
    std::int32_t* ids = step.top_ids.data() + (r + 1) * kTopIdWords;
    ids[0] = static_cast<std::int32_t>(logprobs.size()) - 1;
    ids[kTopIdWords - 1] = static_cast<std::int32_t>(logprobs[0].rank);
    for (std::size_t i = 1; i < logprobs.size(); ++i) {
      step.logprobs[(r + 1) * (kSampleTopMax + 1) + i] = logprobs[i].logprob;
      ids[i] = logprobs[i].id;
    }
  }
}

SampleArgs args_of(std::span<const DevicePtr> p, const Shape& shape, std::size_t step) {
  const auto at = [&]<class T>(std::size_t i, T*) { return reinterpret_cast<T*>(p[i].value); };
  return {.logits = at(kLogits, static_cast<float*>(nullptr)),
          .step = at(kSampleSteps, static_cast<SampleStep*>(nullptr)),
          .rows = at(kStep + kStepBuffers * step + kRows, static_cast<SampleRow*>(nullptr)),
          .params = at(kParams, static_cast<SampleParams*>(nullptr)),
          .end_ids = at(kEndIds, static_cast<std::int32_t*>(nullptr)),
          .biases = at(kBiases, static_cast<SampleBias*>(nullptr)),
          .allowed = at(kAllowed, static_cast<std::uint32_t*>(nullptr)),
          .masks = at(kMasks, static_cast<std::uint32_t*>(nullptr)),
          .counts = at(kCounts, static_cast<std::uint32_t*>(nullptr)),
          .fed = at(kFed, static_cast<std::int32_t*>(nullptr)),
          .outcomes = at(kStep + kStepBuffers * step + kOutcomes, static_cast<SampleOutcome*>(nullptr)),
          .logprobs = at(kStep + kStepBuffers * step + kLogprobs, static_cast<SampleLogprobs*>(nullptr)),
          .top_ids = at(kStep + kStepBuffers * step + kTopIds, static_cast<SampleTopIds*>(nullptr)),
          .vocabulary = shape.vocabulary,
          .scale = shape.scale,
          .softcap = shape.softcap};
}

OpCase SampleCase::finish(const ops::cuda::SamplePlan& plan) const {
  OpCase op{.op = "sample", .shape = name_};
  fill_static(op);
  const auto max = static_cast<std::size_t>(shape_.rows_max);
  Wanted wanted{
      .fed = std::vector<std::int32_t>(device_rows(), -7),
      .counts = std::vector<std::int32_t>(device_rows() * static_cast<std::size_t>(shape_.vocabulary), -1),
      .steps = std::vector<Wanted::Step>(static_cast<std::size_t>(shape_.steps))};
  op.buffers[kFed] = raw(wanted.fed);
  for (Wanted::Step& step : wanted.steps) {
    step.rows.assign(max,
                     SampleRow{1 << 30, 1 << 30, 0, 0, 1 << 30, -1});  // those past the count are never used
    step.outcomes.assign(2 * (max + 1), -1);                           // entry 0 is another step's
    step.logprobs.assign((max + 1) * (kSampleTopMax + 1), 7.0F);
    step.top_ids.assign((max + 1) * kTopIdWords, -1);
    op.buffers.insert(op.buffers.end(), {{}, raw(step.outcomes), raw(step.logprobs), raw(step.top_ids)});
  }
  for (std::size_t r = 0; r < rows_.size(); ++r) run_row(r, wanted);
  const Tolerance exact{"equal", 0, 0};
  op.outputs = {
      {.buffer = kCounts, .type = DType::kI32, .want = as_numbers(wanted.counts), .tolerance = exact},
      {.buffer = kFed, .type = DType::kI32, .want = as_numbers(wanted.fed), .tolerance = exact}};
  for (std::size_t s = 0; s < wanted.steps.size(); ++s) {
    const Wanted::Step& step = wanted.steps[s];
    const std::size_t at = kStep + s * kStepBuffers;
    op.buffers[at + kRows] = raw(step.rows);
    op.outputs.push_back({.buffer = at + kOutcomes,
                          .type = DType::kI32,
                          .want = as_numbers(step.outcomes),
                          .tolerance = exact});
    op.outputs.push_back(
        {.buffer = at + kTopIds, .type = DType::kI32, .want = as_numbers(step.top_ids), .tolerance = exact});
    op.outputs.push_back({.buffer = at + kLogprobs,
                          .type = DType::kF32,
                          .want = as_numbers(step.logprobs),
                          .tolerance = {"log-softmax in FP32 weights", 1e-6, 2e-6}});
  }
  if (std::ranges::any_of(rows_, &Row::on_host)) {
    std::vector<float> logits = logits_;
    const auto v = static_cast<std::ptrdiff_t>(shape_.vocabulary);
    for (std::size_t r = 0; r < rows_.size(); ++r)
      if (rows_[r].on_host)
        std::ranges::copy(finished(r), logits.begin() + static_cast<std::ptrdiff_t>(r) * v);
    op.outputs.push_back({.buffer = kLogits,
                          .type = DType::kF32,
                          .want = as_numbers(logits),
                          .tolerance = {"tanh", 1e-6, 1e-6}});
  }
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

// ---- random rows ----

template <class T>
T pick(Rng& rng, std::initializer_list<T> values) {
  return values.begin()[rng.next() % values.size()];
}

/// A row of one of the kinds that models and tests make: normal of several widths, BF16 values with ties, few likely
/// tokens, all equal, removed tokens, far outliers.
std::vector<float> random_logits(Rng& rng, std::size_t size) {
  auto row = normal_logits(rng, size, pick(rng, {0.3, 1.0, 2.5, 6.0}));
  const auto some = [&](std::size_t count, auto change) {
    for (std::size_t i = 0; i < count; ++i) change(row[rng.next() % size]);
  };
  switch (rng.next() % 8) {
    case 0:
      for (float& l : row) l = bf16_to_f32(f32_to_bf16(l));
      break;
    case 1:
      for (float& l : row) l = std::round(l);
      break;
    case 2:
      some(6, [&](float& l) { l = static_cast<float>(rng.uniform(15, 18)); });
      break;
    case 3:
      std::ranges::fill(row, 1.5F);
      break;
    case 4:
      some(size / 2, [](float& l) { l = -std::numeric_limits<float>::infinity(); });
      break;
    case 5:
      some(size / 8, [](float& l) { l = -1e30F; });
      break;
    case 6:
      for (float& l : row) l += 100;
      break;
    default:
      break;
  }
  return row;
}

std::vector<std::int32_t> random_ids(Rng& rng, std::size_t count, int vocabulary) {
  std::vector<std::int32_t> ids(count);
  for (auto& id : ids) id = static_cast<std::int32_t>(rng.next() % static_cast<std::uint64_t>(vocabulary));
  return ids;
}

Row random_row(Rng& rng, int vocabulary) {
  Row row;
  SamplingParams& p = row.params;
  p.seed = rng.next();
  p.choice = static_cast<int>(rng.next() % 4);
  p.temperature = pick(rng, {0.0, 0.3, 0.6, 0.7, 1.0, 1.0, 1.5, 2.0});
  p.top_k = pick(rng, {0, 0, 0, -1, 1, 5, 20, 50, 130, 256, 1000, 5000});
  p.top_p = pick(rng, {1.0, 1.0, 1.0, 0.1, 0.5, 0.9, 0.95, 0.999});
  p.min_p = pick(rng, {0.0, 0.0, 0.0, 0.02, 0.1, 0.7, 1.0});
  row.prompt = random_ids(rng, 1 + rng.next() % 40, vocabulary);
  row.output = random_ids(rng, rng.next() % 20, vocabulary);
  row.end_ids = random_ids(rng, rng.next() % 5, vocabulary);
  if (rng.next() % 3 == 0) {
    p.repetition_penalty = pick(rng, {1.0, 1.1, 1.3, 0.8});
    p.presence_penalty = pick(rng, {0.0, 0.5, -0.7, 2.0});
    p.frequency_penalty = pick(rng, {0.0, 0.3, -0.2, 1.1});
  }
  if (rng.next() % 5 == 0) {
    for (const std::int32_t id : random_ids(rng, 1 + rng.next() % 20, vocabulary)) {
      if (std::ranges::find(p.logit_bias, id, &std::pair<std::int32_t, float>::first) != p.logit_bias.end())
        continue;
      p.logit_bias.emplace_back(id, static_cast<float>(rng.uniform(-10, 10)));
    }
  }
  if (rng.next() % 8 == 0) p.allowed_token_ids = random_ids(rng, 1 + rng.next() % 60, vocabulary);
  if (rng.next() % 4 == 0) p.min_tokens = static_cast<int>(rng.next() % 25);
  if (rng.next() % 6 == 0) {
    const std::uint64_t density = pick<std::uint64_t>(rng, {1, 2, 7, 500});
    row.mask.resize(static_cast<std::size_t>(ops::cuda::sample_mask_words(vocabulary)));
    for (int id = 0; id < vocabulary; ++id)
      if (rng.next() % density == 0) row.mask[static_cast<std::size_t>(id) / 32] |= 1U << (id % 32);
  }
  if (rng.next() % 3 == 0) row.logprobs = pick(rng, {0, 1, 5, 20});
  if (rng.next() % 12 == 0) {
    row.given = random_ids(rng, 1, vocabulary)[0];
    row.logprobs = pick(rng, {0, 3});
  } else if (rng.next() % 20 == 0) {
    row.on_host = true;
  }
  return row;
}

Result<OpCase> random_case(GpuBackend& gpu, const Shape& shape, std::uint64_t seed) {
  MET_ASSIGN(const auto plan, ops::cuda::plan_sample(gpu, shape.vocabulary));
  Rng rng{seed};
  const auto v = static_cast<std::size_t>(shape.vocabulary);
  std::vector<float> logits;
  for (int r = 0; r < shape.rows_max; ++r) {
    const auto row = random_logits(rng, v);
    logits.insert(logits.end(), row.begin(), row.end());
  }
  SampleCase made("random " + std::to_string(shape.rows) + "x" + std::to_string(shape.vocabulary) + " seed " +
                      std::to_string(seed),
                  shape, std::move(logits));
  for (int r = 0; r < shape.rows; ++r) made.add(random_row(rng, shape.vocabulary));
  return made.finish(plan);
}

std::vector<std::pair<std::string, SamplingParams>> timed_params() {
  SamplingParams neutral;
  neutral.seed = 1;
  SamplingParams top_p = neutral;
  top_p.top_p = 0.95;
  SamplingParams top_k_p = neutral;
  top_k_p.temperature = 0.6;
  top_k_p.top_k = 20;
  top_k_p.top_p = 0.95;
  SamplingParams penalties = top_k_p;
  penalties.repetition_penalty = 1.1;
  return {{"greedy", greedy()},
          {"T=1", neutral},
          {"T=1 p=.95", top_p},
          {"T=.6 k=20 p=.95", top_k_p},
          {"and penalty", penalties}};
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
  op.outputs.clear();
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
    for (const auto& [name, params] : timed_params())
      for (const int rows : {1, 32, 256}) MET_TRY(add(timed_case(gpu, name, params, rows, 151936)));
    return cases;
  }
  for (std::uint64_t seed = 1; seed <= 40; ++seed)
    MET_TRY(add(random_case(gpu, {.rows = 60, .rows_max = 64, .vocabulary = 384, .steps = 2}, seed)));
  for (std::uint64_t seed = 101; seed <= 110; ++seed)
    MET_TRY(add(random_case(
        gpu, {.rows = 30, .rows_max = 32, .vocabulary = 1003, .scale = 0.5F, .softcap = 30}, seed)));
  for (std::uint64_t seed = 201; seed <= 212; ++seed)
    MET_TRY(add(random_case(gpu, {.rows = 31, .rows_max = 32, .vocabulary = 49152, .steps = 2}, seed)));
  for (std::uint64_t seed = 301; seed <= 308; ++seed)
    MET_TRY(add(random_case(gpu, {.rows = 16, .rows_max = 16, .vocabulary = 151936, .steps = 2}, seed)));
  for (const int vocabulary : {1, 3, 31, 384, 448, 49152, 32003, 151936, 262144})
    for (const int rows : {0, 1, 5, 16})
      MET_TRY(add(greedy_case(gpu, {.rows = rows, .rows_max = rows + 2, .vocabulary = vocabulary, .steps = 2},
                              static_cast<std::uint64_t>(vocabulary + rows))));
  MET_TRY(add(
      greedy_case(gpu, {.rows = 9, .rows_max = 16, .vocabulary = 1001, .scale = 0.25F, .softcap = 30}, 3)));
  return cases;
}

}  // namespace met::gpu::check
