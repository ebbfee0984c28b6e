// A coroutine that waits for something that another thread will tell it.
#pragma once

#include <array>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>

namespace met::server {

namespace asio = boost::asio;
template <class T>
using awaitable = asio::awaitable<T>;
using Clock = std::chrono::steady_clock;

/// One waiter on one loop; any number of notifiers anywhere. Notifications between two waits are one. All that are told
/// of in one go are woken by one post to their loop, and a wait that is told sets no timer anew.
class Wake {
 public:
  explicit Wake(const asio::any_io_executor& loop);

  /// Wakes the waiter; may be called from any thread, and after the Wake is gone.
  std::function<void()> notifier() const;
  void notify() { tell(state_); }

  /// What the waiter works with. Read ahead while the one that is woken before it runs; it may be gone by then, its
  /// address is all that counts.
  struct Memory {
    const void* at = nullptr;
    std::size_t bytes = 0;
  };
  static constexpr std::size_t kMemories = 8;
  void works_with(const std::array<Memory, kMemories>& memory);

  /// Returns at the next notification or at `deadline`. True: notified.
  awaitable<bool> wait(Clock::time_point deadline) {
    const auto begin_wait = [state = state_, deadline](Handler handler) {
      begin(state, deadline, std::move(handler));
    };
    return asio::async_initiate<const asio::use_awaitable_t<>, void(bool)>(begin_wait, asio::use_awaitable);
  }

 private:
  struct State;
  class Loop;
  using Handler = asio::async_result<asio::use_awaitable_t<>, void(bool)>::handler_type;
  static void begin(const std::shared_ptr<State>& state, Clock::time_point deadline, Handler handler);
  static void tell(const std::shared_ptr<State>& state);
  static void arm(State& state, Clock::time_point at);
  static void resume(State& state, bool notified);

  std::shared_ptr<State> state_;
};

}  // namespace met::server
