// Writes a metrics page in Prometheus' text format, version 0.0.4.
#pragma once

#include <bitset>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/histogram.h"
#include "telemetry/metric_table.h"

namespace met::telemetry {

inline constexpr std::string_view kPrometheusContentType = "text/plain; version=0.0.4; charset=utf-8";

struct Label {
  std::string_view name;
  std::string_view value;
};

/// Series of one metric are written one after another. A name or label that the table does not have, a second
/// block of one metric, or the wrong kind of value is a defect (O1).
class PrometheusPage {
 public:
  /// `model_name` becomes a label of every series; it may hold any bytes.
  explicit PrometheusPage(std::string_view model_name);

  /// A counter or gauge.
  void value(std::string_view name, double number, std::initializer_list<Label> labels = {});
  void histogram(std::string_view name, const Histogram& histogram, std::initializer_list<Label> labels = {});
  std::string take() { return std::move(text_); }

 private:
  void begin(std::string_view name, bool histogram, std::initializer_list<Label> labels);
  void series(std::string_view name, std::string_view suffix, std::initializer_list<Label> labels,
              std::string_view bound, double number);

  std::string model_label_;
  std::string text_;
  const Metric* current_ = nullptr;
  std::bitset<256> written_;  ///< a bit for each metric of the table
};

}  // namespace met::telemetry
