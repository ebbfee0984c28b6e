// A function that a model may call.
#pragma once

#include <string>

#include "core/json.h"

namespace met::text {

struct Tool {
  std::string name;
  json::Value parameters;  ///< JSON Schema of the arguments' object; null: any object
  json::Value definition;  ///< {"type": "function", "function": {…}}, as chat templates see it
  bool strict = false;     ///< the arguments must fit the schema whatever the tool choice
  bool custom = false;     ///< clients give and get the text of its one parameter, not the arguments
};

}  // namespace met::text
