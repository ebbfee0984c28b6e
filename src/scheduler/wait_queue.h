// Who is admitted next: requests in the order of the policy within a tenant, tenants in turns. Rules S22, S23.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "scheduler/plan.h"

namespace met::scheduler {

/// Requests that were never admitted. While those of several tenants wait, tenants take turns by deficit round robin:
/// a turn adds `kQuantum` tokens to what a tenant may reserve, and its first requests go while that covers them. A
/// tenant alone is neither charged nor credited.
/// Cost: a change is linear in what waits, the order of the first ones is kept until the next change.
class WaitQueue {
 public:
  /// Requests that one plan looks at; more of them wait for the next one (S10).
  static constexpr std::size_t kHeadsMax = 64;
  /// About what one request reserves, so that turns are short; a larger request waits for several of them.
  static constexpr std::int64_t kQuantum = 2'048;

  struct Entry {
    SeqIndex seq = 0;
    std::int64_t order = 0;  ///< lower first within the tenant, equals in the order of their coming (S22)
    std::int64_t cost = 0;   ///< tokens that its admission reserves (S7)
  };

  void push(std::uint64_t tenant, const Entry& entry);
  /// `heir` takes the place of `seq`.
  void replace(SeqIndex seq, SeqIndex heir);
  /// It ended while it waited.
  void erase(SeqIndex seq) { take_out(seq, /*charged=*/false); }
  void admit(SeqIndex seq) { take_out(seq, /*charged=*/true); }

  /// At most `count` and kHeadsMax of them, the next one first. Valid until the next change.
  std::span<const SeqIndex> first(std::size_t count);
  bool holds(SeqIndex seq) const;
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }

 private:
  struct Tenant {
    std::uint64_t id = 0;
    std::int64_t deficit = 0;
    std::vector<Entry> waiting;  ///< never empty
  };
  struct Turn {
    std::size_t at = 0;    ///< whose it is, an index in round_
    bool granted = false;  ///< it has got its quantum
  };
  /// What an order in the making takes from a tenant.
  struct Share {
    std::int64_t deficit = 0;
    std::size_t taken = 0;
  };

  void take_out(SeqIndex seq, bool charged);
  void leave(std::size_t at);
  void make_order();
  /// The tenant's first request that was not taken, or null.
  const Entry* next_of(std::size_t at) const;
  void give_turn(Turn& turn);
  void skip_rounds();

  std::vector<Tenant> round_;  ///< tenants of which something waits
  Turn turn_;
  std::size_t size_ = 0;
  std::vector<SeqIndex> order_;
  bool stale_ = false;
  std::vector<Share> shares_;  ///< of make_order()
};

}  // namespace met::scheduler
