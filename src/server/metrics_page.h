// The page of GET /metrics.
#pragma once

#include <string>

#include "scheduler/request.h"
#include "server/services.h"

namespace met::server {

/// Prometheus text, version 0.0.4: section 15 of docs/scheduler-and-engine.md from the engine's snapshot,
/// then the server's own numbers.
std::string metrics_page(const scheduler::Snapshot& snapshot, const Services& met);

}  // namespace met::server
