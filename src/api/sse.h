// Typed server-sent events: the event's name is the data's type.
#pragma once

#include <string>
#include <string_view>

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

/// `,"name":value` inside an event.
inline void sse_member(std::string_view name, std::int64_t value, std::string& out) {
  out += ",\"";
  out += name;
  out += "\":";
  out += std::to_string(value);
}
inline void sse_member(std::string_view name, std::string_view value, std::string& out) {
  out += ",\"";
  out += name;
  out += "\":";
  json::write_string(value, out);
}
inline void sse_member(std::string_view name, const json::Value& value, std::string& out) {
  out += ",\"";
  out += name;
  out += "\":";
  json::write(value, out);
}

}  // namespace met::api
