// A request's fields as a table: name, where it goes, range. One reader checks them all.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/request.h"
#include "core/error.h"
#include "core/json.h"

namespace met::api {

/// One row. The slot says type and destination at once: a function that gives a reference is written after
/// type and range were checked, a reader checks for itself, `Known` is accepted and has no effect on the
/// text.
struct Field {
  using R = GenerationRequest;
  using Reader = Result<void> (*)(const Field&, const json::Value&, R&, const ParseContext&);
  enum class Known { kText, kBool, kInteger, kNumber, kObject, kAny };
  using Slot = std::variant<bool& (*)(R&), int& (*)(R&), double& (*)(R&), std::string& (*)(R&),
                            json::Object& (*)(R&), std::optional<bool>& (*)(R&), std::optional<int>& (*)(R&),
                            std::optional<std::int64_t>& (*)(R&), std::optional<double>& (*)(R&),
                            std::vector<std::string>& (*)(R&), Reader, Known>;
  std::string_view name;
  Slot slot;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above_min = false;         ///< `min` itself is outside
  std::string_view choices = {};  ///< "a|b|c" for text
};

/// Reads every member of `body` that a row names into `request`; null leaves the default. Other members are
/// added to `request.ignored`. Errors: kInvalidArgument whose field is the member's name.
Result<void> read_fields(const json::Object& body, std::initializer_list<std::span<const Field>> tables,
                         const ParseContext& context, GenerationRequest& request);

/// Building blocks for readers.
Result<double> read_number(const Field& field, const json::Value& value);
Result<std::int64_t> read_integer(const Field& field, const json::Value& value);
Result<bool> read_bool(std::string_view name, const json::Value& value);
Result<std::vector<std::string>> read_texts(std::string_view name, const json::Value& value);

/// Fields of this server's peers that have no effect here, and those whose effect is lacking (foreign_fields.cpp).
std::span<const Field> foreign_fields();

/// A field whose effect this server lacks: false, "", [] and {} pass, anything else is kUnsupported.
Result<void> refuse_field(const Field& field, const json::Value& value, GenerationRequest& request,
                          const ParseContext& context);

/// "a value" for a message: short scalars as they are, else their type.
std::string shown(const json::Value& value);

}  // namespace met::api
