// Rings of stages in a block's shared memory, walked on the host: barriers as mbarrier is defined, actors that wait for
// them as coroutines, copies that land in any order. Whoever can go on is chosen at random, so that orders that a device
// shows once in a thousand steps are met here; actors that all wait are told as standing still.
#pragma once

#include <algorithm>
#include <coroutine>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace met::ops::ring_walk {

/// An mbarrier. A waiter knows a phase by its parity alone.
class Barrier {
 public:
  explicit Barrier(int arrivals) : arrivals_(arrivals), pending_(arrivals) {}
  void arrive() {
    overrun_ = overrun_ || pending_ == 0;
    --pending_;
    turn();
  }
  /// Arrives and announces copies, which count one each.
  void expect(int copies) {
    copies_ += copies;
    arrive();
  }
  void land() {
    --copies_;
    turn();
  }
  /// What a wait for a parity sees: a fresh barrier's parity 1 has ended.
  bool ended(unsigned parity) const { return phase_ % 2 != parity; }
  /// More arrivals than a phase has: undefined on a device.
  bool overrun() const { return overrun_; }

 private:
  void turn() {
    if (pending_ != 0 || copies_ != 0) return;
    ++phase_;
    pending_ = arrivals_;
  }
  int arrivals_, pending_;
  int copies_ = 0;
  unsigned phase_ = 0;
  bool overrun_ = false;
};

/// What an actor does: runs until it waits.
class Walk {
 public:
  struct promise_type {
    const Barrier* barrier = nullptr;
    unsigned parity = 0;
    Walk get_return_object() { return Walk(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::terminate(); }
  };
  Walk(Walk&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Walk& operator=(Walk&&) = delete;
  ~Walk() {
    if (handle_) handle_.destroy();
  }
  bool done() const { return handle_.done(); }
  bool ready() const {
    const promise_type& at = handle_.promise();
    return !done() && (at.barrier == nullptr || at.barrier->ended(at.parity));
  }
  void go_on() { handle_.resume(); }

 private:
  explicit Walk(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

/// co_await wait(barrier, parity)
struct wait {
  const Barrier& barrier;
  unsigned parity;
  bool await_ready() const { return false; }
  void await_suspend(std::coroutine_handle<Walk::promise_type> handle) const {
    handle.promise().barrier = &barrier;
    handle.promise().parity = parity;
  }
  void await_resume() const {}
};

/// A stage of a ring and the parity of its current use.
struct Cursor {
  int stage = 0;
  unsigned round = 0;
  void advance(int stages, int by = 1) {
    for (stage += by; stage >= stages; stage -= stages) round ^= 1;
  }
};

class Block {
 public:
  explicit Block(std::uint32_t seed) : random_(seed) {}
  void add(Walk walk) { walks_.push_back(std::move(walk)); }
  /// A copy that lands some time: then `landed` is called and the barrier told.
  void copy(Barrier& barrier, std::function<void()> landed) {
    copies_.push_back({&barrier, std::move(landed)});
  }
  void wrong(const std::string& what) {
    if (fault_.empty()) fault_ = what;
  }
  /// Empty, or what went wrong.
  std::string run() {
    while (fault_.empty()) {
      ready_.clear();
      bool all_done = true;
      for (std::size_t i = 0; i < walks_.size(); ++i) {
        all_done = all_done && walks_[i].done();
        if (walks_[i].ready()) ready_.push_back(i);
      }
      if (all_done && copies_.empty()) break;
      if (ready_.empty() && copies_.empty()) return "stands still";
      // Copies take longer than steps.
      const bool lands = ready_.empty() || (!copies_.empty() && below(kSlow) == 0);
      if (lands)
        land(below(copies_.size()));
      else
        walks_[ready_[below(ready_.size())]].go_on();
    }
    return fault_;
  }

 private:
  struct Copy {
    Barrier* barrier;
    std::function<void()> landed;
  };
  static constexpr std::size_t kSlow = 4;
  std::size_t below(std::size_t count) {
    return std::uniform_int_distribution<std::size_t>(0, count - 1)(random_);
  }
  void land(std::size_t i) {
    const Copy copy = std::move(copies_[i]);
    copies_.erase(copies_.begin() + static_cast<std::ptrdiff_t>(i));
    copy.landed();
    copy.barrier->land();
  }
  std::minstd_rand random_;
  std::vector<Walk> walks_;
  std::vector<Copy> copies_;
  std::vector<std::size_t> ready_;
  std::string fault_;
};

// ---- rings ----

/// Barriers of all stages, and what each stage holds: the number of a use, -1 while a copy is on its way.
struct Stages {
  Stages(int count, int arrivals) : holds(static_cast<std::size_t>(count), -2) {
    for (int i = 0; i < count; ++i) barriers.emplace_back(arrivals);
  }
  Barrier& operator[](int stage) { return barriers[static_cast<std::size_t>(stage)]; }
  int& held(int stage) { return holds[static_cast<std::size_t>(stage)]; }
  bool overrun() const { return std::ranges::any_of(barriers, &Barrier::overrun); }
  std::deque<Barrier> barriers;
  std::vector<int> holds;
};

/// One thread fills a stage with use `number`.
inline void fill(Block& block, Stages& full, int stage, int number) {
  full.held(stage) = -1;
  full[stage].expect(1);
  block.copy(full[stage], [&full, stage, number] { full.held(stage) = number; });
}

inline void expect_held(Block& block, Stages& full, int stage, int number) {
  if (full.held(stage) != number)
    block.wrong("stage " + std::to_string(stage) + " holds use " + std::to_string(full.held(stage)) +
                ", not " + std::to_string(number));
}

}  // namespace met::ops::ring_walk
