// Workers for what would hold up a loop: parsing, templates, tokenizing (E3).
#pragma once

#include <atomic>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <optional>
#include <utility>

namespace met::server {

/// A fixed number of threads and a bounded queue.
class TextPool {
 public:
  TextPool(std::size_t threads, int jobs_max) : pool_(threads), jobs_max_(jobs_max) {}
  ~TextPool() { pool_.join(); }

  /// Runs `work` on a worker and comes back to the caller's loop with its result; nothing when the queue is
  /// full.
  template <class Work>
  boost::asio::awaitable<std::optional<decltype(std::declval<Work&>()())>> run(Work work) {
    using T = decltype(work());
    if (jobs_.fetch_add(1) >= jobs_max_) {
      jobs_.fetch_sub(1);
      co_return std::nullopt;
    }
    auto job = [work = std::move(work)]() mutable -> boost::asio::awaitable<T> { co_return work(); };
    T result =
        co_await boost::asio::co_spawn(pool_.get_executor(), std::move(job), boost::asio::use_awaitable);
    jobs_.fetch_sub(1);
    co_return std::optional<T>(std::move(result));
  }

 private:
  boost::asio::thread_pool pool_;
  const int jobs_max_;
  std::atomic<int> jobs_ = 0;
};

}  // namespace met::server
