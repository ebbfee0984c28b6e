#include "telemetry/prometheus.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "core/error.h"

namespace met::telemetry {
namespace {

void append_escaped(std::string& text, std::string_view value) {
  for (const char c : value) {
    if (c == '\n') {
      text += "\\n";
      continue;
    }
    if (c == '\\' || c == '"') text += '\\';
    text += c;
  }
}

/// Shortest form that reads back as the same number.
void append_number(std::string& text, double number) {
  if (std::isnan(number)) return void(text += "NaN");
  if (std::isinf(number)) return void(text += number > 0 ? "+Inf" : "-Inf");
  char buffer[64];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, number).ptr;
  text.append(buffer, end);
}

}  // namespace

PrometheusPage::PrometheusPage(std::string_view model_name) {
  model_label_ = "model_name=\"";
  append_escaped(model_label_, model_name);
  model_label_ += '"';
}

void PrometheusPage::begin(std::string_view name, bool histogram, std::initializer_list<Label> labels) {
  const Metric* metric = find_metric(name);
  MET_CHECK(metric != nullptr && (metric->type == MetricType::kHistogram) == histogram,
            "the metric table has no such metric of this kind: " + std::string(name));
  const auto wanted =
      std::ranges::count_if(metric->labels, [](std::string_view label) { return !label.empty(); });
  MET_CHECK(std::ssize(labels) == wanted, "labels of " + std::string(name));
  std::size_t at = 0;
  for (const Label& label : labels)
    MET_CHECK(label.name == metric->labels[at++],
              "label " + std::string(label.name) + " of " + std::string(name));
  if (metric == current_) return;
  const auto bit = static_cast<std::size_t>(metric - metrics().data());
  MET_CHECK(!written_.test(bit), "a second block of " + std::string(name));
  written_.set(bit);
  current_ = metric;
  text_.append("# HELP ").append(name).append(" ").append(metric->help);
  text_.append("\n# TYPE ").append(name).append(" ").append(telemetry::name(metric->type)).append("\n");
}

void PrometheusPage::series(std::string_view name, std::string_view suffix,
                            std::initializer_list<Label> labels, std::string_view bound, double number) {
  text_.append(name).append(suffix).append("{").append(model_label_);
  for (const Label& label : labels) {
    text_.append(",").append(label.name).append("=\"");
    append_escaped(text_, label.value);
    text_ += '"';
  }
  if (!bound.empty()) text_.append(",le=\"").append(bound).append("\"");
  text_ += "} ";
  append_number(text_, number);
  text_ += '\n';
}

void PrometheusPage::value(std::string_view name, double number, std::initializer_list<Label> labels) {
  begin(name, false, labels);
  series(name, "", labels, "", number);
}

void PrometheusPage::histogram(std::string_view name, const Histogram& histogram,
                               std::initializer_list<Label> labels) {
  begin(name, true, labels);
  std::int64_t below = 0;
  std::string bound;
  for (std::size_t i = 0; i < histogram.bounds.size(); ++i) {
    below += histogram.counts[i];
    bound.clear();
    append_number(bound, histogram.bounds[i]);
    series(name, "_bucket", labels, bound, static_cast<double>(below));
  }
  series(name, "_bucket", labels, "+Inf", static_cast<double>(histogram.count));
  series(name, "_sum", labels, "", histogram.sum);
  series(name, "_count", labels, "", static_cast<double>(histogram.count));
}

}  // namespace met::telemetry
