// Typed server-sent events: the event's name is the data's type.
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "core/json.h"

namespace met::api {

/// "event: T\ndata: {"type":"T"" and then, in further members, what the caller appends; `sse_end` closes it.
inline void sse_begin(std::string_view type, std::string& out) {
  out += "event: ";
  out += type;
  out += "\ndata: {\"type\":\"";
  out += type;
  out += '"';
}
inline void sse_end(std::string& out) { out += "}\n\n"; }

/// `,"name":value` inside an event: an integer, a text or a JSON value.
template <class T>
void sse_member(std::string_view name, const T& value, std::string& out) {
  out += ",\"";
  out += name;
  out += "\":";
  if constexpr (std::is_integral_v<T>) {
    out += std::to_string(value);
  } else if constexpr (std::is_convertible_v<const T&, std::string_view>) {
    json::write_string(value, out);
  } else {
    json::write(value, out);
  }
}

}  // namespace met::api
