#include "engine/host_runner.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace met::engine {

namespace {

std::size_t cache_block_bytes(int kv_heads, int head_dim, DType cache) {
  return ops::kv_bytes(cache, 1, kv_heads, head_dim);
}

// One step buffer: which member it is and how many bytes it takes.
struct BufferSize {
  gpu::DevicePtr layers::StepBuffers::* member;
  std::size_t bytes;
};

// Buffers of mixtures of experts: one room, whose parts begin at multiples of 64 bytes.
struct ExpertRoom {
  std::size_t router, begin, tokens, places, weights, ffn, out, bytes;

  ExpertRoom(const config::ModelConfig& c, std::size_t tokens_max) {
    bytes = 0;
    if (c.experts == 0) return;
    const auto take = [&](std::size_t count) {
      const std::size_t at = bytes;
      bytes += (count * sizeof(float) + 63) / 64 * 64;
      return at;
    };
    const auto experts = static_cast<std::size_t>(c.experts);
    const std::size_t pairs = tokens_max * static_cast<std::size_t>(c.experts_per_token);
    router = take(tokens_max * experts);
    begin = take(experts + 1);
    tokens = take(pairs);
    places = take(pairs);
    weights = take(pairs);
    ffn = take(pairs * static_cast<std::size_t>(c.expert_ffn));
    out = take(pairs * static_cast<std::size_t>(c.hidden));
  }

  void place(gpu::DevicePtr base, layers::StepBuffers& b) const {
    b.router = base + router;
    b.pairs = {base + begin, base + tokens, base + places, base + weights};
    b.expert_ffn = base + ffn;
    b.expert_out = base + out;
  }
};

std::vector<BufferSize> buffer_sizes(const gpu::DeviceInfo& device, const config::ModelConfig& c,
                                     const RunnerOptions& options, std::size_t linear_row_bytes) {
  using B = layers::StepBuffers;
  const std::size_t attention =
      ops::attention_workspace_bytes(static_cast<int>(options.limits.rows), device.multiprocessors, c.heads,
                                     c.kv_heads, c.head_dim, static_cast<std::size_t>(options.positions));
  const auto tokens = static_cast<std::size_t>(options.limits.tokens);
  const auto floats = [&](std::int64_t width) {
    return tokens * static_cast<std::size_t>(width) * sizeof(float);
  };
  const std::int64_t q = std::int64_t{c.heads} * c.head_dim;
  const std::int64_t kv = std::int64_t{c.kv_heads} * c.head_dim;
  const bool dense = !std::ranges::all_of(c.layer, &config::LayerConfig::sparse);
  const std::int64_t dense_width = dense ? c.ffn : 0;
  return {{&B::ids, tokens * sizeof(std::int32_t)},
          {&B::rows, static_cast<std::size_t>(options.limits.rows) * sizeof(StepRow)},
          {&B::block_table, static_cast<std::size_t>(options.limits.table) * sizeof(std::int32_t)},
          {&B::logit_rows, static_cast<std::size_t>(options.limits.logits) * sizeof(std::int32_t)},
          {&B::counts, sizeof(StepCounts)},
          {&B::hidden, floats(c.hidden)},
          {&B::qkv, floats(q + 2 * kv)},
          {&B::attention, floats(q)},
          {&B::gate_up, floats(2 * dense_width)},
          {&B::ffn, floats(dense_width)},
          {&B::branch, floats(c.hidden)},
          {&B::logits, static_cast<std::size_t>(options.limits.logits) *
                           static_cast<std::size_t>(c.vocabulary) * sizeof(float)},
          {&B::workspace, std::max({linear_row_bytes * tokens, attention, std::size_t{64}})}};
}

}  // namespace

std::size_t kv_block_bytes(const config::ModelConfig& config, const ops::KvFormat& cache) {
  std::size_t bytes = 0;
  for (int layer = 0; layer < config.layers; ++layer)
    bytes += 2 * cache_block_bytes(config.kv_heads, config.head_dim, cache.of(layer, config.layers));
  return bytes;
}

std::size_t HostRunner::arena_bytes(const gpu::DeviceInfo& device, const config::ModelConfig& config,
                                    const RunnerOptions& options, std::size_t linear_row_bytes) {
  std::size_t bytes = 0;
  for (const BufferSize& b : buffer_sizes(device, config, options, linear_row_bytes)) bytes += b.bytes;
  return bytes + ExpertRoom(config, static_cast<std::size_t>(options.limits.tokens)).bytes;
}

Result<std::unique_ptr<ModelRunner>> HostRunner::make(gpu::GpuBackend& device,
                                                      std::unique_ptr<arch::Model> model,
                                                      const RunnerOptions& options,
                                                      std::size_t linear_row_bytes) {
  std::unique_ptr<HostRunner> runner(new HostRunner(device, std::move(model), options, linear_row_bytes));
  MET_TRY(runner->allocate_buffers());
  MET_TRY(runner->allocate_cache());
  if (options.graphs) MET_TRY(runner->capture());
  runner->samplers_.emplace(static_cast<int>(options.limits.rows), runner->config().vocabulary);
  runner->masks_.emplace(static_cast<int>(options.limits.rows), runner->config().vocabulary);
  return runner;
}

std::size_t HostRunner::allocated_bytes() const {
  std::size_t bytes = 0;
  for (const gpu::DeviceMemory& memory : memory_) bytes += memory.bytes();
  return bytes;
}

HostRunner::~HostRunner() {
  if (graph_) device_.destroy(*graph_);
}

Result<> HostRunner::allocate_buffers() {
  for (const BufferSize& b : buffer_sizes(device_.info(), config(), options_, linear_row_bytes_)) {
    if (b.bytes == 0) continue;
    MET_ASSIGN(gpu::DeviceMemory memory, gpu::DeviceMemory::allocate(device_, b.bytes, "step buffers"));
    buffers_.*b.member = memory.data();
    memory_.push_back(std::move(memory));
  }
  const ExpertRoom experts(config(), static_cast<std::size_t>(options_.limits.tokens));
  if (experts.bytes > 0) {
    MET_ASSIGN(gpu::DeviceMemory memory, gpu::DeviceMemory::allocate(device_, experts.bytes, "step buffers"));
    experts.place(memory.data(), buffers_);
    memory_.push_back(std::move(memory));
  }
  if (!device_.info().unified_memory)
    host_logits_.resize(static_cast<std::size_t>(options_.limits.logits) *
                        static_cast<std::size_t>(config().vocabulary));
  return {};
}

Result<> HostRunner::allocate_cache() {
  for (std::size_t i = 0; i < model_->attention_layers(); ++i) {
    const layers::AttentionSpec& spec = model_->attention_spec(i);
    const std::size_t block = cache_block_bytes(spec.kv_heads, spec.head_dim, spec.cache);
    layers::KvLayer layer;
    for (gpu::DevicePtr* part : {&layer.k, &layer.v}) {
      MET_ASSIGN(gpu::DeviceMemory memory,
                 gpu::DeviceMemory::allocate_sparse(
                     device_, block * static_cast<std::size_t>(options_.blocks), "kv pool"));
      *part = memory.data();
      memory_.push_back(std::move(memory));
    }
    model_->bind(i, layer);
    cache_.push_back(layer);
    cache_block_bytes_.push_back(block);
  }
  if (options_.swap_blocks == 0) return {};
  std::vector<SwapPool::Part> parts;
  for (std::size_t i = 0; i < cache_.size(); ++i) {
    parts.push_back({cache_[i].k, cache_block_bytes_[i]});
    parts.push_back({cache_[i].v, cache_block_bytes_[i]});
  }
  MET_ASSIGN(swap_, SwapPool::make(device_, std::move(parts), options_.swap_blocks));
  return {};
}

Result<> HostRunner::capture() {
  MET_TRY(device_.begin_capture(stream_));
  if (auto recorded = model_->forward(buffers_, stream_); !recorded) {
    device_.abort_capture(stream_);
    return recorded;
  }
  MET_ASSIGN(graph_, device_.end_capture(stream_));
  return {};
}

Result<> HostRunner::copy_blocks(const scheduler::StepBatch& batch) {
  for (const scheduler::BlockCopy& copy : batch.copies) {
    for (std::size_t i = 0; i < cache_.size(); ++i) {
      const std::size_t bytes = cache_block_bytes_[i];
      const std::size_t from = bytes * static_cast<std::size_t>(copy.from);
      const std::size_t to = bytes * static_cast<std::size_t>(copy.to);
      MET_TRY(device_.copy_async(cache_[i].k + to, cache_[i].k + from, bytes, stream_));
      MET_TRY(device_.copy_async(cache_[i].v + to, cache_[i].v + from, bytes, stream_));
    }
  }
  return {};
}

/// Around the copies inside the pool; timed, as everything on this device is done when it is enqueued.
Result<> HostRunner::copy_swapped(const scheduler::StepBatch& batch) {
  swap_us_ = 0;
  if (!swap_) return copy_blocks(batch);
  const auto began = std::chrono::steady_clock::now();
  MET_TRY(swap_->copy_out(batch.swap_out, stream_));
  MET_TRY(copy_blocks(batch));
  MET_TRY(swap_->copy_in(batch.swap_in, stream_));
  if (!batch.swap_out.empty() || !batch.swap_in.empty())
    swap_us_ =
        1 + std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now() - began)
                .count();
  return {};
}

Result<> HostRunner::upload(const scheduler::StepBatch& batch) {
  const auto put = [&](gpu::DevicePtr to, const auto& values) -> Result<> {
    const std::size_t bytes = values.size() * sizeof(values[0]);
    return bytes == 0 ? Result<>{} : device_.copy_to_device_async(to, values.data(), bytes, stream_);
  };
  const StepCounts counts{.tokens = static_cast<std::int32_t>(batch.tokens.size()),
                          .rows = static_cast<std::int32_t>(batch.rows.size()),
                          .logits = static_cast<std::int32_t>(batch.logits.size()),
                          .decode_rows = batch.decode_rows};
  MET_TRY(put(buffers_.ids, batch.tokens));
  MET_TRY(put(buffers_.rows, batch.rows));
  MET_TRY(put(buffers_.block_table, batch.block_table));
  MET_TRY(put(buffers_.logit_rows, batch.logits));
  return device_.copy_to_device(buffers_.counts, &counts, sizeof counts);
}

Result<> HostRunner::enqueue(const scheduler::StepPlan& plan, const scheduler::StepBatch& batch) {
  check_wave(plan, options_.prefill);
  samplers_->update(batch);
  masks_->update(batch);
  MET_TRY(copy_swapped(batch));
  if (batch.rows.empty()) return {};
  MET_TRY(upload(batch));
  MET_TRY(graph_ ? device_.launch(*graph_, stream_) : model_->forward(buffers_, stream_));
  step_masks_ = masks_->fill(batch);
  return {};
}

std::span<float> HostRunner::logits_row(std::int32_t row) {
  const auto vocabulary = static_cast<std::size_t>(config().vocabulary);
  float* base = host_logits_.empty() ? reinterpret_cast<float*>(buffers_.logits.value) : host_logits_.data();
  return {base + static_cast<std::size_t>(row) * vocabulary, vocabulary};
}

void HostRunner::finish_logits(std::size_t rows) {
  const auto scale = static_cast<float>(config().logit_scale);
  const auto cap = static_cast<float>(config().logit_softcap);
  if (scale == 1.0F && cap == 0.0F) return;
  for (std::size_t row = 0; row < rows; ++row) {
    for (float& v : logits_row(static_cast<std::int32_t>(row))) {
      v *= scale;
      if (cap != 0.0F) v = cap * std::tanh(v / cap);
    }
  }
}

Result<> HostRunner::settle(const scheduler::StepBatch& batch, scheduler::StepResults& results) {
  MET_TRY(device_.synchronize(stream_));
  results.swap_us = swap_us_;
  results.replayed = graph_.has_value();
  if (!host_logits_.empty() && !batch.logits.empty())
    MET_TRY(device_.copy_to_host(
        host_logits_.data(), buffers_.logits,
        batch.logits.size() * static_cast<std::size_t>(config().vocabulary) * sizeof(float)));
  finish_logits(batch.logits.size());

  for (std::size_t i = 0; i < batch.prompt_logprobs.size(); ++i) {
    const scheduler::PromptLogprobWork& work = batch.prompt_logprobs[i];
    results.prompt_logprobs[i] = samplers_->log_probabilities(logits_row(work.logits), work.id, work.top);
  }
  for (std::size_t i = 0; i < batch.samples.size(); ++i) {
    const scheduler::SampleWork& work = batch.samples[i];
    results.samples[i] = samplers_->sample(work, logits_row(work.logits), step_masks_[i]);
    masks_->accept(work, results.samples[i]);
  }
  return {};
}

}  // namespace met::engine
