#include "tests/telemetry/page_lint.h"

#include <cmath>
#include <cstdlib>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "telemetry/metric_table.h"

namespace met::telemetry::testing {
namespace {

struct Series {
  std::string name;    ///< with a histogram's suffix
  std::string labels;  ///< without le
  std::string bound;
  double number = 0;
};

struct Page {
  std::vector<std::string> faults;
  std::map<std::string, std::string> types;
  std::vector<Series> series;
};

std::string family_of(const std::string& name, const std::map<std::string, std::string>& types) {
  if (types.contains(name)) return name;
  for (const std::string suffix : {"_bucket", "_sum", "_count"}) {
    if (!name.ends_with(suffix)) continue;
    const std::string family = name.substr(0, name.size() - suffix.size());
    if (const auto type = types.find(family); type != types.end() && type->second == "histogram")
      return family;
  }
  return "";
}

Page parse(std::string_view text) {
  static const std::regex comment(R"(# (HELP|TYPE) ([a-zA-Z_:][a-zA-Z0-9_:]*) (.+))");
  static const std::regex sample(
      R"(([a-zA-Z_:][a-zA-Z0-9_:]*)\{((?:[a-zA-Z_]+="(?:[^"\\\n]|\\.)*",?)*)\} (\S+))");
  static const std::regex bound(R"(,?le="([^"]*)\")");
  Page page;
  if (!text.ends_with('\n')) page.faults.push_back("the last line has no end");
  std::istringstream lines{std::string(text)};
  std::set<std::string> helped;
  std::set<std::string> closed;
  std::string current;
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_match(line, match, comment)) {
      if (match[1] == "HELP" && !helped.insert(match[2]).second)
        page.faults.push_back("two HELP lines: " + line);
      if (match[1] == "TYPE" && !page.types.emplace(match[2], match[3]).second)
        page.faults.push_back("two TYPE lines: " + line);
      continue;
    }
    if (!std::regex_match(line, match, sample)) {
      page.faults.push_back("not a line of the format: " + line);
      continue;
    }
    Series series{.name = match[1],
                  .labels = match[2],
                  .bound = "",
                  .number = std::strtod(match[3].str().c_str(), nullptr)};
    std::smatch le;
    if (std::regex_search(series.labels, le, bound)) {
      series.bound = le[1];
      series.labels = le.prefix().str() + le.suffix().str();
    }
    const std::string family = family_of(series.name, page.types);
    if (family.empty() || !helped.contains(family)) page.faults.push_back("no HELP and TYPE before " + line);
    if (family != current) {
      if (closed.contains(family)) page.faults.push_back("series of " + family + " stand apart");
      closed.insert(current);
      current = family;
    }
    if (!series.labels.starts_with("model_name=\"")) page.faults.push_back("no model_name: " + line);
    page.series.push_back(std::move(series));
  }
  return page;
}

void check_table(const Page& page, std::vector<std::string>& faults) {
  for (const auto& [name, type] : page.types) {
    const Metric* metric = find_metric(name);
    if (metric == nullptr || telemetry::name(metric->type) != type)
      faults.push_back(name + " is not in the table");
  }
  std::set<std::string> seen;
  for (const Series& series : page.series) {
    if (!seen.insert(series.name + "{" + series.labels + "|" + series.bound).second)
      faults.push_back("twice: " + series.name + "{" + series.labels + "}");
    if (std::isnan(series.number) ||
        (series.number < 0 && page.types.contains(series.name) && page.types.at(series.name) == "counter"))
      faults.push_back("impossible value of " + series.name);
  }
}

void check_histograms(const Page& page, std::vector<std::string>& faults) {
  std::map<std::string, double> last;
  std::map<std::string, double> bound;
  for (const Series& series : page.series) {
    const std::string key = family_of(series.name, page.types) + "{" + series.labels + "}";
    if (series.name.ends_with("_bucket")) {
      const double le = std::strtod(series.bound.c_str(), nullptr);
      if (last.contains(key) && (series.number < last[key] || le <= bound[key]))
        faults.push_back("buckets of " + key + " are not cumulative");
      last[key] = series.number;
      bound[key] = le;
    } else if (series.name.ends_with("_count") && (!std::isinf(bound[key]) || last[key] != series.number)) {
      faults.push_back("the +Inf bucket of " + key + " is not its count");
    }
  }
}

}  // namespace

std::vector<std::string> lint(std::string_view text, std::string_view before) {
  Page page = parse(text);
  std::vector<std::string> faults = std::move(page.faults);
  check_table(page, faults);
  check_histograms(page, faults);
  if (before.empty()) return faults;
  std::map<std::string, double> old;
  for (const Series& series : parse(before).series)
    old[series.name + series.labels + series.bound] = series.number;
  for (const Series& series : page.series) {
    if (page.types[family_of(series.name, page.types)] == "gauge") continue;
    const auto was = old.find(series.name + series.labels + series.bound);
    if (was != old.end() && series.number < was->second) faults.push_back(series.name + " fell");
  }
  return faults;
}

}  // namespace met::telemetry::testing
