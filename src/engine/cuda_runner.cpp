#include "engine/cuda_runner.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "ops/attention/attention.h"

namespace met::engine {

namespace {

constexpr int kSlots = 2;  // steps in flight

using layers::cuda::StepCapacity;
using layers::cuda::StepLayout;

template <class T>
void put(std::byte* to, const std::vector<T>& values) {
  if (!values.empty()) std::memcpy(to, values.data(), values.size() * sizeof(T));
}

template <class T>
T* array_at(std::byte* base, std::size_t offset) {
  return reinterpret_cast<T*>(base + offset);
}

// Every row has one token and wants its logits: what a captured step does.
bool is_decode(const scheduler::StepBatch& batch) {
  return batch.decode_rows == std::ssize(batch.rows) && batch.logits.size() == batch.rows.size();
}

// Where each token's key and value go, and the row that feeds it.
void put_tokens(const scheduler::StepBatch& batch, const StepLayout& at, std::byte* base) {
  auto* slots = array_at<std::int32_t>(base, at.slots);
  auto* device_rows = array_at<std::int32_t>(base, at.device_rows);
  for (std::size_t r = 0; r < batch.rows.size(); ++r) {
    const StepRow& row = batch.rows[r];
    for (std::int32_t i = 0; i < row.tokens; ++i) {
      const std::int32_t position = row.position + i;
      const std::int32_t block =
          batch.block_table[static_cast<std::size_t>(row.table_begin + position / ops::kKvBlockTokens)];
      slots[row.token_begin + i] = block * ops::kKvBlockTokens + position % ops::kKvBlockTokens;
      device_rows[row.token_begin + i] = batch.device_rows[r];
    }
  }
}

DeviceSamplers::Options sampler_options(const config::ModelConfig& config, const RunnerOptions& options) {
  return {.rows = static_cast<int>(options.limits.rows),
          .scores = static_cast<int>(options.limits.logits - options.limits.rows),
          .vocabulary = config.vocabulary,
          .positions = options.positions,
          .logit_scale = static_cast<float>(config.logit_scale),
          .logit_softcap = static_cast<float>(config.logit_softcap),
          .slots = kSlots};
}

}  // namespace

layers::cuda::Decoder::Limits CudaRunner::decoder_limits(const RunnerOptions& options) {
  std::vector<int> buckets;
  const auto rows = static_cast<int>(options.limits.rows);
  for (int bucket = 1;; bucket = scheduler::bucket_of(bucket + 1, rows)) {
    buckets.push_back(bucket);
    if (bucket >= rows) break;
  }
  return {.step = {options.limits.tokens, options.limits.rows, options.limits.logits},
          .buckets = std::move(buckets),
          .table = options.limits.table,
          .blocks = options.blocks,
          .positions = options.positions,
          .cache = options.cache.type,
          .weights = options.weights,
          .batch_invariant = options.batch_invariant,
          .log_routes = options.log_routes};
}

std::size_t CudaRunner::arena_bytes(gpu::GpuBackend& device, const config::ModelConfig& config,
                                    const RunnerOptions& options) {
  return layers::cuda::Decoder::buffer_bytes(device, config, decoder_limits(options)) +
         DeviceSamplers::device_bytes(sampler_options(config, options));
}

Result<std::unique_ptr<ModelRunner>> CudaRunner::make(gpu::GpuBackend& device,
                                                      std::unique_ptr<layers::cuda::Decoder> decoder,
                                                      const RunnerOptions& options) {
  std::unique_ptr<CudaRunner> runner(new CudaRunner(device, std::move(decoder), options));
  MET_TRY(runner->allocate());
  return runner;
}

Result<> CudaRunner::allocate() {
  MET_TRY(decoder_->allocate());
  for (Slot& slot : slots_) {
    MET_ASSIGN(slot.inputs, device_.allocate_pinned(decoder_->input_bytes()));
    MET_ASSIGN(slot.done, device_.create_event(/*timing=*/false));
  }
  MET_ASSIGN(samplers_,
             DeviceSamplers::make(device_, sampler_options(config(), options_), decoder_->tensors().logits));
  masks_.emplace(static_cast<int>(options_.limits.rows), config().vocabulary);
  decoder_->feed_from(samplers_->fed());
  host_logits_.resize(static_cast<std::size_t>(options_.limits.logits) *
                      static_cast<std::size_t>(config().vocabulary));
  if (options_.swap_blocks > 0) {
    std::vector<SwapPool::Part> parts;
    for (const layers::cuda::KvPair& cache : decoder_->caches()) {
      parts.push_back({cache.k, decoder_->cache_block_bytes()});
      parts.push_back({cache.v, decoder_->cache_block_bytes()});
    }
    MET_ASSIGN(swap_, SwapPool::make(device_, std::move(parts), options_.swap_blocks));
  }
  if (!options_.graphs) return {};
  MET_TRY(graph_for({.bucket = 1}));  // ready means that one request can decode (G5)
  if (decoder_->has_brief(1)) MET_TRY(graph_for({.bucket = 1, .brief = true}));
  return {};
}

CudaRunner::~CudaRunner() {
  (void)device_.synchronize(stream_);
  for (const auto& [key, graph] : graphs_) device_.destroy(graph);
  for (Slot& slot : slots_) {
    if (slot.inputs.host != nullptr) device_.free_pinned(slot.inputs);
    if (slot.done.id != 0) device_.destroy(slot.done);
  }
}

std::size_t CudaRunner::allocated_bytes() const { return decoder_->allocated_bytes(); }

Result<> CudaRunner::copy_blocks(const scheduler::StepBatch& batch) {
  if (swap_) MET_TRY(swap_->copy_out(batch.swap_out, stream_));
  const std::size_t bytes = decoder_->cache_block_bytes();
  for (const scheduler::BlockCopy& copy : batch.copies) {
    const std::size_t from = bytes * static_cast<std::size_t>(copy.from);
    const std::size_t to = bytes * static_cast<std::size_t>(copy.to);
    for (const layers::cuda::KvPair& cache : decoder_->caches()) {
      MET_TRY(device_.copy_async(cache.k + to, cache.k + from, bytes, stream_));
      MET_TRY(device_.copy_async(cache.v + to, cache.v + from, bytes, stream_));
    }
  }
  if (swap_) MET_TRY(swap_->copy_in(batch.swap_in, stream_));
  return {};
}

// Attention of decode rows adds in another order than that of prefill, and with --batch-invariant a token's bits are the
// same whether it came alone or with others of its sequence, as it does when it is computed again (D5).
std::int32_t CudaRunner::decode_rows(const scheduler::StepBatch& batch) const {
  return options_.batch_invariant ? 0 : batch.decode_rows;
}

Result<> CudaRunner::upload(const scheduler::StepBatch& batch, const StepCapacity& capacity, Slot& slot) {
  const StepLayout at(capacity);
  auto* base = static_cast<std::byte*>(slot.inputs.host);
  const auto logits = static_cast<std::int32_t>(batch.logits.size());
  const StepCounts counts{.tokens = static_cast<std::int32_t>(batch.tokens.size()),
                          .rows = static_cast<std::int32_t>(batch.rows.size()),
                          .logits = logits,
                          .decode_rows = decode_rows(batch)};
  std::memcpy(base + at.counts, &counts, sizeof counts);
  for (int run = 0; run < layers::cuda::kHeadRuns; ++run) {
    StepCounts head = counts;
    const auto begin = static_cast<std::int32_t>(run * layers::cuda::kHeadRows);
    head.logits = std::clamp(logits - begin, 0, static_cast<std::int32_t>(layers::cuda::kHeadRows));
    std::memcpy(base + at.head_counts + static_cast<std::size_t>(run) * sizeof head, &head, sizeof head);
  }
  put(base + at.rows, batch.rows);
  put(base + at.ids, batch.tokens);
  put(base + at.positions, batch.positions);
  put(base + at.logit_rows, batch.logits);
  put(base + at.block_table, batch.block_table);
  put_tokens(batch, at, base);
  return device_.copy_to_device_async(
      decoder_->inputs(), base, at.block_table + batch.block_table.size() * sizeof(std::int32_t), stream_);
}

Result<> CudaRunner::decode(const DecodeForm& form) {
  MET_TRY(decoder_->decode(form.bucket, form.brief, stream_));
  return form.masked ? Result<>{} : samplers_->sample(form.bucket, stream_);
}

/// The masks are made here, while the device computes the logits that they are for.
Result<> CudaRunner::sample_masked(const scheduler::StepBatch& batch, int rows) {
  MET_TRY(samplers_->mask(masks_->fill(batch), stream_));
  return samplers_->sample(rows, stream_);
}

CudaRunner::DecodeForm CudaRunner::form_of(const scheduler::StepBatch& batch, bool masked) const {
  const int bucket = scheduler::bucket_of(batch.decode_rows, static_cast<int>(options_.limits.rows));
  const bool brief = std::ranges::all_of(
      batch.rows, [](const StepRow& row) { return row.position < ops::cuda::kBriefPositions; });
  return {.bucket = bucket, .brief = brief && decoder_->has_brief(bucket), .masked = masked};
}

Result<gpu::Graph> CudaRunner::capture(const DecodeForm& form) {
  MET_TRY(device_.begin_capture(stream_));
  if (auto recorded = decode(form); !recorded) {
    device_.abort_capture(stream_);
    return std::unexpected(std::move(recorded).error());
  }
  return device_.end_capture(stream_);
}

Result<gpu::Graph> CudaRunner::graph_for(const DecodeForm& form) {
  auto known = graphs_.find(form);
  if (known == graphs_.end()) {
    MET_ASSIGN(const gpu::Graph captured, capture(form));
    known = graphs_.emplace(form, captured).first;
  }
  return known->second;
}

Result<> CudaRunner::run_decode(const DecodeForm& form) {
  if (!options_.graphs) return decode(form);
  MET_ASSIGN(const gpu::Graph graph, graph_for(form));
  return device_.launch(graph, stream_);
}

Result<> CudaRunner::run_mixed(const scheduler::StepBatch& batch, const StepCapacity& capacity, bool masked) {
  MET_TRY(decoder_->mixed({.capacity = capacity,
                           .decode_rows = decode_rows(batch) > 0,
                           .prefill_rows = decode_rows(batch) < std::ssize(batch.rows)},
                          stream_));
  const auto samples = static_cast<int>(batch.samples.size());
  if (samples > 0) MET_TRY(masked ? sample_masked(batch, samples) : samplers_->sample(samples, stream_));
  return samplers_->score(batch, stream_);
}

Result<> CudaRunner::enqueue(const scheduler::StepPlan& plan, const scheduler::StepBatch& batch) {
  check_wave(plan, options_.prefill);
  if (batch.rows.empty()) return copy_blocks(batch);
  Slot& slot = slots_[enqueued_++ % kSlots];
  masks_->update(batch);
  const bool masked = masks_->any(batch);
  MET_TRY(samplers_->prepare(batch, stream_, masked));
  MET_TRY(copy_blocks(batch));
  if (is_decode(batch)) {
    const DecodeForm form = form_of(batch, masked);
    MET_TRY(upload(batch, {form.bucket, form.bucket, form.bucket}, slot));
    MET_TRY(run_decode(form));
    if (masked) MET_TRY(sample_masked(batch, form.bucket));
  } else {
    const StepCapacity capacity{std::ssize(batch.tokens), std::ssize(batch.rows), std::ssize(batch.logits)};
    MET_TRY(upload(batch, capacity, slot));
    MET_TRY(run_mixed(batch, capacity, masked));
  }
  return device_.record(slot.done, stream_);
}

Result<> CudaRunner::settle(const scheduler::StepBatch& batch, scheduler::StepResults& results) {
  if (batch.rows.empty()) return {};
  results.replayed = options_.graphs && is_decode(batch);
  MET_TRY(device_.synchronize(slots_[settled_++ % kSlots].done));
  MET_TRY(samplers_->settle(batch, results));
  for (std::size_t i = 0; i < batch.samples.size(); ++i) masks_->accept(batch.samples[i], results.samples[i]);
  return {};
}

std::span<float> CudaRunner::logits_row(std::int32_t row) {
  const auto vocabulary = static_cast<std::size_t>(config().vocabulary);
  const std::span<float> out(host_logits_.data() + static_cast<std::size_t>(row) * vocabulary, vocabulary);
  const gpu::DevicePtr from =
      decoder_->tensors().logits + static_cast<std::size_t>(row) * vocabulary * sizeof(float);
  const Result<> copied = device_.copy_to_host(out.data(), from, vocabulary * sizeof(float));
  MET_CHECK(copied.has_value(), "logits could not be read from the device");
  const auto scale = static_cast<float>(config().logit_scale);
  const auto cap = static_cast<float>(config().logit_softcap);
  if (scale == 1.0F && cap == 0.0F) return out;
  for (float& v : out) {
    v *= scale;
    if (cap != 0.0F) v = cap * std::tanh(v / cap);
  }
  return out;
}

}  // namespace met::engine
