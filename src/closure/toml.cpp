#include "closure/toml.h"

#define TOML_HEADER_ONLY 1
#include <toml++/toml.h>

namespace met::closure {
namespace {

Result<json::Value> convert(const toml::node& node, const std::string& name) {
  if (const auto* table = node.as_table()) {
    json::Object out;
    for (const auto& [key, value] : *table) {
      MET_ASSIGN(json::Value v, convert(value, name));
      out.append(std::string(key.str()), std::move(v));
    }
    return json::Value(std::move(out));
  }
  if (const auto* array = node.as_array()) {
    json::Array out;
    for (const auto& value : *array) {
      MET_ASSIGN(json::Value v, convert(value, name));
      out.push_back(std::move(v));
    }
    return json::Value(std::move(out));
  }
  if (const auto* v = node.as_string()) return json::Value(v->get());
  if (const auto* v = node.as_integer()) return json::Value(static_cast<long long>(v->get()));
  if (const auto* v = node.as_floating_point()) return json::Value(v->get());
  if (const auto* v = node.as_boolean()) return json::Value(v->get());
  return invalid(name,
                 "line " + std::to_string(node.source().begin.line) + ": dates and times have no use here");
}

}  // namespace

Result<json::Value> parse_toml(std::string_view text, const std::string& name) {
  try {
    return convert(toml::parse(text), name);
  } catch (const toml::parse_error& e) {
    return invalid(name, "line " + std::to_string(e.source().begin.line) + ", column " +
                             std::to_string(e.source().begin.column) + ": " + std::string(e.description()));
  }
}

}  // namespace met::closure
