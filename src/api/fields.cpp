#include "api/fields.h"

#include <cmath>

#include "core/choices.h"
#include "core/concat.h"

namespace met::api {
namespace {

template <class... Ts>
struct Overloaded : Ts... {
  using Ts::operator()...;
};

std::string range_text(const Field& field) {
  const bool low = std::isfinite(field.min);
  const bool high = std::isfinite(field.max);
  if (low && high && !field.above_min) return concat("from ", field.min, " to ", field.max);
  std::string out;
  if (low) out = concat(field.above_min ? "above " : "at least ", field.min);
  if (high) out += concat(low ? " and at most " : "at most ", field.max);
  return out;
}

Result<void> check_range(const Field& field, double v, const json::Value& value) {
  if (v > field.max || v < field.min || (field.above_min && v == field.min))
    return invalid(std::string(field.name),
                   concat(field.name, " must be ", range_text(field), ", got ", shown(value)));
  return {};
}

std::unexpected<Error> wrong_type(std::string_view name, std::string_view wanted, const json::Value& value) {
  return invalid(std::string(name), concat(name, " must be ", wanted, ", got ", shown(value)));
}

Result<std::string> read_text(const Field& field, const json::Value& value) {
  if (!value.is_string()) return wrong_type(field.name, "a string", value);
  if (!field.choices.empty() && !is_choice(field.choices, value.as_string()))
    return invalid(std::string(field.name),
                   concat(field.name, " must be one of ", field.choices, ", got ", shown(value)));
  return value.as_string();
}

Result<void> check_known(const Field& field, Field::Known kind, const json::Value& value) {
  switch (kind) {
    case Field::Known::kText:
      MET_TRY(read_text(field, value));
      break;
    case Field::Known::kBool:
      MET_TRY(read_bool(field.name, value));
      break;
    case Field::Known::kInteger:
      MET_TRY(read_integer(field, value));
      break;
    case Field::Known::kNumber:
      MET_TRY(read_number(field, value));
      break;
    case Field::Known::kObject:
      if (!value.is_object()) return wrong_type(field.name, "an object", value);
      break;
    case Field::Known::kAny:
      break;
  }
  return {};
}

Result<void> read_field(const Field& field, const json::Value& value, const ParseContext& context,
                        GenerationRequest& r) {
  using R = GenerationRequest;
  return std::visit(
      Overloaded{
          [&](bool& (*slot)(R&)) -> Result<void> {
            MET_ASSIGN(slot(r), read_bool(field.name, value));
            return {};
          },
          [&](std::optional<bool>& (*slot)(R&)) -> Result<void> {
            MET_ASSIGN(slot(r), read_bool(field.name, value));
            return {};
          },
          [&](int& (*slot)(R&)) -> Result<void> {
            MET_ASSIGN(const std::int64_t v, read_integer(field, value));
            slot(r) = static_cast<int>(v);
            return {};
          },
          [&](std::optional<int>& (*slot)(R&)) -> Result<void> {
            MET_ASSIGN(const std::int64_t v, read_integer(field, value));
            slot(r) = static_cast<int>(v);
            return {};
          },
          [&](std::optional<std::int64_t>& (*slot)(R&)) -> Result<void> {
            MET_ASSIGN(slot(r), read_integer(field, value));
            return {};
          },
          [&](double& (*slot)(R&)) -> Result<void> {
            MET_ASSIGN(slot(r), read_number(field, value));
            return {};
          },
          [&](std::optional<double>& (*slot)(R&)) -> Result<void> {
            MET_ASSIGN(slot(r), read_number(field, value));
            return {};
          },
          [&](std::string& (*slot)(R&)) -> Result<void> {
            MET_ASSIGN(slot(r), read_text(field, value));
            return {};
          },
          [&](json::Object& (*slot)(R&)) -> Result<void> {
            if (!value.is_object()) return wrong_type(field.name, "an object", value);
            slot(r) = value.as_object();
            return {};
          },
          [&](std::vector<std::string>& (*slot)(R&)) -> Result<void> {
            MET_ASSIGN(slot(r), read_texts(field.name, value));
            return {};
          },
          [&](Field::Reader reader) -> Result<void> { return reader(field, value, r, context); },
          [&](Field::Known kind) -> Result<void> { return check_known(field, kind, value); },
      },
      field.slot);
}

const Field* find(std::initializer_list<std::span<const Field>> tables, std::string_view name) {
  for (const auto table : tables)
    for (const Field& field : table)
      if (field.name == name) return &field;
  return nullptr;
}

}  // namespace

std::string shown(const json::Value& value) {
  if (value.is_array() || value.is_object())
    return concat(value.is_array() ? "an " : "an ", value.type_name());
  std::string text = json::write(value);
  if (text.size() <= 64) return text;
  return concat("a ", value.type_name(), " of ", text.size(), " bytes");
}

Result<double> read_number(const Field& field, const json::Value& value) {
  if (!value.is_number()) return wrong_type(field.name, "a number", value);
  MET_TRY(check_range(field, value.as_number(), value));
  return value.as_number();
}

Result<std::int64_t> read_integer(const Field& field, const json::Value& value) {
  const bool whole =
      value.is_int() || (value.is_double() && value.as_number() == std::floor(value.as_number()));
  if (!whole) return wrong_type(field.name, "an integer", value);
  MET_TRY(check_range(field, value.as_number(), value));
  if (value.is_int()) return value.as_int();
  if (std::abs(value.as_number()) > 9007199254740992.0)  // 2^53: past it a double is no exact integer
    return invalid(std::string(field.name), concat(field.name, " must fit in 64 bits, got ", shown(value)));
  return static_cast<std::int64_t>(value.as_number());
}

Result<bool> read_bool(std::string_view name, const json::Value& value) {
  if (!value.is_bool()) return wrong_type(name, "true or false", value);
  return value.as_bool();
}

Result<std::vector<std::string>> read_texts(std::string_view name, const json::Value& value) {
  if (!value.is_array()) return wrong_type(name, "an array of strings", value);
  std::vector<std::string> out;
  for (const json::Value& item : value.as_array()) {
    if (!item.is_string()) return wrong_type(name, "an array of strings", item);
    if (item.as_string().empty())
      return invalid(std::string(name), concat(name, " must not hold an empty string"));
    out.push_back(item.as_string());
  }
  return out;
}

Result<void> read_fields(const json::Object& body, std::initializer_list<std::span<const Field>> tables,
                         const ParseContext& context, GenerationRequest& request) {
  for (const auto& [name, value] : body) {
    const Field* field = find(tables, name);
    if (field == nullptr) {
      request.ignored.push_back(name);
    } else if (!value.is_null()) {
      MET_TRY(read_field(*field, value, context, request));
    }
  }
  return {};
}

}  // namespace met::api
