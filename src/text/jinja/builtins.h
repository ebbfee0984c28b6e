// The filters, tests, methods and global functions that templates may use: a closed list, found by name.
#pragma once

#include <initializer_list>
#include <optional>
#include <span>
#include <string_view>

#include "text/jinja/ast.h"

namespace met::text::jinja {

/// Filters and tests get their subject as the first argument. nullptr: no such name.
Native find_filter(std::string_view name);
Native find_test(std::string_view name);

struct Entry {
  std::string_view name;
  Native native;
};
std::span<const Entry> text_filters();
std::span<const Entry> sequence_filters();
std::span<const Entry> selection_filters();

std::span<const std::string_view> global_names();
/// range, dict, namespace, cycler, joiner, raise_exception, strftime_now.
Value make_global(Interpreter& run, std::string_view name);

/// A method bound to its object, or nullopt when the type has no such attribute. Names that reach into the
/// host or change the object give an undefined value that fails when used.
std::optional<Value> find_method(Interpreter& run, const Value& object, std::string_view name);

/// Arguments by parameter name, nullptr where absent. The first `required` must be there. Type errors for
/// too many, unknown or missing ones.
template <std::size_t N>
struct Bound {
  const Value* values[N] = {};
  const Value& operator[](std::size_t i) const { return *values[i]; }
  bool has(std::size_t i) const { return values[i] != nullptr; }
};
void bind_arguments(const Arguments& arguments, std::string_view function,
                    std::span<const std::string_view> names, std::size_t required, const Value** out);
template <std::size_t N>
Bound<N> bind(const Arguments& arguments, std::string_view function, const std::string_view (&names)[N],
              std::size_t required) {
  Bound<N> bound;
  bind_arguments(arguments, function, names, required, bound.values);
  return bound;
}

/// The value as an integer or string, or a type error that names the function.
Int need_int(const Value& v, std::string_view function);
const Str& need_string(const Value& v, std::string_view function);
double need_number(const Value& v, std::string_view function);

Value to_json(Interpreter& run, Arguments& arguments);

}  // namespace met::text::jinja
