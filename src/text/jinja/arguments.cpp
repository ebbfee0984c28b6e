#include <algorithm>
#include <cmath>

#include "text/jinja/builtins.h"

namespace met::text::jinja {

void bind_arguments(const Arguments& arguments, std::string_view function,
                    std::span<const std::string_view> names, std::size_t required, const Value** out) {
  const std::string quoted = std::string(function) + "()";
  if (arguments.positional.size() > names.size())
    type_error(quoted + " takes " + std::to_string(names.size()) + " positional arguments but " +
               std::to_string(arguments.positional.size()) + " were given");
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) out[i] = &arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) type_error(quoted + " got an unexpected keyword argument '" + name + "'");
    const Value*& slot = out[static_cast<std::size_t>(found - names.begin())];
    if (slot != nullptr) type_error(quoted + " got multiple values for argument '" + name + "'");
    slot = &value;
  }
  for (std::size_t i = 0; i < required; ++i)
    if (out[i] == nullptr)
      type_error(quoted + " missing 1 required positional argument: '" + std::string(names[i]) + "'");
}

Int need_int(const Value& v, std::string_view function) {
  require_defined(v);
  if (!v.is_int())
    type_error(std::string(function) + "(): '" + std::string(type_name(v)) +
               "' object cannot be interpreted as an integer");
  return v.as_int();
}

double need_number(const Value& v, std::string_view function) {
  require_defined(v);
  if (!v.is_number())
    type_error(std::string(function) + "(): must be a real number, not " + std::string(type_name(v)));
  return v.as_float();
}

const Str& need_string(const Value& v, std::string_view function) {
  require_defined(v);
  if (!v.is_string()) type_error(std::string(function) + "(): must be str, not " + std::string(type_name(v)));
  return v.str();
}

}  // namespace met::text::jinja
