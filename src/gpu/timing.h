// Where device time goes: pairs of events by name, collected when the stream has drained.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/backend.h"

namespace met::gpu {

/// Off by default. For eager steps only: events recorded in a capture carry no time, so a span that begins in
/// one is ignored.
class TimingSpans {
 public:
  explicit TimingSpans(GpuBackend& device) : device_(device) {}
  ~TimingSpans();
  TimingSpans(const TimingSpans&) = delete;
  TimingSpans& operator=(const TimingSpans&) = delete;

  struct Row {
    std::string name;
    std::int64_t count = 0;
    std::int64_t bytes = 0;  ///< that all of them had to read
    double total_ms = 0;
    double least_ms = 0;
    double most_ms = 0;
  };

  void enable(bool on) { enabled_ = on; }

  /// Spans may nest; end() closes the innermost.
  Result<> begin(std::string_view name, Stream stream, std::int64_t bytes = 0);
  Result<> end(Stream stream);

  /// Waits for the stream and adds what was measured since the last call to the rows.
  Result<> collect(Stream stream);

  const std::vector<Row>& rows() const { return rows_; }  ///< in the order of their first appearance
  /// name, count, total, mean, least, most, share of all outermost time.
  std::string table() const;

 private:
  struct Span {
    std::size_t row = 0;
    Event begin, end;
    std::int64_t bytes = 0;
    bool nested = false;
  };

  std::size_t row(std::string_view name);

  GpuBackend& device_;
  bool enabled_ = false;
  std::vector<Span> spans_;  // measured since the last collect: the first used_ of them
  std::size_t used_ = 0;
  std::vector<std::size_t> open_;  // indices into spans_; kIgnored for a span that is not measured
  std::vector<Row> rows_;
  double outermost_ms_ = 0;
};

/// Ends the span when the scope ends.
class TimingScope {
 public:
  TimingScope(TimingSpans& spans, std::string_view name, Stream stream) : spans_(spans), stream_(stream) {
    begun_ = spans_.begin(name, stream_).has_value();
  }
  ~TimingScope() {
    if (begun_) (void)spans_.end(stream_);
  }
  TimingScope(const TimingScope&) = delete;
  TimingScope& operator=(const TimingScope&) = delete;

 private:
  TimingSpans& spans_;
  Stream stream_;
  bool begun_ = false;
};

}  // namespace met::gpu
