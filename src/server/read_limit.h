// A time limit on reads after which the client can still be answered: the socket stays open.
#pragma once

#include <boost/asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <utility>

#include "server/transport.h"
#include "server/wake.h"

namespace met::server {

/// Used from the transport's loop; the transport outlives it. At most one limit at a time.
class ReadLimit {
 public:
  explicit ReadLimit(Transport& stream) : stream_(stream), timer_(stream.get_executor()) {}

  /// From now until `lift`, a read that is pending at `deadline` or later ends with operation_aborted. `owner` keeps
  /// this object alive.
  void set(Clock::time_point deadline, std::weak_ptr<const void> owner) {
    passed_ = false;
    stream_.expires_never();
    timer_.expires_at(deadline);
    wait(std::move(owner), ++round_);
  }
  void lift() {
    ++round_;
    timer_.cancel();
  }
  /// The last limit was met while it was set.
  bool passed() const { return passed_; }

 private:
  void wait(std::weak_ptr<const void> owner, unsigned round) {
    auto end = [this, owner = std::move(owner), round](boost::system::error_code code) {
      const auto alive = owner.lock();
      if (code || !alive || round != round_) return;
      passed_ = true;
      stream_.cancel();
      timer_.expires_after(std::chrono::milliseconds(20));  // again, where the first came between two reads
      wait(alive, round);
    };
    timer_.async_wait(std::move(end));
  }

  Transport& stream_;
  asio::steady_timer timer_;
  unsigned round_ = 0;
  bool passed_ = false;
};

}  // namespace met::server
