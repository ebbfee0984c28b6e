// What may follow in one sequence, decided outside the model: the seam between samplers and grammars.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace met::sampling {

/// Where one sequence stands in what it must be. Used from one thread at a time; lives as long as the sequence,
/// over preemptions (S15).
///
/// Cost     `fill` and `accept` are bounded in time; one that would exceed its bound counts as failed.
class ConstraintState {
 public:
  virtual ~ConstraintState() = default;

  /// Sets the bit of each id that may follow and clears all others: id i is bit i % 32 of word i / 32. An end id
  /// is set exactly when the text may end here. False: every id may follow, and `allowed` is as it was.
  virtual bool fill(std::span<std::uint32_t> allowed) = 0;
  /// Appends an id of the output. False: it could not follow, or the state has failed; nothing may follow then.
  virtual bool accept(std::int32_t id) = 0;
  /// Takes back the last `count` accepted ids.
  virtual void rewind(std::int64_t count) = 0;
  /// It failed by a bound on time or memory: that nothing may follow says nothing about the text.
  virtual bool over_bound() const { return false; }
};

/// What every choice of a request must be. Immutable; used from many threads at once.
class Constraint {
 public:
  virtual ~Constraint() = default;
  /// The state before the first output id.
  virtual std::unique_ptr<ConstraintState> begin() const = 0;
  /// Whether the text can become complete, with only end ids to follow. False: it may always go on.
  virtual bool completes() const { return true; }
};

}  // namespace met::sampling
