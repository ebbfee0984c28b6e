#include "bench/serving.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <numeric>

namespace met::bench {

namespace {

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[values.size() / 2];
}

double percentile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
}

// What one wave showed.
struct Wave {
  double begin = 0;
  std::vector<std::vector<double>> token_times;  // by request, a time for each token
};

// Wakes one thread for any of many requests.
class Bell {
 public:
  void ring() {
    {
      const std::lock_guard lock(mutex_);
      rung_ = true;
    }
    heard_.notify_one();
  }
  void wait() {
    std::unique_lock lock(mutex_);
    heard_.wait(lock, [&] { return rung_; });
    rung_ = false;
  }

 private:
  std::mutex mutex_;
  std::condition_variable heard_;
  bool rung_ = false;
};

class Load {
 public:
  explicit Load(engine::ModelHost& host) : host_(host), vocabulary_(host.model().config.vocabulary) {}

  Result<Wave> wave(int requests, int prompt_tokens, int output_tokens) {
    Bell bell;
    Wave wave{.token_times = std::vector<std::vector<double>>(static_cast<std::size_t>(requests))};
    std::vector<std::unique_ptr<scheduler::Generation>> live;
    std::vector<scheduler::Request> made;
    for (int i = 0; i < requests; ++i) made.push_back(request(prompt_tokens, output_tokens));
    wave.begin = seconds_now();
    for (auto& one : made) {
      MET_ASSIGN(auto generation, host_.client().submit(std::move(one)));
      generation->on_ready([&bell] { bell.ring(); });
      live.push_back(std::move(generation));
    }
    for (std::size_t ended = 0; ended < live.size();) {
      bell.wait();
      const double now = seconds_now();
      for (std::size_t i = 0; i < live.size(); ++i) {
        while (auto event = live[i]->poll()) {
          if (event->kind == scheduler::Event::Kind::kTokens)
            wave.token_times[i].insert(wave.token_times[i].end(), event->ids.size(), now);
          if (!event->terminal()) continue;
          ++ended;
          if (event->kind != scheduler::Event::Kind::kFinished)
            return std::unexpected(event->error.message.empty()
                                       ? Error{ErrorCode::kCancelled, "a request was cancelled", ""}
                                       : event->error);
        }
      }
    }
    return wave;
  }

 private:
  scheduler::Request request(int prompt_tokens, int output_tokens) {
    scheduler::Request out;
    for (int i = 0; i < prompt_tokens; ++i) {
      state_ = state_ * 1664525U + 1013904223U;
      out.prompt.push_back(
          static_cast<std::int32_t>((state_ >> 8U) % static_cast<std::uint32_t>(vocabulary_)));
    }
    out.sampling.temperature = 0;
    out.sampling.seed = 1;
    out.max_tokens = output_tokens;
    return out;
  }

  engine::ModelHost& host_;
  int vocabulary_;
  std::uint32_t state_ = 12345;
};

// Times between tokens, and tokens a second, while every request of the wave decodes.
void add_steady(const Wave& wave, std::vector<double>& gaps, std::vector<double>& rates) {
  double begin = 0;
  double end = 1e300;
  for (const auto& times : wave.token_times) {
    begin = std::max(begin, times.front());
    end = std::min(end, times.back());
  }
  std::size_t tokens = 0;
  for (const auto& times : wave.token_times) {
    for (std::size_t i = 1; i < times.size(); ++i) {
      if (times[i - 1] < begin || times[i] > end) continue;
      gaps.push_back((times[i] - times[i - 1]) * 1e3);
      ++tokens;
    }
  }
  if (end > begin) rates.push_back(static_cast<double>(tokens) / (end - begin));
}

Result<ServingRow> measure(Load& load, ServingRow row, int output_tokens, int repeats) {
  std::vector<double> gaps;
  std::vector<double> rates;
  std::vector<double> totals;
  std::vector<double> firsts;
  for (int i = 0; i <= repeats; ++i) {  // the first one warms up
    MET_ASSIGN(const Wave wave, load.wave(row.concurrency, row.prompt_tokens, output_tokens));
    if (i == 0) continue;
    double last = 0;
    double first = 0;
    for (const auto& times : wave.token_times) {
      last = std::max(last, times.back());
      first += (times.front() - wave.begin) * 1e3 / row.concurrency;
    }
    const double tokens = row.test == "bulk" ? row.prompt_tokens : output_tokens;
    totals.push_back(row.concurrency * tokens / (last - wave.begin));
    firsts.push_back(first);
    if (output_tokens > 1) add_steady(wave, gaps, rates);
  }
  row.step_ms = median(gaps);
  row.step_p99_ms = percentile(gaps, 0.99);
  row.decode_per_second = median(rates);
  row.total_per_second = median(totals);
  row.first_token_ms = median(firsts);
  const std::vector<double>& spread = row.test == "serve" ? rates : row.test == "bulk" ? totals : firsts;
  if (!spread.empty()) {
    row.total_min = *std::ranges::min_element(spread);
    row.total_max = *std::ranges::max_element(spread);
  }
  return row;
}

}  // namespace

Result<std::vector<ServingRow>> run_serving(engine::ModelHost& host, const ServingOptions& options,
                                            const std::function<void(const ServingRow&)>& report) {
  Load load(host);
  std::vector<ServingRow> rows;
  const auto add = [&](ServingRow row, int output_tokens) -> Result<> {
    MET_ASSIGN(row, measure(load, std::move(row), output_tokens, options.repeats));
    report(row);
    rows.push_back(std::move(row));
    return {};
  };
  for (const int requests : options.concurrency)
    MET_TRY(add({.test = "serve", .concurrency = requests, .prompt_tokens = options.prompt_tokens},
                options.output_tokens));
  for (const int tokens : options.ttft) MET_TRY(add({.test = "ttft", .prompt_tokens = tokens}, 1));
  for (const int tokens : options.bulk)
    MET_TRY(add({.test = "bulk", .concurrency = kBulkRequests, .prompt_tokens = tokens}, 1));
  return rows;
}

}  // namespace met::bench
