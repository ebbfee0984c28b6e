#include "config/settings_file.h"
#include "core/concat.h"

#define TOML_EXCEPTIONS 0
#include <toml++/toml.h>

#include <charconv>

namespace met::config {
namespace {

Result<std::string> scalar(const std::string& key, const toml::node& node) {
  if (const auto* v = node.as_string()) return v->get();
  if (const auto* v = node.as_boolean()) return v->get() ? "true" : "false";
  if (const auto* v = node.as_integer()) return std::to_string(v->get());
  if (const auto* v = node.as_floating_point()) {
    char text[40];
    const auto end = std::to_chars(text, text + sizeof text, v->get());
    return std::string(text, end.ptr);
  }
  return invalid(key, concat("line ", node.source().begin.line,
                             ": a value is text, a number, true, false or a list of these"));
}

}  // namespace

Result<std::vector<std::pair<std::string, std::string>>> read_settings_file(const std::string& path) {
  const toml::parse_result parsed = toml::parse_file(path);
  if (!parsed)
    return invalid("--config",
                   concat(path, ": line ", parsed.error().source().begin.line, ", column ",
                          parsed.error().source().begin.column, ": ", parsed.error().description()));
  std::vector<std::pair<std::string, std::string>> out;
  for (const auto& [key, node] : parsed.table()) {
    const std::string name(key.str());
    if (const toml::array* list = node.as_array()) {
      for (const toml::node& item : *list) {
        MET_ASSIGN(std::string value, scalar(name, item));
        out.emplace_back(name, std::move(value));
      }
      continue;
    }
    MET_ASSIGN(std::string value, scalar(name, node));
    out.emplace_back(name, std::move(value));
  }
  return out;
}

}  // namespace met::config
