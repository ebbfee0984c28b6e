#include "bench/benchmark.h"

#include <algorithm>
#include <chrono>

#include "engine/direct_session.h"
#include "gpu/timing.h"

namespace met::bench {

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Ids that touch the whole embedding table and never repeat soon.
std::vector<std::int32_t> prompt_ids(int count, int vocabulary, int salt) {
  std::vector<std::int32_t> ids;
  std::uint32_t state = 12345U + static_cast<std::uint32_t>(salt);
  for (int i = 0; i < count; ++i) {
    state = state * 1664525U + 1013904223U;
    ids.push_back(static_cast<std::int32_t>((state >> 8U) % static_cast<std::uint32_t>(vocabulary)));
  }
  return ids;
}

class Bench {
 public:
  Bench(engine::LoadedModel& model, const BenchmarkOptions& options)
      : model_(model), options_(options), session_(model) {}

  Result<BenchmarkRow> prefill(int tokens) {
    const std::vector<std::int32_t> ids = prompt_ids(tokens, vocabulary(), 0);
    std::vector<double> rates;
    for (int i = 0; i <= options_.repeats; ++i) {  // the first one warms up
      session_.reset();
      const double begin = seconds_now();
      MET_TRY(feed(0, ids));
      if (i > 0) rates.push_back(tokens / (seconds_now() - begin));
    }
    BenchmarkRow row{.test = "prefill", .tokens = tokens};
    row.bytes_per_step = model_.step_weight_bytes(tokens);
    return finish(std::move(row), rates, /*steps_a_token=*/1.0 / tokens);
  }

  Result<BenchmarkRow> decode(int batch, int depth) {
    MET_TRY(begin_decode(batch, depth));
    std::vector<double> rates;
    for (int i = 0; i <= options_.repeats; ++i) {
      const double begin = seconds_now();
      MET_TRY(decode_steps(batch, i));
      if (i > 0) rates.push_back(batch * options_.decode_tokens / (seconds_now() - begin));
    }
    const double positions = depth + options_.decode_tokens * (options_.repeats + 1) / 2.0;
    BenchmarkRow row{.test = "decode", .tokens = depth, .batch = batch};
    row.bytes_per_step = model_.step_weight_bytes(batch) + batch * positions * kv_bytes_per_token();
    return finish(std::move(row), rates, 1.0 / batch);
  }

  Result<std::vector<KernelRow>> kernels(int batch, int depth) {
    gpu::GpuBackend& device = *model_.device;
    gpu::TimingSpans spans(device);
    spans.enable(true);
    MET_TRY(begin_decode(batch, depth));
    MET_TRY(decode_steps(batch, 0));  // warms up
    device.time_launches(&spans);
    const Result<> run = decode_steps(batch, 1);
    device.time_launches(nullptr);
    MET_TRY(run);
    MET_TRY(spans.collect(device.default_stream()));
    double total_ms = 0;
    for (const auto& span : spans.rows()) total_ms += span.total_ms;
    std::vector<KernelRow> rows;
    const double steps = options_.decode_tokens;
    const double cache_bytes = batch * (depth + 1.5 * steps) * kv_bytes_per_token();
    for (const auto& span : spans.rows()) {
      const auto launches = static_cast<double>(span.count);
      KernelRow& row = rows.emplace_back(KernelRow{.name = span.name, .batch = batch});
      row.launches_per_step = launches / steps;
      row.microseconds = 1e3 * span.total_ms / launches;
      row.share_of_step = span.total_ms / total_ms;
      const bool reads_cache = span.name.ends_with("attention");
      row.bytes_per_launch =
          reads_cache ? cache_bytes / row.launches_per_step : static_cast<double>(span.bytes) / launches;
    }
    return rows;
  }

 private:
  Result<> begin_decode(int batch, int depth) {
    session_.reset();
    next_.clear();
    for (int s = 0; s < batch; ++s) {
      MET_TRY(feed(s, prompt_ids(depth, vocabulary(), s)));
      next_.push_back(prompt_ids(options_.decode_tokens * (options_.repeats + 1), vocabulary(), s + 1000));
    }
    return {};
  }
  // The steps of repeat `repeat`.
  Result<> decode_steps(int batch, int repeat) {
    std::vector<engine::DirectSession::Row> rows(static_cast<std::size_t>(batch));
    for (int step = 0; step < options_.decode_tokens; ++step) {
      const auto at = static_cast<std::size_t>(repeat * options_.decode_tokens + step);
      for (std::size_t s = 0; s < rows.size(); ++s)
        rows[s] = {static_cast<int>(s), std::span(&next_[s][at], 1)};
      MET_TRY(session_.step(rows));
    }
    return {};
  }
  int vocabulary() const { return model_.config.vocabulary; }
  double kv_bytes_per_token() const {
    return static_cast<double>(engine::kv_block_bytes(model_.config, model_.cache)) /
           model_.plan.block_tokens;
  }
  // A prompt in the chunks that the engine would use.
  Result<> feed(int sequence, std::span<const std::int32_t> ids) {
    const auto chunk = static_cast<std::size_t>(model_.plan.prefill_tokens_max());
    for (std::size_t at = 0; at < ids.size(); at += chunk) {
      const engine::DirectSession::Row row{sequence, ids.subspan(at, std::min(chunk, ids.size() - at))};
      MET_TRY(session_.step(std::span(&row, 1)));
    }
    return {};
  }
  BenchmarkRow finish(BenchmarkRow row, std::vector<double> rates, double steps_a_token) const {
    std::ranges::sort(rates);
    row.tokens_per_second = rates[rates.size() / 2];
    row.tokens_per_second_min = rates.front();
    row.tokens_per_second_max = rates.back();
    row.bandwidth = row.bytes_per_step * row.tokens_per_second * steps_a_token;
    return row;
  }

  engine::LoadedModel& model_;
  const BenchmarkOptions& options_;
  engine::DirectSession session_;
  std::vector<std::vector<std::int32_t>> next_;  // ids that each sequence decodes
};

}  // namespace

Result<std::vector<BenchmarkRow>> run_benchmark(engine::LoadedModel& model, const BenchmarkOptions& options,
                                                const std::function<void(const BenchmarkRow&)>& report) {
  Bench bench(model, options);
  std::vector<BenchmarkRow> rows;
  const auto add = [&](Result<BenchmarkRow> row) -> Result<> {
    if (!row) return std::unexpected(std::move(row).error());
    report(*row);
    rows.push_back(std::move(*row));
    return {};
  };
  for (const int tokens : options.prefill) MET_TRY(add(bench.prefill(tokens)));
  for (const int batch : options.batch) MET_TRY(add(bench.decode(batch, options.batch_depth)));
  for (const int depth : options.depth) MET_TRY(add(bench.decode(1, depth)));
  return rows;
}

Result<> run_kernel_table(engine::LoadedModel& model, const BenchmarkOptions& options,
                          const std::function<void(const KernelRow&)>& report) {
  Bench bench(model, options);
  for (const int batch : options.kernels) {
    MET_ASSIGN(const std::vector<KernelRow> rows, bench.kernels(batch, options.batch_depth));
    for (const KernelRow& row : rows) report(row);
  }
  return {};
}

}  // namespace met::bench
