// Stop strings over a stream of bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"

namespace met::text {

/// An automaton over a set of stop strings (Aho and Corasick, 1975). Immutable.
class StopAutomaton;

/// Finds the first end of a stop string in a stream; at the same end the longest stop wins. Holds back only
/// bytes that are a true prefix of some stop. The bytes given do not depend on how the input is cut. Byte
/// oriented: no Unicode normalisation. Used from one thread at a time; cost O(1) a byte.
class StopMatcher {
 public:
  /// No stops: everything passes.
  StopMatcher();
  /// Errors: kInvalidArgument with field "stop": an empty stop, more than `kStopsMax`, or more than
  /// `kStopBytesMax` in all. Memory: at most 1 KiB a byte of the stops.
  static Result<StopMatcher> create(std::span<const std::string> stops, bool include_stop = false);
  static constexpr std::size_t kStopsMax = 16;
  static constexpr std::size_t kStopBytesMax = 8192;

  /// Whether a stop that ends in what is pushed from now on counts; it may have begun before. At first it does.
  void arm(bool armed) { armed_ = armed; }
  /// Appends to `out` what can no longer belong to a stop. After a stop was found nothing is appended.
  void push(std::string_view bytes, std::string& out);
  /// Appends what is still held: the stream has ended without a stop.
  void flush(std::string& out);

  bool stopped() const { return stopped_.has_value(); }
  /// Index of the stop that was found, in the order given.
  std::optional<std::size_t> stop_index() const { return stopped_; }
  /// Bytes held back now.
  std::size_t held_bytes() const { return held_.size(); }

 private:
  std::shared_ptr<const StopAutomaton> automaton_;
  bool include_stop_ = false;
  bool armed_ = true;
  std::uint32_t state_ = 0;
  std::string held_;
  std::optional<std::size_t> stopped_;
};

}  // namespace met::text
