// Chooses the replica of a request, of what a front end knows: how many requests each has, and where it sent the
// texts that the prompt begins with.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "bench/request_trace.h"

namespace met::bench {

enum class Router : std::uint8_t {
  kRoundRobin,   ///< in turn
  kLeastLoaded,  ///< the one with the fewest requests that have not ended
  kPrefix,       ///< the one that saw most of the prompt's texts, unless it is busy beyond the others
};
/// Nothing for an unknown name.
std::optional<Router> router_of(std::string_view name);

class ReplicaRouter {
 public:
  virtual ~ReplicaRouter() = default;
  /// `loads`: requests of each replica that have not ended.
  virtual std::size_t choose(const TracedRequest& request, std::span<const int> loads) = 0;
  /// The replica took it.
  virtual void placed(const TracedRequest& /*request*/, std::size_t /*replica*/) {}
};
std::unique_ptr<ReplicaRouter> make_router(Router kind);

}  // namespace met::bench
