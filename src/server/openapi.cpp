// /openapi.json, from the table of routes.
#include "config/version.h"
#include "server/json_answer.h"
#include "server/routes.h"

namespace met::server {
namespace {

/// Names of the open segments of a path.
json::Array parameters_of(std::string_view path) {
  json::Array out;
  for (std::size_t at = 0; (at = path.find('{', at)) != std::string_view::npos; ++at) {
    std::string_view name = path.substr(at + 1, path.find('}', at) - at - 1);
    if (name.ends_with('*')) name.remove_suffix(1);
    json::Object parameter{{"name", name}, {"in", "path"}, {"required", true}};
    parameter.append("schema", json::Object{{"type", "string"}});
    out.emplace_back(std::move(parameter));
  }
  return out;
}

/// The path without the mark of a segment that takes slashes.
std::string path_key(std::string_view path) {
  std::string out(path);
  std::erase(out, '*');
  return out;
}

json::Object json_content(json::Object schema) {
  return {{"application/json", json::Object{{"schema", std::move(schema)}}}};
}

json::Object operation_of(const Route& route) {
  json::Object out{{"summary", route.summary}};
  json::Array parameters = parameters_of(route.path);
  if (!parameters.empty()) out.append("parameters", std::move(parameters));
  if (route.method == "POST")
    out.append("requestBody", json::Object{{"content", json_content({{"type", "object"}})}});
  const bool anthropic = route.dialect == api::Dialect::kAnthropic;
  const std::string error = std::string("#/components/schemas/") + (anthropic ? "AnthropicError" : "Error");
  json::Object responses{{"200", json::Object{{"description", route.summary}}}};
  responses.append("default",
                   json::Object{{"description", "an error"}, {"content", json_content({{"$ref", error}})}});
  out.append("responses", std::move(responses));
  if (!route.open)
    out.append("security",
               json::Array{json::Object{{"bearer", json::Array{}}}, json::Object{{"key", json::Array{}}}});
  return out;
}

json::Object operations_of(const Route& route) {
  if (route.method == "*")
    return {{"get", operation_of(route)}, {"post", operation_of(route)}, {"delete", operation_of(route)}};
  std::string method(route.method);
  for (char& c : method) c = static_cast<char>(c + ('a' - 'A'));
  return {{std::move(method), operation_of(route)}};
}

json::Object object_schema(json::Object properties) {
  return {{"type", "object"}, {"properties", std::move(properties)}};
}

json::Object components() {
  const json::Object text{{"type", "string"}};
  const json::Object text_or_null{{"type", json::Array{"string", "null"}}};
  json::Object fields{{"message", text}, {"type", text}, {"param", text_or_null}, {"code", text_or_null}};
  json::Object schemas{{"Error", object_schema({{"error", object_schema(std::move(fields))}})}};
  json::Object inner{{"type", text}, {"message", text}};
  schemas.append("AnthropicError", object_schema({{"type", text},
                                                  {"error", object_schema(std::move(inner))},
                                                  {"request_id", text_or_null}}));
  json::Object security{{"bearer", json::Object{{"type", "http"}, {"scheme", "bearer"}}}};
  security.append("key", json::Object{{"type", "apiKey"}, {"in", "header"}, {"name", "x-api-key"}});
  return {{"schemas", std::move(schemas)}, {"securitySchemes", std::move(security)}};
}

}  // namespace

awaitable<void> get_openapi(Exchange& http, Services& met) {
  json::Object paths;
  for (const Route& route : routes()) {
    if (route.page && met.settings.no_ui) continue;
    const std::string key = path_key(route.path);
    json::Value* have = paths.find(key);
    if (have == nullptr) have = &paths.append(key, json::Object{});
    for (auto& [method, operation] : operations_of(route))
      have->as_object().set(method, std::move(operation));
  }
  json::Object out{{"openapi", "3.1.0"}};
  out.append("info", json::Object{{"title", "met"}, {"version", config::kVersion}});
  out.append("paths", std::move(paths));
  out.append("components", components());
  JsonResult result = json::Value(std::move(out));
  co_await answer(http, std::move(result));
}

}  // namespace met::server
