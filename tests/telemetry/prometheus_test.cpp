// The writer of the metrics page and its lint (O1).
#include "telemetry/prometheus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/telemetry/page_lint.h"

namespace met::telemetry {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::lint;

TEST(PrometheusPage, WritesEachKind) {
  PrometheusPage page("a \"model\"\\with\nall");
  page.value("vllm:num_requests_running", 3);
  page.value("met_wait_reasons", 1, {{"reason", "capacity"}});
  page.value("met_wait_reasons", 0, {{"reason", "rows"}});
  constexpr std::array<double, 3> kBounds = {0.5, 1, 2.5};
  Histogram histogram{kBounds};
  for (const double value : {0.1, 0.5, 0.6, 2.0, 9.0}) histogram.observe(value);
  page.histogram("met_tick_host_seconds", histogram);
  const std::string text = page.take();
  const std::string model = R"(model_name="a \"model\"\\with\nall")";
  EXPECT_EQ(text,
            "# HELP vllm:num_requests_running Sequences with a device row.\n"
            "# TYPE vllm:num_requests_running gauge\n"
            "vllm:num_requests_running{" +
                model +
                "} 3\n"
                "# HELP met_wait_reasons Sequences that the last step did not advance.\n"
                "# TYPE met_wait_reasons gauge\n"
                "met_wait_reasons{" +
                model +
                ",reason=\"capacity\"} 1\n"
                "met_wait_reasons{" +
                model +
                ",reason=\"rows\"} 0\n"
                "# HELP met_tick_host_seconds Host work of a tick, without waiting for the device.\n"
                "# TYPE met_tick_host_seconds histogram\n"
                "met_tick_host_seconds_bucket{" +
                model +
                ",le=\"0.5\"} 2\n"
                "met_tick_host_seconds_bucket{" +
                model +
                ",le=\"1\"} 3\n"
                "met_tick_host_seconds_bucket{" +
                model +
                ",le=\"2.5\"} 4\n"
                "met_tick_host_seconds_bucket{" +
                model +
                ",le=\"+Inf\"} 5\n"
                "met_tick_host_seconds_sum{" +
                model +
                "} 12.2\n"
                "met_tick_host_seconds_count{" +
                model + "} 5\n");
  EXPECT_THAT(lint(text), IsEmpty());
}

TEST(PrometheusPage, HoldsEveryMetricOfTheTable) {
  PrometheusPage page("m");
  for (const Metric& metric : metrics()) {
    if (metric.type == MetricType::kHistogram) {
      if (metric.labels[0].empty())
        page.histogram(metric.name, Histogram(kSecondBounds));
      else
        page.histogram(metric.name, Histogram(kSecondBounds), {{metric.labels[0], "x"}});
    } else if (!metric.labels[1].empty()) {
      page.value(metric.name, 1, {{metric.labels[0], "x"}, {metric.labels[1], "y"}});
    } else if (!metric.labels[0].empty()) {
      page.value(metric.name, 1, {{metric.labels[0], "x"}});
    } else {
      page.value(metric.name, 1e9);
    }
  }
  EXPECT_THAT(lint(page.take()), IsEmpty());
}

TEST(PrometheusPageDeath, AnUnknownNameOrLabelIsADefect) {
  PrometheusPage page("m");
  EXPECT_DEATH(page.value("met_unknown", 1), "no such metric");
  EXPECT_DEATH(page.value("met_wait_reasons", 1), "labels of");
  EXPECT_DEATH(page.value("met_wait_reasons", 1, {{"user", "x"}}), "label user");
  EXPECT_DEATH(page.value("met_tick_host_seconds", 1), "no such metric of this kind");
}

TEST(PageLint, FindsEachFault) {
  const std::string head = "# HELP met_steps_total Steps done.\n# TYPE met_steps_total counter\n";
  const std::string good = head + "met_steps_total{model_name=\"m\"} 5\n";
  EXPECT_THAT(lint(good), IsEmpty());
  EXPECT_THAT(lint("met_steps_total{model_name=\"m\"} 5\n"), Contains(HasSubstr("no HELP and TYPE")));
  EXPECT_THAT(lint(head + "met_steps_total{} 5\n"), Contains(HasSubstr("no model_name")));
  EXPECT_THAT(lint(head + "met_steps_total{model_name=\"m\"}5\n"), Contains(HasSubstr("not a line")));
  EXPECT_THAT(lint(good + "met_steps_total{model_name=\"m\"} 6\n"), Contains(HasSubstr("twice")));
  EXPECT_THAT(lint(head + "met_steps_total{model_name=\"m\"} 4\n", good), Contains(HasSubstr("fell")));
  EXPECT_THAT(lint("# HELP x y\n# TYPE x gauge\nx{model_name=\"m\"} 1\n"),
              Contains(HasSubstr("not in the table")));
  const std::string histogram = "# HELP met_tick_host_seconds h\n# TYPE met_tick_host_seconds histogram\n";
  EXPECT_THAT(lint(histogram + "met_tick_host_seconds_bucket{model_name=\"m\",le=\"1\"} 3\n"
                               "met_tick_host_seconds_bucket{model_name=\"m\",le=\"+Inf\"} 2\n"
                               "met_tick_host_seconds_count{model_name=\"m\"} 3\n"),
              ::testing::AllOf(Contains(HasSubstr("not cumulative")), Contains(HasSubstr("not its count"))));
}

}  // namespace
}  // namespace met::telemetry
