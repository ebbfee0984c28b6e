#include "api/tool_fields.h"

#include <algorithm>

#include "api/custom_tools.h"
#include "core/concat.h"

namespace met::api {
namespace {

using V = json::Value;
using R = GenerationRequest;
constexpr std::size_t kToolsMax = 1024;
constexpr std::size_t kNameBytesMax = 128;
constexpr int kSchemaDepthMax = 64;

bool is_tool_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.' || c == ':';
  };
  return !name.empty() && name.size() <= kNameBytesMax && std::ranges::all_of(name, allowed);
}

const V* resolve(std::string_view reference, const V& root) {
  const V* at = &root;
  while (!reference.empty() && at != nullptr) {
    if (reference.front() != '/') return nullptr;
    reference.remove_prefix(1);
    const std::size_t end = std::min(reference.find('/'), reference.size());
    at = at->find(reference.substr(0, end));
    reference.remove_prefix(end);
  }
  return at;
}

/// What is plainly wrong with a schema, or "".
std::string schema_fault(const V& schema, const V& root, int depth) {
  constexpr std::string_view kTypes[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
  if (depth > kSchemaDepthMax) return "is nested too deeply";
  if (schema.is_bool()) return "";
  if (!schema.is_object()) return concat("must be a JSON Schema, got ", shown(schema));
  const auto known = [&](const V& type) {
    return type.is_string() && std::ranges::find(kTypes, type.as_string()) != std::end(kTypes);
  };
  if (const V* type = schema.find("type"); type != nullptr) {
    const bool fits = type->is_array() ? std::ranges::all_of(type->as_array(), known) : known(*type);
    if (!fits) return concat("has the type ", json::write(*type), ", which JSON Schema does not know");
  }
  if (const V* reference = schema.find("$ref"); reference != nullptr) {
    const bool local = reference->is_string() && reference->as_string().starts_with('#');
    if (local && resolve(std::string_view(reference->as_string()).substr(1), root) == nullptr)
      return concat("refers to ", shown(*reference), ", which is not there");
  }
  for (const std::string_view key : {"properties", "$defs", "definitions", "patternProperties"}) {
    const V* members = schema.find(key);
    if (members == nullptr) continue;
    if (!members->is_object()) return concat(".", key, " must be an object");
    for (const auto& [name, value] : members->as_object())
      if (std::string fault = schema_fault(value, root, depth + 1); !fault.empty())
        return concat(fault.starts_with('.') ? concat(".", key, ".", name) : concat(".", key, ".", name, " "),
                      fault);
  }
  for (const std::string_view key : {"anyOf", "oneOf", "allOf", "prefixItems"}) {
    const V* members = schema.find(key);
    if (members == nullptr || !members->is_array()) continue;
    for (const V& value : members->as_array())
      if (std::string fault = schema_fault(value, root, depth + 1); !fault.empty())
        return concat(".", key, fault.starts_with('.') ? "" : " ", fault);
  }
  for (const std::string_view key : {"items", "additionalProperties"})
    if (const V* value = schema.find(key); value != nullptr && !value->is_array())
      if (std::string fault = schema_fault(*value, root, depth + 1); !fault.empty())
        return concat(".", key, fault.starts_with('.') ? "" : " ", fault);
  return "";
}

/// `definition` is the function's object; `place` names it in a message.
Result<text::Tool> read_function(std::string_view field, const V& definition, const std::string& place) {
  const auto bad = [&](std::string_view what) { return invalid(std::string(field), concat(place, what)); };
  if (!definition.is_object()) return bad(concat(" must be an object, got ", shown(definition)));
  text::Tool tool;
  const V* name = definition.find("name");
  if (name == nullptr || !name->is_string()) return bad(".name must be a string");
  tool.name = name->as_string();
  if (const V* about = definition.find("description");
      about != nullptr && !about->is_string() && !about->is_null())
    return bad(concat(".description must be a string, got ", shown(*about)));
  if (const V* strict = definition.find("strict"); strict != nullptr && !strict->is_null()) {
    if (!strict->is_bool()) return bad(concat(".strict must be true or false, got ", shown(*strict)));
    tool.strict = strict->as_bool();
  }
  if (const V* parameters = definition.find("parameters"); parameters != nullptr && !parameters->is_null()) {
    if (!parameters->is_object())
      return bad(concat(".parameters must be an object, got ", shown(*parameters)));
    if (const std::string fault = schema_fault(*parameters, *parameters, 0); !fault.empty())
      return bad(concat(".parameters", fault.starts_with('.') ? "" : " ", fault));
    tool.parameters = *parameters;
  }
  tool.definition = json::Object{{"type", "function"}, {"function", definition}};
  return tool;
}

Result<void> add_tool(std::string_view field, const std::string& place, text::Tool tool, R& request) {
  const auto same = [&](const text::Tool& other) { return other.name == tool.name; };
  if (!is_tool_name(tool.name))
    return invalid(std::string(field),
                   concat(place, ".name must be 1 to ", kNameBytesMax,
                          " letters, digits, '_', '-', '.' or ':', got ", shown(V(tool.name))));
  if (std::ranges::any_of(request.tools, same))
    return invalid(std::string(field), concat(field, " holds two functions named ", shown(V(tool.name))));
  request.tools.push_back(std::move(tool));
  return {};
}

/// The name in {"type": "function", "function": {"name"}}, the same of "custom", or in the flat form {"type", "name"}.
Result<std::string> named_function(const V& choice) {
  const V* type = choice.find("type");
  if (type == nullptr || (*type != V("function") && *type != V("custom")))
    return invalid("tool_choice", concat("tool_choice must name a function, got ", json::write(choice)));
  const V* function = choice.find(type->as_string());
  const V* name = function != nullptr ? function->find("name") : choice.find("name");
  if (name == nullptr || !name->is_string() || name->as_string().empty())
    return invalid("tool_choice", "tool_choice needs function.name, the name of one of the tools");
  return name->as_string();
}

Result<void> read_allowed_tools(const V& choice, R& request) {
  const V* inner = choice.find("allowed_tools");
  const V& allowed = inner != nullptr ? *inner : choice;
  const V* mode = allowed.find("mode");
  const V* tools = allowed.find("tools");
  const bool known = mode != nullptr && mode->is_string() &&
                     (mode->as_string() == "auto" || mode->as_string() == "required");
  if (!known) return invalid("tool_choice", "tool_choice.allowed_tools.mode must be auto or required");
  if (tools == nullptr || !tools->is_array() || tools->as_array().empty())
    return invalid("tool_choice",
                   "tool_choice.allowed_tools.tools must be a list of functions, at least one");
  request.tool_choice.mode =
      mode->as_string() == "auto" ? ToolChoice::Mode::kAuto : ToolChoice::Mode::kRequired;
  for (const V& tool : tools->as_array()) {
    MET_ASSIGN(std::string name, named_function(tool));
    request.tool_choice.only.push_back(std::move(name));
  }
  return {};
}

}  // namespace

Result<void> read_tools(const Field& f, const V& value, R& request, const ParseContext&) {
  if (!value.is_array()) return invalid("tools", concat("tools must be an array, got ", shown(value)));
  if (value.as_array().size() > kToolsMax)
    return invalid("tools", concat("tools must hold at most ", kToolsMax, ", got ", value.as_array().size()));
  for (std::size_t i = 0; i < value.as_array().size(); ++i) {
    const V& tool = value.as_array()[i];
    const V* type = tool.find("type");
    if (type == nullptr || !type->is_string())
      return invalid("tools", concat("tools[", i, "] must be an object with a type"));
    const std::string& kind = type->as_string();
    if (kind != "function" && kind != "custom")
      return unsupported("tools", concat("tools[", i, "] has the type ", shown(*type),
                                         ", only \"function\" and \"custom\" are known"));
    const V* definition = tool.find(kind);
    if (definition == nullptr) return invalid("tools", concat("tools[", i, "] has no ", kind));
    const std::string place = concat("tools[", i, "].", kind);
    MET_ASSIGN(text::Tool read, kind == "custom" ? read_custom_tool(f.name, *definition, place)
                                                 : read_function(f.name, *definition, place));
    MET_TRY(add_tool(f.name, place, std::move(read), request));
  }
  return {};
}

Result<void> read_tool_choice(const Field&, const V& value, R& request, const ParseContext&) {
  using Mode = ToolChoice::Mode;
  ToolChoice& choice = request.tool_choice;
  if (value.is_string()) {
    const std::string& word = value.as_string();
    if (word != "none" && word != "auto" && word != "required")
      return invalid("tool_choice",
                     concat("tool_choice must be none, auto, required or a function, got ", shown(value)));
    choice.mode = word == "none" ? Mode::kNone : word == "auto" ? Mode::kAuto : Mode::kRequired;
    return {};
  }
  if (!value.is_object())
    return invalid("tool_choice", concat("tool_choice must be a string or an object, got ", shown(value)));
  if (const V* type = value.find("type"); type != nullptr && *type == V("allowed_tools"))
    return read_allowed_tools(value, request);
  MET_ASSIGN(std::string name, named_function(value));
  choice.mode = Mode::kRequired;
  choice.named = true;
  choice.only = {std::move(name)};
  return {};
}

Result<void> read_functions(const Field& f, const V& value, R& request, const ParseContext&) {
  if (!value.is_array())
    return invalid("functions", concat("functions must be an array, got ", shown(value)));
  if (value.as_array().size() > kToolsMax)
    return invalid("functions",
                   concat("functions must hold at most ", kToolsMax, ", got ", value.as_array().size()));
  for (std::size_t i = 0; i < value.as_array().size(); ++i) {
    const std::string place = concat("functions[", i, "]");
    MET_ASSIGN(text::Tool read, read_function(f.name, value.as_array()[i], place));
    MET_TRY(add_tool(f.name, place, std::move(read), request));
  }
  return {};
}

Result<void> read_function_call(const Field& f, const V& value, R& request, const ParseContext& context) {
  if (value.is_string()) return read_tool_choice(f, value, request, context);
  const V* name = value.find("name");
  if (name == nullptr || !name->is_string())
    return invalid("function_call", "function_call must be none, auto or {\"name\": …}");
  request.tool_choice.mode = ToolChoice::Mode::kRequired;
  request.tool_choice.named = true;
  request.tool_choice.only = {name->as_string()};
  return {};
}

Result<void> read_thinking(const Field&, const V& value, R& request, const ParseContext&) {
  if (value.is_bool()) {
    request.thinking.enabled = value.as_bool();
    return {};
  }
  const V* type = value.find("type");
  if (type == nullptr || !type->is_string())
    return invalid("thinking", "thinking must be true, false or an object with a type");
  const std::string& word = type->as_string();
  if (word != "enabled" && word != "disabled" && word != "adaptive")
    return invalid("thinking",
                   concat("thinking.type must be enabled, disabled or adaptive, got ", shown(*type)));
  if (word != "adaptive") request.thinking.enabled = word == "enabled";
  const V* budget = value.find("budget_tokens");
  if (budget == nullptr || budget->is_null()) return {};
  if (!budget->is_int() || budget->as_int() < 0)
    return invalid("thinking",
                   concat("thinking.budget_tokens must be an integer of at least 0, got ", shown(*budget)));
  request.thinking.budget_tokens = budget->as_int();
  return {};
}

Result<void> check_tool_choice(const R& request) {
  const ToolChoice& choice = request.tool_choice;
  if (request.tools.empty() && (choice.mode == ToolChoice::Mode::kRequired || !choice.only.empty()))
    return invalid("tool_choice", "tool_choice asks for a call, but there are no tools");
  for (const std::string& name : choice.only) {
    const auto same = [&](const text::Tool& tool) { return tool.name == name; };
    if (std::ranges::none_of(request.tools, same))
      return invalid("tool_choice",
                     concat("tool_choice names ", shown(V(name)), ", which is none of the tools"));
  }
  return {};
}

}  // namespace met::api
