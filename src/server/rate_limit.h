// How much of the server one tenant may take: requests and tokens a minute, as token buckets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "config/settings.h"
#include "core/clock.h"
#include "core/error.h"

namespace met::server {

/// A bucket's size and what flows into it in a minute; 0 is no limit.
struct Rate {
  std::int64_t per_minute = 0;
  std::int64_t burst = 0;
  bool on() const { return per_minute > 0; }
};

struct RateLimits {
  Rate requests;
  Rate tokens;
  /// Reads --rate-limit-*. Errors: a burst without its rate.
  static Result<RateLimits> from(const config::Settings& settings);
};

/// Fills evenly, from full. Not safe for threads; times are those of one monotonic clock.
class Bucket {
 public:
  Bucket() = default;
  Bucket(Rate rate, std::int64_t now_us);

  /// Takes `amount`; or gives the microseconds after which it will be there, and takes nothing. The amount is at
  /// most the burst.
  std::int64_t take(std::int64_t amount, std::int64_t now_us);
  /// Gives back (or below 0: takes without asking; the bucket may then owe).
  void put(std::int64_t amount, std::int64_t now_us);
  std::int64_t level(std::int64_t now_us);
  /// Until it is full.
  std::int64_t full_in_us(std::int64_t now_us);

 private:
  void fill(std::int64_t now_us);
  std::int64_t time_until(std::int64_t level) const;

  Rate rate_;
  std::int64_t level_ = 0;  // in kMinuteUs-ths
  std::int64_t filled_us_ = 0;
};

/// One account a tenant, in memory that is taken once; a lock for each, held for some additions. Safe from any
/// thread. Without limits it does nothing.
class RateLimiter {
 public:
  /// A bucket as headers tell of it. `limit` 0: there is none.
  struct Meter {
    std::int64_t limit = 0;
    std::int64_t remaining = 0;
    std::int64_t reset_us = 0;
  };
  struct State {
    Meter requests;
    Meter tokens;
  };
  struct Refusal {
    std::int64_t wait_us = 0;  ///< until it would have been taken, if nobody else takes; 0: never
  };

  /// Tokens that are taken until it is known how many were used. Going gives back the rest.
  class Reservation {
   public:
    Reservation() = default;
    ~Reservation();
    Reservation(Reservation&& other) noexcept { swap(other); }
    Reservation& operator=(Reservation&& other) noexcept {
      Reservation(std::move(other)).swap(*this);
      return *this;
    }
    /// What was used so far. More than was reserved is owed.
    void use(std::int64_t tokens) { used_ = tokens; }

   private:
    friend class RateLimiter;
    Reservation(RateLimiter& limiter, std::uint64_t tenant, std::int64_t tokens)
        : limiter_(&limiter), tenant_(tenant), tokens_(tokens) {}
    void swap(Reservation& other) noexcept;

    RateLimiter* limiter_ = nullptr;
    std::uint64_t tenant_ = 0;
    std::int64_t tokens_ = 0;
    std::int64_t used_ = 0;
  };

  /// No other tenants will come. The clock and the limiter outlive every reservation.
  RateLimiter(RateLimits limits, const std::vector<std::uint64_t>& tenants, const Clock& clock);

  const RateLimits& limits() const { return limits_; }
  bool on() const { return limits_.requests.on() || limits_.tokens.on(); }

  std::expected<void, Refusal> take_request(std::uint64_t tenant);
  std::expected<Reservation, Refusal> reserve(std::uint64_t tenant, std::int64_t tokens);
  State state(std::uint64_t tenant);

 private:
  struct alignas(64) Account {  // no two in a cache line
    std::mutex mutex;
    Bucket requests;
    Bucket tokens;
  };
  Account& account_of(std::uint64_t tenant);
  void settle(std::uint64_t tenant, std::int64_t unused);

  const RateLimits limits_;
  const Clock& clock_;
  std::unordered_map<std::uint64_t, Account> accounts_;  ///< its shape is fixed
};

}  // namespace met::server
