#include "bench/replica_router.h"

#include <algorithm>
#include <unordered_map>
#include <vector>

namespace met::bench {
namespace {

std::size_t least_loaded(std::span<const int> loads) {
  return static_cast<std::size_t>(std::ranges::min_element(loads) - loads.begin());
}

class RoundRobin final : public ReplicaRouter {
 public:
  std::size_t choose(const TracedRequest& /*request*/, std::span<const int> loads) override {
    return next_++ % loads.size();
  }

 private:
  std::size_t next_ = 0;
};

class LeastLoaded final : public ReplicaRouter {
 public:
  std::size_t choose(const TracedRequest& /*request*/, std::span<const int> loads) override {
    return least_loaded(loads);
  }
};

class ByPrefix final : public ReplicaRouter {
 public:
  std::size_t choose(const TracedRequest& request, std::span<const int> loads) override {
    const std::size_t least = least_loaded(loads);
    keys_of(request);
    for (auto key = keys_.rbegin(); key != keys_.rend(); ++key) {
      const auto seen = seen_.find(*key);
      if (seen == seen_.end()) continue;
      return loads[seen->second] <= kBusyMore + kBusyTimes * loads[least] ? seen->second : least;
    }
    return least;
  }
  void placed(const TracedRequest& request, std::size_t replica) override {
    keys_of(request);
    keys_.push_back(key(keys_.empty() ? 0 : keys_.back(), request.output_text));
    for (const std::uint64_t one : keys_) seen_.insert_or_assign(one, replica);
  }

 private:
  /// A replica that has the prefix may be busier than the least busy one by so much.
  static constexpr int kBusyMore = 8;
  static constexpr int kBusyTimes = 2;

  static std::uint64_t key(std::uint64_t before, std::uint64_t text) {
    return (before ^ (text + 0x9E3779B97F4A7C15ULL + (before << 6) + (before >> 2))) * 0xBF58476D1CE4E5B9ULL;
  }
  void keys_of(const TracedRequest& request) {
    keys_.clear();
    for (const TextPiece& piece : request.prompt)
      keys_.push_back(key(keys_.empty() ? 0 : keys_.back(), piece.text));
  }

  std::unordered_map<std::uint64_t, std::size_t> seen_;
  std::vector<std::uint64_t> keys_;
};

}  // namespace

std::optional<Router> router_of(std::string_view name) {
  if (name == "round-robin") return Router::kRoundRobin;
  if (name == "least-loaded") return Router::kLeastLoaded;
  if (name == "prefix") return Router::kPrefix;
  return std::nullopt;
}

std::unique_ptr<ReplicaRouter> make_router(Router kind) {
  switch (kind) {
    case Router::kRoundRobin:
      return std::make_unique<RoundRobin>();
    case Router::kLeastLoaded:
      return std::make_unique<LeastLoaded>();
    case Router::kPrefix:
      return std::make_unique<ByPrefix>();
  }
  return nullptr;
}

}  // namespace met::bench
