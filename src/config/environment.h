// The process's environment: the one place that reads it, and the one table of what is read.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace met::config {

struct EnvironmentVariable {
  std::string_view name;
  std::string_view help;
};
/// Every variable that `met` reads, sorted by name.
std::span<const EnvironmentVariable> environment_table();

/// Values of the table's variables. Immutable; empty values count as absent.
class Environment {
 public:
  /// The process's own, read at the first call.
  static const Environment& process();
  /// Given values, for tests.
  explicit Environment(std::vector<std::pair<std::string, std::string>> values);

  /// Value of a variable of the table; asking for another one is a defect.
  std::optional<std::string> get(std::string_view name) const;
  /// Names of METRALE_* variables that are set and that nothing reads, sorted.
  const std::vector<std::string>& unknown() const { return unknown_; }
  /// As an EnvironmentReader (config/settings.h).
  std::optional<std::string> operator()(std::string_view name) const { return get(name); }

 private:
  std::vector<std::pair<std::string, std::string>> values_;
  std::vector<std::string> unknown_;
};

}  // namespace met::config
