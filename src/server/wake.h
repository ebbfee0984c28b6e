// A coroutine that waits for something that another thread will tell it.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <functional>
#include <memory>

namespace met::server {

namespace asio = boost::asio;
template <class T>
using awaitable = asio::awaitable<T>;
using Clock = std::chrono::steady_clock;

/// One waiter on one loop; any number of notifiers anywhere. Notifications between two waits are one.
class Wake {
 public:
  explicit Wake(asio::any_io_executor loop) : state_(std::make_shared<State>(std::move(loop))) {}

  /// Wakes the waiter; may be called from any thread, and after the Wake is gone.
  std::function<void()> notifier() const {
    return [state = state_] {
      if (state->posted.exchange(true, std::memory_order_acq_rel)) return;
      asio::post(state->timer.get_executor(), [state] {
        // Takes over what was written before a notification that found one posted.
        state->posted.exchange(false, std::memory_order_acq_rel);
        state->set = true;
        state->timer.cancel();
      });
    };
  }

  /// The same from the loop itself.
  void notify() {
    state_->set = true;
    state_->timer.cancel();
  }

  /// Returns at the next notification or at `deadline`. True: notified.
  awaitable<bool> wait(Clock::time_point deadline) {
    const std::shared_ptr<State> state = state_;
    if (!state->set) {
      state->timer.expires_at(deadline);
      co_await state->timer.async_wait(asio::as_tuple(asio::use_awaitable));
    }
    const bool notified = state->set;
    state->set = false;
    co_return notified;
  }

 private:
  struct State {
    explicit State(asio::any_io_executor loop) : timer(std::move(loop)) {}
    asio::steady_timer timer;
    bool set = false;  // of the loop
    std::atomic<bool> posted = false;
  };
  std::shared_ptr<State> state_;
};

}  // namespace met::server
