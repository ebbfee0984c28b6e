// The JSON types that a schema allows for a member of an object: what tells a number from a text that looks like one where
// a notation writes strings without quotes.
#pragma once

#include <optional>
#include <string_view>

#include "core/json.h"

namespace met {

/// A set of JSON types. Empty: the schema does not say.
class JsonTypes {
 public:
  enum Type : unsigned {
    kNull = 1,
    kBoolean = 2,
    kInteger = 4,
    kNumber = 8,  ///< integers among them: never without kInteger
    kString = 16,
    kArray = 32,
    kObject = 64,
  };
  JsonTypes() = default;
  JsonTypes(unsigned types) : types_(types) {}
  bool has(unsigned type) const { return (types_ & type) != 0; }
  bool empty() const { return types_ == 0; }
  /// Text stays a string, whatever it looks like.
  bool is_text() const { return empty() || has(kString); }
  JsonTypes operator|(JsonTypes other) const { return types_ | other.types_; }
  JsonTypes operator&(JsonTypes other) const { return types_ & other.types_; }

 private:
  unsigned types_ = 0;
};

/// Of a member of the objects that fit `schema`, whichever branch of it that is; `name` is absent: of one that is not
/// declared. Follows local references, `anyOf`, `oneOf`, `allOf`, `type`, `enum`, `const`, `additionalProperties` and
/// words of one type alone; what stands together narrows.
JsonTypes member_types(const json::Value& schema, std::optional<std::string_view> name);

}  // namespace met
