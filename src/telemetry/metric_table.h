// Every metric of the product, once: name, type, unit, labels, help. Section 15 of
// docs/scheduler-and-engine.md.
#pragma once

#include <array>
#include <span>
#include <string_view>

namespace met::telemetry {

enum class MetricType { kCounter, kGauge, kHistogram };
std::string_view name(MetricType type);

struct Metric {
  std::string_view name;  ///< as it stands on the page; a histogram's without _bucket, _sum, _count
  MetricType type = MetricType::kGauge;
  std::string_view unit;  ///< seconds, tokens, bytes, ratio, or what is counted
  std::array<std::string_view, 3>
      labels{};  ///< beside model_name, which every series has; empty ones are none
  std::string_view help;
};

/// In the order of the page. Source of names and meanings that do not start with met_: vLLM's metrics page.
std::span<const Metric> metrics();
/// Null for an unknown name.
const Metric* find_metric(std::string_view name);

}  // namespace met::telemetry
