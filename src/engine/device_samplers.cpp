#include "engine/device_samplers.h"

#include <algorithm>
#include <cstring>

#include "engine/sample_params.h"

namespace met::engine {
namespace {

static_assert(static_cast<std::uint32_t>(kSampleNonFinite) == scheduler::kFlagNonFinite);
static_assert(static_cast<std::uint32_t>(kSampleEmpty) == scheduler::kFlagEmptyMask);
static_assert(static_cast<std::uint32_t>(kSampleOutOfRange) == scheduler::kFlagOutOfRange);

constexpr std::size_t kStepBytes = 16;  // a SampleStep, padded
constexpr std::size_t kEndBytes = sizeof(std::int32_t) * static_cast<std::size_t>(kSampleEndMax);
constexpr std::size_t kBiasBytes = sizeof(SampleBias) * static_cast<std::size_t>(kSampleBiasMax);
/// Ids of prompts and outputs that one copy brings for token counts; a longer sequence gets its own room.
constexpr std::int64_t kBeginIds = 1 << 16;

/// Sizes of what a step and a device row need.
struct Sizes {
  explicit Sizes(const DeviceSamplers::Options& o)
      : rows(static_cast<std::size_t>(o.rows)),
        scores(static_cast<std::size_t>(o.scores)),
        mask(static_cast<std::size_t>(ops::cuda::sample_mask_words(o.vocabulary)) * sizeof(std::uint32_t)),
        list(kEndBytes + kBiasBytes + mask),
        begin_ids(static_cast<std::size_t>(std::max(o.positions, kBeginIds))),
        counts(rows * static_cast<std::size_t>(o.vocabulary) * sizeof(std::uint32_t)) {}
  std::size_t params_at() const { return (kStepBytes + rows * sizeof(SampleRow) + 15) / 16 * 16; }
  std::size_t inputs() const { return params_at() + rows * sizeof(SampleParams); }
  std::size_t score_inputs() const {
    return kStepBytes + std::max<std::size_t>(scores, 1) * sizeof(SampleRow);
  }

  std::size_t rows, scores;
  std::size_t mask;       // bytes of a bit mask
  std::size_t list;       // bytes of one row's end ids, biases and allowed ids
  std::size_t begin_ids;  // ids
  std::size_t counts;     // bytes
};

template <class T>
T* host_at(const gpu::PinnedHost& memory, std::size_t byte) {
  return reinterpret_cast<T*>(static_cast<std::byte*>(memory.host) + byte);
}

template <class T>
T* device_at(gpu::DevicePtr pointer) {
  return reinterpret_cast<T*>(pointer.value);
}

std::size_t end_ids_of(const scheduler::RowAdded& added) {
  return added.eos_ids.size() + added.stop_ids.size();
}

}  // namespace

std::size_t DeviceSamplers::device_bytes(const Options& options) {
  const Sizes sizes(options);
  return sizes.inputs() + sizes.score_inputs() +
         sizes.rows * (sizes.list + sizes.mask + sizeof(std::int32_t)) + sizes.counts +
         sizes.rows * sizeof(SampleBegin) + sizes.begin_ids * sizeof(std::int32_t);
}

Result<std::unique_ptr<DeviceSamplers>> DeviceSamplers::make(gpu::GpuBackend& device, const Options& options,
                                                             gpu::DevicePtr logits) {
  std::unique_ptr<DeviceSamplers> samplers(new DeviceSamplers(device, options));
  MET_ASSIGN(samplers->plan_, ops::cuda::plan_sample(device, options.vocabulary));
  MET_TRY(samplers->allocate(logits));
  return samplers;
}

Result<> DeviceSamplers::allocate(gpu::DevicePtr logits) {
  const Sizes sizes(options_);
  params_.resize(sizes.rows);
  is_on_host_.resize(sizes.rows);
  host_row_.resize(static_cast<std::size_t>(options_.vocabulary));
  const auto reserve = [&](gpu::DevicePtr& to, std::size_t bytes) -> Result<> {
    MET_ASSIGN(gpu::DeviceMemory memory, gpu::DeviceMemory::allocate(device_, bytes, "samplers"));
    to = memory.data();
    memory_.push_back(std::move(memory));
    return {};
  };
  tensors_.logits = logits;
  MET_TRY(reserve(tensors_.inputs, sizes.inputs()));
  tensors_.params = tensors_.inputs + sizes.params_at();
  MET_TRY(reserve(tensors_.score_inputs, sizes.score_inputs()));
  MET_TRY(reserve(tensors_.end_ids, sizes.rows * kEndBytes));
  MET_TRY(reserve(tensors_.biases, sizes.rows * kBiasBytes));
  MET_TRY(reserve(tensors_.allowed, sizes.rows * sizes.mask));
  MET_TRY(reserve(tensors_.masks, sizes.rows * sizes.mask));
  MET_TRY(reserve(tensors_.counts, sizes.counts));
  MET_TRY(reserve(tensors_.fed, sizes.rows * sizeof(std::int32_t)));
  MET_TRY(reserve(tensors_.begins, sizes.rows * sizeof(SampleBegin)));
  MET_TRY(reserve(tensors_.begin_ids, sizes.begin_ids * sizeof(std::int32_t)));
  MET_TRY(device_.fill_async(tensors_.inputs, 0, sizes.inputs(), device_.default_stream()));
  MET_TRY(device_.fill_async(tensors_.fed, 0, sizes.rows * sizeof(std::int32_t), device_.default_stream()));
  MET_TRY(device_.synchronize(device_.default_stream()));

  slots_.resize(static_cast<std::size_t>(options_.slots));
  for (Slot& slot : slots_) {
    MET_ASSIGN(slot.inputs, device_.allocate_pinned(sizes.inputs()));
    MET_ASSIGN(slot.masks, device_.allocate_pinned(sizes.rows * sizes.mask));
    MET_ASSIGN(slot.lists, device_.allocate_pinned(sizes.rows * sizes.list));
    MET_ASSIGN(slot.begins, device_.allocate_pinned(sizes.rows * sizeof(SampleBegin)));
    MET_ASSIGN(slot.begin_ids, device_.allocate_pinned(sizes.begin_ids * sizeof(std::int32_t)));
    MET_ASSIGN(slot.score_inputs, device_.allocate_pinned(sizes.score_inputs()));
    slot.sampled.resize(sizes.rows);
  }
  const std::size_t entries = slots_.size() * (sizes.rows + sizes.scores);
  MET_ASSIGN(outcomes_, device_.allocate_pinned(slots_.size() * sizes.rows * sizeof(SampleOutcome)));
  MET_ASSIGN(logprobs_, device_.allocate_pinned(entries * sizeof(SampleLogprobs)));
  MET_ASSIGN(top_ids_, device_.allocate_pinned(entries * sizeof(SampleTopIds)));
  return {};
}

DeviceSamplers::~DeviceSamplers() {
  const auto release = [&](gpu::PinnedHost& memory) {
    if (memory.host != nullptr) device_.free_pinned(memory);
  };
  for (Slot& slot : slots_)
    for (gpu::PinnedHost* memory :
         {&slot.inputs, &slot.masks, &slot.lists, &slot.begins, &slot.begin_ids, &slot.score_inputs})
      release(*memory);
  for (gpu::PinnedHost* memory : {&outcomes_, &logprobs_, &top_ids_}) release(*memory);
}

// ---- rows that begin ----

Result<> DeviceSamplers::begin_rows(const scheduler::StepBatch& batch, Slot& slot, gpu::Stream stream) {
  for (const std::int32_t row : batch.removed) on_host_.remove(row);
  for (std::size_t i = 0; i < batch.added.size(); ++i) {
    const scheduler::RowAdded& added = batch.added[i];
    const auto row = static_cast<std::size_t>(added.device_row);
    params_[row] = sample_params(*added.sampling, added.prompt.size(), end_ids_of(added));
    is_on_host_[row] = !on_device(*added.sampling, end_ids_of(added));
    if (is_on_host_[row]) {
      params_[row].modes |= kSampleOnHost;
      on_host_.add(added);
    } else {
      MET_TRY(put_lists(added, i, slot, stream));
    }
  }
  return begin_counts(batch, slot, stream);
}

Result<> DeviceSamplers::put_lists(const scheduler::RowAdded& added, std::size_t index, Slot& slot,
                                   gpu::Stream stream) {
  const Sizes sizes(options_);
  const auto row = static_cast<std::size_t>(added.device_row);
  const SampleParams& params = params_[row];
  std::size_t at = index * sizes.list;
  if (params.end_ids > 0) {
    auto* ids = host_at<std::int32_t>(slot.lists, at);
    std::ranges::copy(added.stop_ids, std::ranges::copy(added.eos_ids, ids).out);
    MET_TRY(device_.copy_to_device_async(tensors_.end_ids + row * kEndBytes, ids,
                                         static_cast<std::size_t>(params.end_ids) * sizeof *ids, stream));
  }
  at += kEndBytes;
  if (params.biases > 0) {
    auto* biases = host_at<SampleBias>(slot.lists, at);
    std::ranges::transform(added.sampling->logit_bias, biases,
                           [](const auto& entry) { return SampleBias{entry.first, entry.second}; });
    MET_TRY(device_.copy_to_device_async(tensors_.biases + row * kBiasBytes, biases,
                                         static_cast<std::size_t>(params.biases) * sizeof *biases, stream));
  }
  at += kBiasBytes;
  if ((params.modes & kSampleAllowed) == 0) return {};
  auto* words = host_at<std::uint32_t>(slot.lists, at);
  set_allowed(added.sampling->allowed_token_ids, options_.vocabulary, {words, sizes.mask / sizeof *words});
  return device_.copy_to_device_async(tensors_.allowed + row * sizes.mask, words, sizes.mask, stream);
}

/// Token counts of the rows that need them. Where their ids do not fit in one copy, the ones before are waited for.
Result<> DeviceSamplers::begin_counts(const scheduler::StepBatch& batch, Slot& slot, gpu::Stream stream) {
  const Sizes sizes(options_);
  auto* begins = host_at<SampleBegin>(slot.begins, 0);
  auto* ids = host_at<std::int32_t>(slot.begin_ids, 0);
  std::size_t rows = 0;
  std::size_t used = 0;
  const auto launch = [&]() -> Result<> {
    MET_TRY(device_.copy_to_device_async(tensors_.begins, begins, rows * sizeof *begins, stream));
    MET_TRY(device_.copy_to_device_async(tensors_.begin_ids, ids, used * sizeof *ids, stream));
    return ops::cuda::sample_begin(
        plan_,
        {device_at<SampleBegin>(tensors_.begins), device_at<std::int32_t>(tensors_.begin_ids),
         device_at<std::uint32_t>(tensors_.counts), options_.vocabulary},
        static_cast<int>(rows), stream);
  };
  for (const scheduler::RowAdded& added : batch.added) {
    const SampleParams& params = params_[static_cast<std::size_t>(added.device_row)];
    if ((params.modes & kSampleCounts) == 0 || (params.modes & kSampleOnHost) != 0) continue;
    const std::size_t size = added.prompt.size() + added.output.size();
    MET_CHECK(size <= sizes.begin_ids, "a sequence is longer than the samplers were made for");
    if (used + size > sizes.begin_ids) {
      MET_TRY(launch());
      MET_TRY(device_.synchronize(stream));
      rows = used = 0;
    }
    begins[rows++] = {added.device_row, static_cast<std::int32_t>(used),
                      static_cast<std::int32_t>(added.prompt.size()),
                      static_cast<std::int32_t>(added.output.size())};
    std::ranges::copy(added.output, std::ranges::copy(added.prompt, ids + used).out);
    used += size;
  }
  return rows > 0 ? launch() : Result<>{};
}

// ---- a step ----

Result<> DeviceSamplers::mask(std::span<const std::span<const std::uint32_t>> masks, gpu::Stream stream) {
  const Sizes sizes(options_);
  Slot& slot = slots_[(prepared_ - 1) % slots_.size()];
  for (std::size_t i = 0; i < masks.size(); ++i) {
    auto* words = host_at<std::uint32_t>(slot.masks, i * sizes.mask);
    MET_CHECK(masks[i].empty() || masks[i].size_bytes() == sizes.mask,
              "a mask has another size than the vocabulary");
    if (masks[i].empty()) {
      std::fill_n(words, sizes.mask / sizeof *words, ~0U);
    } else {
      std::ranges::copy(masks[i], words);
    }
  }
  return device_.copy_to_device_async(tensors_.masks, slot.masks.host, masks.size() * sizes.mask, stream);
}

Result<> DeviceSamplers::prepare(const scheduler::StepBatch& batch, gpu::Stream stream, bool masked) {
  MET_CHECK(prepared_ - settled_ < slots_.size(),
            "more steps are in flight than the samplers have slots for");
  if (prepared_ > settled_) MET_TRY(sample_on_host(slots_[(prepared_ - 1) % slots_.size()], stream));
  const std::size_t index = prepared_ % slots_.size();
  Slot& slot = slots_[index];
  slot.batch = &batch;
  slot.host_samples.clear();
  MET_TRY(begin_rows(batch, slot, stream));

  const Sizes sizes(options_);
  *host_at<SampleStep>(slot.inputs, 0) = {static_cast<std::int32_t>(batch.samples.size()),
                                          static_cast<std::int32_t>(index * sizes.rows)};
  auto* rows = host_at<SampleRow>(slot.inputs, kStepBytes);
  for (std::size_t i = 0; i < batch.samples.size(); ++i) {
    const scheduler::SampleWork& work = batch.samples[i];
    const std::int32_t mask = masked ? static_cast<std::int32_t>(i) : -1;
    rows[i] = {work.device_row, work.logits, work.position, work.logprobs, mask, -1};
    if (is_on_host_[static_cast<std::size_t>(work.device_row)]) slot.host_samples.push_back(i);
  }
  std::size_t bytes = kStepBytes + batch.samples.size() * sizeof(SampleRow);
  if (!batch.added.empty()) {
    std::ranges::copy(params_, host_at<SampleParams>(slot.inputs, sizes.params_at()));
    bytes = sizes.inputs();
  }
  MET_TRY(device_.copy_to_device_async(tensors_.inputs, slot.inputs.host, bytes, stream));
  ++prepared_;
  return {};
}

SampleArgs DeviceSamplers::args() const {
  return {.logits = device_at<float>(tensors_.logits),
          .step = device_at<SampleStep>(tensors_.inputs),
          .rows = device_at<SampleRow>(tensors_.inputs + kStepBytes),
          .params = device_at<SampleParams>(tensors_.params),
          .end_ids = device_at<std::int32_t>(tensors_.end_ids),
          .biases = device_at<SampleBias>(tensors_.biases),
          .allowed = device_at<std::uint32_t>(tensors_.allowed),
          .masks = device_at<std::uint32_t>(tensors_.masks),
          .counts = device_at<std::uint32_t>(tensors_.counts),
          .fed = device_at<std::int32_t>(tensors_.fed),
          .outcomes = device_at<SampleOutcome>(outcomes_.device),
          .logprobs = device_at<SampleLogprobs>(logprobs_.device),
          .top_ids = device_at<SampleTopIds>(top_ids_.device),
          .vocabulary = options_.vocabulary,
          .scale = options_.logit_scale,
          .softcap = options_.logit_softcap};
}

Result<> DeviceSamplers::sample(int rows, gpu::Stream stream) {
  return ops::cuda::sample(plan_, args(), rows, stream);
}

Result<> DeviceSamplers::score(const scheduler::StepBatch& batch, gpu::Stream stream) {
  const std::size_t count = batch.prompt_logprobs.size();
  if (count == 0) return {};
  const Sizes sizes(options_);
  const std::size_t index = (prepared_ - 1) % slots_.size();
  const Slot& slot = slots_[index];
  *host_at<SampleStep>(slot.score_inputs, 0) = {
      static_cast<std::int32_t>(count),
      static_cast<std::int32_t>(slots_.size() * sizes.rows + index * sizes.scores)};
  auto* rows = host_at<SampleRow>(slot.score_inputs, kStepBytes);
  for (std::size_t i = 0; i < count; ++i) {
    const scheduler::PromptLogprobWork& work = batch.prompt_logprobs[i];
    rows[i] = {0, work.logits, 0, work.top, -1, work.id};
  }
  MET_TRY(device_.copy_to_device_async(tensors_.score_inputs, slot.score_inputs.host,
                                       kStepBytes + count * sizeof(SampleRow), stream));
  SampleArgs scoring = args();
  scoring.step = device_at<SampleStep>(tensors_.score_inputs);
  scoring.rows = device_at<SampleRow>(tensors_.score_inputs + kStepBytes);
  return ops::cuda::sample(plan_, scoring, static_cast<int>(count), stream);
}

// ---- results ----

/// Samples the rows of a step that the device does not, when their logits are there.
Result<> DeviceSamplers::sample_on_host(Slot& slot, gpu::Stream stream) {
  if (slot.host_samples.empty()) return {};
  MET_TRY(device_.synchronize(stream));
  const Sizes sizes(options_);
  const auto* rows = host_at<SampleRow>(slot.inputs, kStepBytes);
  for (const std::size_t i : slot.host_samples) {
    const scheduler::SampleWork& work = slot.batch->samples[i];
    MET_TRY(device_.copy_to_host(
        host_row_.data(),
        tensors_.logits + static_cast<std::size_t>(work.logits) * host_row_.size() * sizeof(float),
        host_row_.size() * sizeof(float)));
    std::span<const std::uint32_t> mask;
    if (rows[i].mask >= 0)
      mask = {host_at<std::uint32_t>(slot.masks, static_cast<std::size_t>(rows[i].mask) * sizes.mask),
              sizes.mask / sizeof(std::uint32_t)};
    slot.sampled[i] = on_host_.sample(work, host_row_, mask);
    MET_TRY(device_.copy_to_device(
        tensors_.fed + static_cast<std::size_t>(work.device_row) * sizeof(std::int32_t), &slot.sampled[i].id,
        sizeof(std::int32_t)));
  }
  slot.host_samples.clear();
  return {};
}

scheduler::PositionLogprobs DeviceSamplers::logprobs_at(std::size_t entry) const {
  const auto& values = host_at<SampleLogprobs>(logprobs_, 0)[entry];
  const auto& ids = host_at<SampleTopIds>(top_ids_, 0)[entry];
  scheduler::PositionLogprobs out{.chosen = values.chosen, .top = {}, .rank = ids.rank};
  for (std::int32_t i = 0; i < ids.count; ++i) out.top.push_back({ids.ids[i], values.top[i]});
  return out;
}

Result<> DeviceSamplers::settle(const scheduler::StepBatch& batch, scheduler::StepResults& results) {
  const Sizes sizes(options_);
  const std::size_t index = settled_ % slots_.size();
  Slot& slot = slots_[index];
  MET_CHECK(settled_ < prepared_ && slot.batch == &batch,
            "steps settle in the order in which they were prepared");
  MET_TRY(sample_on_host(slot, device_.default_stream()));
  for (std::size_t i = 0; i < batch.samples.size(); ++i) {
    const scheduler::SampleWork& work = batch.samples[i];
    if (is_on_host_[static_cast<std::size_t>(work.device_row)]) {
      results.samples[i] = std::move(slot.sampled[i]);
      continue;
    }
    const SampleOutcome& outcome = host_at<SampleOutcome>(outcomes_, 0)[index * sizes.rows + i];
    results.samples[i] = {.id = outcome.id, .flags = outcome.flags, .logprobs = {}};
    if (outcome.flags == 0 && work.logprobs >= 0)
      results.samples[i].logprobs = logprobs_at(index * sizes.rows + i);
  }
  for (std::size_t i = 0; i < batch.prompt_logprobs.size(); ++i)
    results.prompt_logprobs[i] = logprobs_at(slots_.size() * sizes.rows + index * sizes.scores + i);
  slot.batch = nullptr;
  ++settled_;
  return {};
}

}  // namespace met::engine
