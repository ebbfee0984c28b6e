// The event channel of one request: the engine writes and never waits, the client reads. Rules R2, R3, R11.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "scheduler/request.h"

namespace met::scheduler {

/// Token events that were not read yet are one event: ids go into a ring of fixed size, so that writing one
/// allocates nothing. Accepted and terminal events have reserved places, progress keeps the latest.
class Channel {
 public:
  /// `ids_max` unread ids of a choice fill it. Room is made for `ids_room`: those, what steps in flight may
  /// add, and never more than the choice can have.
  Channel(int choices, std::int64_t ids_max, std::int64_t ids_room, bool logprobs);

  // The engine's side: one thread.
  void accepted();
  void progress(std::int64_t computed, std::int64_t cached);
  void prompt_logprobs(std::vector<PositionLogprobs> positions);
  void token(int choice, TokenId id, const PositionLogprobs* logprobs);
  /// The choice's last event (R2).
  void terminal(int choice, Event event);
  bool full(int choice) const {
    return unread_[static_cast<std::size_t>(choice)].load(std::memory_order_relaxed) >= ids_max_;
  }

  // The client's side: one thread at a time.
  std::optional<Event> poll();
  Event wait();
  void on_ready(std::function<void()> wake);
  /// Called after a poll that made room in a full channel. Set before the engine sees the channel.
  void on_room(std::function<void()> room) { room_ = std::move(room); }

 private:
  struct Choice {
    std::vector<TokenId> ids;  ///< ring
    std::vector<PositionLogprobs> logprobs;
    std::size_t first = 0;
    std::size_t size = 0;
    std::optional<Event> terminal;
  };

  bool is_empty() const;
  std::optional<Event> next();
  std::optional<Event> next_of(int index);
  /// Runs `write` under the lock and wakes the reader if the channel was empty.
  template <class Write>
  void add(Write write);

  const std::int64_t ids_max_;
  std::vector<std::atomic<std::int64_t>> unread_;  ///< ids in each choice's ring
  std::function<void()> room_;

  mutable std::mutex mutex_;  ///< guards what follows
  std::condition_variable ready_;
  bool accepted_ = false;
  std::optional<Event> progress_;
  std::vector<PositionLogprobs> prompt_;
  std::vector<Choice> choices_;
  std::size_t cursor_ = 0;  ///< choice that is read next, so that none waits for another's tokens

  // Held while the wake runs, so that replacing it waits for a call in progress. Taken before mutex_, if both.
  std::mutex wake_mutex_;
  std::function<void()> wake_;
};

}  // namespace met::scheduler
