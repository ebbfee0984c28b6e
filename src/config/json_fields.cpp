#include "config/json_fields.h"

#include <cmath>
#include <vector>

namespace met::config {

Result<int> checked_size(const std::string& field, std::int64_t value, std::int64_t lowest,
                         std::int64_t highest) {
  if (value >= lowest && value <= highest) return static_cast<int>(value);
  return invalid(field, field + " is " + std::to_string(value) + "; it must be from " +
                            std::to_string(lowest) + " to " + std::to_string(highest));
}

const json::Value* Fields::find(std::string_view key) const {
  const json::Value* const value = object_->find(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

std::unexpected<Error> Fields::wrong_type(std::string_view key, std::string_view wanted) const {
  const json::Value* const value = find(key);
  const std::string name = field(key);
  if (value == nullptr) return invalid(name, name + " is missing");
  return invalid(name, name + " must be " + std::string(wanted) + ", not " + std::string(value->type_name()));
}

Result<int> Fields::size(std::string_view key, std::optional<int> fallback, std::int64_t lowest,
                         std::int64_t highest) const {
  const json::Value* const value = find(key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || !value->is_int()) return wrong_type(key, "an integer");
  return checked_size(field(key), value->as_int(), lowest, highest);
}

Result<double> Fields::number(std::string_view key, std::optional<double> fallback) const {
  const json::Value* const value = find(key);
  if (value == nullptr && fallback) return *fallback;
  if (value == nullptr || !value->is_number()) return wrong_type(key, "a number");
  return value->as_number();
}

Result<double> Fields::positive(std::string_view key, std::optional<double> fallback) const {
  MET_ASSIGN(const double value, number(key, fallback));
  if (value > 0 && std::isfinite(value)) return value;
  return invalid(field(key), field(key) + " must be above 0");
}

Result<bool> Fields::flag(std::string_view key, bool fallback) const {
  const json::Value* const value = find(key);
  if (value == nullptr) return fallback;
  if (!value->is_bool()) return wrong_type(key, "a boolean");
  return value->as_bool();
}

Result<std::string> Fields::text(std::string_view key, std::string_view fallback) const {
  const json::Value* const value = find(key);
  if (value == nullptr) return std::string(fallback);
  if (!value->is_string()) return wrong_type(key, "a string");
  return value->as_string();
}

Result<Fields> Fields::object(std::string_view key) const {
  const json::Value* const value = find(key);
  if (value == nullptr || !value->is_object()) return wrong_type(key, "an object");
  return Fields(*value, field(key) + ".");
}

Result<std::vector<std::int32_t>> token_ids(const Fields& fields, std::string_view key) {
  std::vector<std::int32_t> ids;
  const json::Value* const value = fields.find(key);
  if (value == nullptr) return ids;
  const auto add = [&](const json::Value& id) -> Result<> {
    if (!id.is_int()) return fields.wrong_type(key, "a token id or an array of token ids");
    if (id.as_int() < 0) return {};
    MET_ASSIGN(const int checked, checked_size(fields.field(key), id.as_int(), 0, kVocabularyMax));
    ids.push_back(checked);
    return {};
  };
  if (!value->is_array()) {
    MET_TRY(add(*value));
    return ids;
  }
  for (const json::Value& id : value->as_array()) MET_TRY(add(id));
  return ids;
}

}  // namespace met::config
