#include "gpu/timing.h"

#include <algorithm>
#include <cstdio>

namespace met::gpu {
namespace {

constexpr std::size_t kIgnored = SIZE_MAX;

}  // namespace

TimingSpans::~TimingSpans() {
  for (const Span& span : spans_) {
    device_.destroy(span.begin);
    device_.destroy(span.end);
  }
}

std::size_t TimingSpans::row(std::string_view name) {
  const auto found = std::ranges::find(rows_, name, &Row::name);
  if (found != rows_.end()) return static_cast<std::size_t>(found - rows_.begin());
  rows_.push_back({.name = std::string(name)});
  return rows_.size() - 1;
}

Result<> TimingSpans::begin(std::string_view name, Stream stream, std::int64_t bytes) {
  if (!enabled_ || device_.capturing(stream)) {
    open_.push_back(kIgnored);
    return {};
  }
  if (used_ == spans_.size()) {
    Span span;
    MET_ASSIGN(span.begin, device_.create_event(true));
    const auto end = device_.create_event(true);
    if (!end) {
      device_.destroy(span.begin);
      return std::unexpected(end.error());
    }
    span.end = *end;
    spans_.push_back(span);
  }
  Span& span = spans_[used_];
  span.row = row(name);
  span.bytes = bytes;
  span.nested = std::ranges::any_of(open_, [](std::size_t i) { return i != kIgnored; });
  MET_TRY(device_.record(span.begin, stream));
  open_.push_back(used_++);
  return {};
}

Result<> TimingSpans::end(Stream stream) {
  MET_CHECK(!open_.empty(), "a timing span ended that had not begun");
  const std::size_t index = open_.back();
  open_.pop_back();
  return index == kIgnored ? Result<>{} : device_.record(spans_[index].end, stream);
}

Result<> TimingSpans::collect(Stream stream) {
  MET_CHECK(open_.empty(), "timing spans were collected while one was open");
  if (used_ == 0) return {};
  MET_TRY(device_.synchronize(stream));
  for (const Span& span : std::span(spans_).first(used_)) {
    MET_ASSIGN(const double ms, device_.elapsed_ms(span.begin, span.end));
    Row& row = rows_[span.row];
    row.least_ms = row.count == 0 ? ms : std::min(row.least_ms, ms);
    row.most_ms = std::max(row.most_ms, ms);
    row.total_ms += ms;
    ++row.count;
    row.bytes += span.bytes;
    if (!span.nested) outermost_ms_ += ms;
  }
  used_ = 0;
  return {};
}

Result<> GpuBackend::launch(const KernelLaunch& launch, Stream stream) {
  if (spans_ == nullptr) return enqueue(launch, stream);
  const LaunchNote& note = launch.note();
  std::string name = note.operation;
  if (note.n > 0) name += " " + std::to_string(note.n) + " x " + std::to_string(note.k);
  MET_TRY(spans_->begin(name, stream, note.bytes));
  const Result<> enqueued = enqueue(launch, stream);
  const Result<> ended = spans_->end(stream);
  return enqueued ? ended : enqueued;
}

std::string TimingSpans::table() const {
  char line[160];
  std::snprintf(line, sizeof line, "%-24s %8s %10s %10s %10s %10s %7s\n", "span", "count", "total ms",
                "mean us", "least us", "most us", "share");
  std::string table = line;
  for (const Row& row : rows_) {
    const double mean_us = row.count > 0 ? 1e3 * row.total_ms / static_cast<double>(row.count) : 0;
    std::snprintf(line, sizeof line, "%-24.48s %8lld %10.3f %10.2f %10.2f %10.2f %6.1f%%\n", row.name.c_str(),
                  static_cast<long long>(row.count), row.total_ms, mean_us, 1e3 * row.least_ms,
                  1e3 * row.most_ms, outermost_ms_ > 0 ? 100 * row.total_ms / outermost_ms_ : 0.0);
    table += line;
  }
  return table;
}

}  // namespace met::gpu
