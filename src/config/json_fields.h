// Typed members of a JSON object, with ranges; null counts as absent.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace met::config {

/// Bounds of sizes in a model's configuration: above every published model, and low enough for int arithmetic
/// on single sizes and int64 arithmetic on products of three.
inline constexpr std::int64_t kHiddenMax = 1 << 20;
inline constexpr std::int64_t kLayersMax = 1024;
inline constexpr std::int64_t kHeadsMax = 4096;
inline constexpr std::int64_t kHeadDimMax = 8192;
inline constexpr std::int64_t kFfnMax = 1 << 22;
inline constexpr std::int64_t kExpertsMax = 4096;
inline constexpr std::int64_t kVocabularyMax = 1 << 26;
inline constexpr std::int64_t kPositionsMax = 1 << 30;

/// Error unless lowest <= value <= highest; `field` is named with both bounds.
Result<int> checked_size(const std::string& field, std::int64_t value, std::int64_t lowest,
                         std::int64_t highest);

/// Members of `object`; names in errors begin with `prefix`. A value that is no object has no members.
class Fields {
 public:
  explicit Fields(const json::Value& object, std::string prefix = {})
      : object_(&object), prefix_(std::move(prefix)) {}

  /// The member, or nullptr when absent or null.
  const json::Value* find(std::string_view key) const;
  bool contains(std::string_view key) const { return object_->find(key) != nullptr; }
  std::string field(std::string_view key) const { return prefix_ + std::string(key); }

  /// Absent: `fallback`, or an error where there is none.
  Result<int> size(std::string_view key, std::optional<int> fallback, std::int64_t lowest,
                   std::int64_t highest) const;
  /// Finite; otherwise an error.
  Result<double> number(std::string_view key, std::optional<double> fallback) const;
  Result<double> positive(std::string_view key, std::optional<double> fallback) const;
  Result<bool> flag(std::string_view key, bool fallback) const;
  Result<std::string> text(std::string_view key, std::string_view fallback) const;
  Result<Fields> object(std::string_view key) const;

  std::unexpected<Error> wrong_type(std::string_view key, std::string_view wanted) const;

 private:
  const json::Value* object_;
  std::string prefix_;
};

/// Token ids of `key`: one integer, an array of them, or absent. Negative ids mean "none" and are left out.
Result<std::vector<std::int32_t>> token_ids(const Fields& fields, std::string_view key);

}  // namespace met::config
