#include "server/rate_limit.h"

#include <algorithm>

namespace met::server {
namespace {

constexpr std::int64_t kMinuteUs = 60'000'000;
// A bucket counts kMinuteUs-ths of what it holds, so that a rate a minute is a whole number a microsecond. This
// much fits 64 bits; settings are bounded far below it.
constexpr std::int64_t kAmountMax = 100'000'000'000;

std::int64_t divided_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

Result<Rate> rate_of(std::int64_t per_minute, std::int64_t burst, const char* burst_flag) {
  if (per_minute == 0 && burst > 0) return invalid(burst_flag, "a burst needs its rate a minute too");
  return Rate{.per_minute = per_minute, .burst = burst > 0 ? burst : per_minute};
}

}  // namespace

Result<RateLimits> RateLimits::from(const config::Settings& s) {
  RateLimits out;
  MET_ASSIGN(out.requests, rate_of(s.rate_limit_rpm, s.rate_limit_burst_rpm, "--rate-limit-burst-rpm"));
  MET_ASSIGN(out.tokens, rate_of(s.rate_limit_tpm, s.rate_limit_burst_tpm, "--rate-limit-burst-tpm"));
  return out;
}

Bucket::Bucket(Rate rate, std::int64_t now_us)
    : rate_(rate), level_(rate.burst * kMinuteUs), filled_us_(now_us) {}

void Bucket::fill(std::int64_t now_us) {
  const std::int64_t elapsed = std::max<std::int64_t>(0, now_us - filled_us_);
  filled_us_ = now_us;
  const std::int64_t full = rate_.burst * kMinuteUs;
  level_ = elapsed >= time_until(full) ? full : level_ + elapsed * rate_.per_minute;
}

std::int64_t Bucket::time_until(std::int64_t level) const {
  return level_ >= level ? 0 : divided_up(level - level_, rate_.per_minute);
}

std::int64_t Bucket::take(std::int64_t amount, std::int64_t now_us) {
  fill(now_us);
  const std::int64_t wait_us = time_until(amount * kMinuteUs);
  if (wait_us == 0) level_ -= amount * kMinuteUs;
  return wait_us;
}

void Bucket::put(std::int64_t amount, std::int64_t now_us) {
  fill(now_us);
  const std::int64_t part = std::clamp(amount, -kAmountMax / 2, kAmountMax / 2) * kMinuteUs;
  level_ = std::clamp(level_ + part, -kAmountMax / 4 * kMinuteUs, rate_.burst * kMinuteUs);
}

std::int64_t Bucket::level(std::int64_t now_us) {
  fill(now_us);
  return std::max<std::int64_t>(0, level_ / kMinuteUs);
}

std::int64_t Bucket::full_in_us(std::int64_t now_us) {
  fill(now_us);
  return time_until(rate_.burst * kMinuteUs);
}

RateLimiter::Reservation::~Reservation() {
  if (limiter_ != nullptr) limiter_->settle(tenant_, tokens_ - used_);
}

void RateLimiter::Reservation::swap(Reservation& other) noexcept {
  std::swap(limiter_, other.limiter_);
  std::swap(tenant_, other.tenant_);
  std::swap(tokens_, other.tokens_);
  std::swap(used_, other.used_);
}

RateLimiter::RateLimiter(RateLimits limits, const std::vector<std::uint64_t>& tenants, const Clock& clock)
    : limits_(limits), clock_(clock) {
  if (!on()) return;
  const std::int64_t now_us = clock_.now_us();
  for (const std::uint64_t tenant : tenants) {
    Account& account = accounts_[tenant];
    account.requests = Bucket(limits_.requests, now_us);
    account.tokens = Bucket(limits_.tokens, now_us);
  }
}

RateLimiter::Account& RateLimiter::account_of(std::uint64_t tenant) {
  const auto found = accounts_.find(tenant);
  MET_CHECK(found != accounts_.end(), "a tenant without an account");
  return found->second;
}

std::expected<void, RateLimiter::Refusal> RateLimiter::take_request(std::uint64_t tenant) {
  if (!limits_.requests.on()) return {};
  Account& account = account_of(tenant);
  const std::lock_guard lock(account.mutex);
  const std::int64_t wait_us = account.requests.take(1, clock_.now_us());
  if (wait_us > 0) return std::unexpected(Refusal{wait_us});
  return {};
}

std::expected<RateLimiter::Reservation, RateLimiter::Refusal> RateLimiter::reserve(std::uint64_t tenant,
                                                                                   std::int64_t tokens) {
  if (!limits_.tokens.on()) return Reservation();
  if (tokens > limits_.tokens.burst) return std::unexpected(Refusal{});
  Account& account = account_of(tenant);
  const std::lock_guard lock(account.mutex);
  const std::int64_t wait_us = account.tokens.take(tokens, clock_.now_us());
  if (wait_us > 0) return std::unexpected(Refusal{wait_us});
  return Reservation(*this, tenant, tokens);
}

void RateLimiter::settle(std::uint64_t tenant, std::int64_t unused) {
  if (unused == 0) return;
  Account& account = account_of(tenant);
  const std::lock_guard lock(account.mutex);
  account.tokens.put(unused, clock_.now_us());
}

RateLimiter::State RateLimiter::state(std::uint64_t tenant) {
  State out;
  if (!on()) return out;
  Account& account = account_of(tenant);
  const std::lock_guard lock(account.mutex);
  const std::int64_t now_us = clock_.now_us();
  const auto meter = [now_us](Rate rate, Bucket& bucket) {
    return rate.on() ? Meter{rate.burst, bucket.level(now_us), bucket.full_in_us(now_us)} : Meter{};
  };
  out.requests = meter(limits_.requests, account.requests);
  out.tokens = meter(limits_.tokens, account.tokens);
  return out;
}

}  // namespace met::server
