#include <algorithm>
#include <array>

#include "api/fields.h"
#include "api/lower.h"
#include "api/responses.h"
#include "core/concat.h"

namespace met::api {
namespace {

using V = json::Value;

constexpr std::string_view kOwn[] = {
    "model",
    "input",
    "previous_response_id",
    "conversation",
    "instructions",
    "store",
    "background",
    "truncation",
    "max_output_tokens",
    "max_tool_calls",
    "include",
    "metadata",
    "reasoning",
    "text",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "top_logprobs",
    "stream_options",
    "prompt",
    "context_management",
    "service_tier",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "background_options",
    "image",
    "access_programs",
    "moderation",
};
constexpr Renamed kNames[] = {{"max_completion_tokens", "max_output_tokens"},
                              {"reasoning_effort", "reasoning"},
                              {"response_format", "text"},
                              {"verbosity", "text"},
                              {"messages", "input"}};
constexpr std::string_view kIncludes[] = {
    "message.output_text.logprobs",          "reasoning.encrypted_content",
    "message.input_image.image_url",         "file_search_call.results",
    "computer_call_output.output.image_url", "code_interpreter_call.outputs",
    "web_search_call.action.sources",        "web_search_call.results",
};

std::unexpected<Error> wrong(std::string_view name, std::string_view wanted, const V& got) {
  return invalid(std::string(name), concat(name, " must be ", wanted, ", got ", shown(got)));
}

Result<bool> bool_or(const V& body, std::string_view name, bool otherwise) {
  const V* v = given(body, name);
  if (v == nullptr) return otherwise;
  return read_bool(name, *v);
}

Result<std::optional<std::string>> text_of(const V& body, std::string_view name) {
  const V* v = given(body, name);
  if (v == nullptr) return std::optional<std::string>();
  if (!v->is_string()) return wrong(name, "a string", *v);
  return std::optional<std::string>(v->as_string());
}

/// The member of an object field; nullptr when either is absent. Errors: the field is no object.
Result<const V*> member(const V& body, std::string_view field, std::string_view name) {
  const V* v = given(body, field);
  if (v == nullptr) return nullptr;
  if (!v->is_object()) return wrong(field, "an object", *v);
  return given(*v, name);
}

Result<void> read_input(const V& body, ResponseRequest& r) {
  const V* input = given(body, "input");
  if (input == nullptr) return invalid("input", "input is missing");
  if (input->is_string()) {
    r.input.push_back(user_item(input->as_string()));
    return {};
  }
  if (!input->is_array()) return wrong("input", "a string or an array of items", *input);
  MET_ASSIGN(r.input, read_items(*input, "input", /*references=*/true));
  return {};
}

Result<void> read_state(const V& body, ResponseRequest& r) {
  MET_ASSIGN(r.previous_response_id, text_of(body, "previous_response_id"));
  MET_ASSIGN(r.instructions, text_of(body, "instructions"));
  MET_ASSIGN(r.store, bool_or(body, "store", true));
  MET_ASSIGN(r.background, bool_or(body, "background", false));
  if (const V* conversation = given(body, "conversation")) {
    const V* id = conversation->is_object() ? given(*conversation, "id") : conversation;
    if (id == nullptr || !id->is_string())
      return wrong("conversation", "an id or an object with one", *conversation);
    r.conversation_id = id->as_string();
  }
  if (r.conversation_id && r.previous_response_id)
    return invalid("previous_response_id", "previous_response_id and conversation cannot both be given");
  if (r.background && !r.store)
    return invalid("background", "background needs store to be true: the answer is fetched later");
  MET_ASSIGN(const std::optional<std::string> truncation, text_of(body, "truncation"));
  if (truncation && *truncation != "auto" && *truncation != "disabled")
    return wrong("truncation", "auto or disabled", V(*truncation));
  r.truncates = truncation == "auto";
  for (const char* name : {"prompt", "context_management", "moderation", "access_programs"}) {
    const V* v = given(body, name);
    if (v != nullptr && *v != V(json::Array{}) && *v != V(json::Object{}))
      return unsupported(name, concat(name, " is not supported"));
  }
  return {};
}

/// What OpenAI runs itself: a model that is never told of them answers without.
constexpr std::string_view kHosted[] = {
    "web_search",  "web_search_2025_08_26", "web_search_preview", "web_search_preview_2025_03_11",
    "file_search", "code_interpreter",      "image_generation",   "tool_search",
    "mcp",         "computer_use_preview",  "computer",           "programmatic_tool_calling",
};

/// A function or custom tool of `tools`, named `name` for the model.
Result<void> lower_tool(const V& tool, const std::string& type, const std::string& name, json::Array& out) {
  json::Object definition{{"name", name}};
  for (const char* key : {"description", "parameters", "strict", "format"})
    if (const V* v = given(tool, key)) definition.append(key, *v);
  out.emplace_back(json::Object{{"type", type}, {type, std::move(definition)}});
  return {};
}

/// {"type": "namespace", "name", "tools"}: its functions, each under the namespace's name and its own.
Result<void> lower_namespace(const V& space, const std::string& here, ResponseRequest& r, json::Array& out) {
  MET_ASSIGN(const std::string space_name, need_text(space, "name", "tools", here));
  const V* tools = given(space, "tools");
  if (tools == nullptr || !tools->is_array())
    return invalid("tools", concat(here, ".tools must be an array"));
  for (std::size_t i = 0; i < tools->as_array().size(); ++i) {
    const V& tool = tools->as_array()[i];
    const std::string place = concat(here, ".tools[", i, "]");
    MET_ASSIGN(const std::string type, need_text(tool, "type", "tools", place));
    if (type != "function" && type != "custom")
      return unsupported("tools",
                         concat(place, " has the type ", shown(V(type)), ", which no namespace holds"));
    MET_ASSIGN(const std::string name, need_text(tool, "name", "tools", place));
    const std::string full = grouped_name(space_name, name);
    r.namespaces.insert_or_assign(full, ResponseRequest::Grouped{name, space_name});
    MET_TRY(lower_tool(tool, type, full, out));
  }
  return {};
}

Result<void> lower_tools(const V& body, ResponseRequest& r) {
  const V* tools = given(body, "tools");
  if (tools == nullptr) return {};
  if (!tools->is_array()) return wrong("tools", "an array", *tools);
  json::Array out;
  for (std::size_t i = 0; i < tools->as_array().size(); ++i) {
    const V& tool = tools->as_array()[i];
    const std::string here = concat("tools[", i, "]");
    MET_ASSIGN(const std::string type, need_text(tool, "type", "tools", here));
    if (type == "namespace") {
      MET_TRY(lower_namespace(tool, here, r, out));
    } else if (std::ranges::find(kHosted, type) != std::end(kHosted)) {
      r.ignored.push_back(concat(here, ".", type));
    } else if (type != "function" && type != "custom") {
      return unsupported("tools",
                         concat(here, " has the type ", shown(V(type)), ", which this server does not know"));
    } else {
      MET_ASSIGN(const std::string name, need_text(tool, "name", "tools", here));
      MET_TRY(lower_tool(tool, type, name, out));
    }
  }
  if (!out.empty()) r.chat.append("tools", std::move(out));
  return {};
}

/// The chat's choice of one tool; whether it is a function or custom makes no difference there.
V named_tool(const V& name) {
  return json::Object{{"type", "function"}, {"function", json::Object{{"name", name}}}};
}

Result<void> lower_tool_choice(const V& body, ResponseRequest& r) {
  const V* choice = given(body, "tool_choice");
  if (choice == nullptr) return {};
  const V* type = given(*choice, "type");
  const V* name = given(*choice, "name");
  if (choice->is_string()) {
    r.chat.append("tool_choice", *choice);
  } else if (type != nullptr && (*type == V("function") || *type == V("custom")) && name != nullptr) {
    r.chat.append("tool_choice", named_tool(*name));
  } else if (type != nullptr && *type == V("allowed_tools")) {
    json::Array allowed;
    const V* tools = given(*choice, "tools");
    if (tools == nullptr || !tools->is_array())
      return invalid("tool_choice", "tool_choice.tools must be an array");
    for (const V& tool : tools->as_array()) {
      MET_ASSIGN(const std::string tool_name, need_text(tool, "name", "tool_choice", "tool_choice.tools"));
      allowed.push_back(named_tool(tool_name));
    }
    const V* mode = given(*choice, "mode");
    json::Object inner{{"mode", mode != nullptr ? *mode : V("auto")}, {"tools", std::move(allowed)}};
    r.chat.append("tool_choice",
                  json::Object{{"type", "allowed_tools"}, {"allowed_tools", std::move(inner)}});
  } else {
    return wrong("tool_choice", "none, auto, required, a function or allowed_tools", *choice);
  }
  return {};
}

Result<void> lower_text(const V& body, ResponseRequest& r) {
  MET_ASSIGN(const V* verbosity, member(body, "text", "verbosity"));
  if (verbosity != nullptr) r.chat.append("verbosity", *verbosity);
  MET_ASSIGN(const V* format, member(body, "text", "format"));
  if (format == nullptr) return {};
  MET_ASSIGN(const std::string type, need_text(*format, "type", "text", "text.format"));
  if (type == "text") return {};
  if (type != "json_schema" && type != "json_object")
    return invalid("text",
                   concat("text.format.type must be text, json_schema or json_object, got ", shown(V(type))));
  if (type == "json_object") {
    r.chat.append("response_format", *format);
    return {};
  }
  MET_TRY(need_text(*format, "name", "text", "text.format"));
  json::Object inner;
  for (const char* key : {"name", "description", "schema", "strict"})
    if (const V* v = given(*format, key)) inner.append(key, *v);
  r.chat.append("response_format", json::Object{{"type", type}, {"json_schema", std::move(inner)}});
  return {};
}

/// What else the answer is to have.
struct Includes {
  bool logprobs = false;
  bool sealed_reasoning = false;
};

Result<Includes> read_includes(const V& body) {
  Includes out;
  const V* include = given(body, "include");
  if (include == nullptr) return out;
  MET_ASSIGN(const std::vector<std::string> names, read_texts("include", *include));
  for (const std::string& name : names)
    if (std::ranges::find(kIncludes, name) == std::end(kIncludes))
      return invalid("include",
                     concat("include has ", shown(V(name)), ", which is nothing that can be included"));
  out.logprobs = std::ranges::find(names, kIncludes[0]) != names.end();
  out.sealed_reasoning = std::ranges::find(names, kIncludes[1]) != names.end();
  return out;
}

Result<void> lower_answer(const V& body, ResponseRequest& r) {
  if (const V* most = given(body, "max_output_tokens")) r.chat.append("max_completion_tokens", *most);
  MET_ASSIGN(const Includes includes, read_includes(body));
  r.seals_reasoning = includes.sealed_reasoning;
  const V* top = given(body, "top_logprobs");
  if (top != nullptr)
    MET_TRY(
        read_integer({.name = "top_logprobs", .slot = Field::Known::kInteger, .min = 0, .max = 20}, *top));
  if (includes.logprobs) {
    r.chat.append("logprobs", true);
    if (top != nullptr) r.chat.append("top_logprobs", *top);
  }
  MET_ASSIGN(const V* effort, member(body, "reasoning", "effort"));
  if (effort != nullptr) r.chat.append("reasoning_effort", *effort);
  if (const V* parallel = given(body, "parallel_tool_calls")) r.chat.append("parallel_tool_calls", *parallel);
  if (const V* calls = given(body, "max_tool_calls"))
    MET_TRY(read_integer({.name = "max_tool_calls", .slot = Field::Known::kInteger, .min = 1}, *calls));
  MET_ASSIGN(const V* obfuscation, member(body, "stream_options", "include_obfuscation"));
  if (obfuscation != nullptr) MET_TRY(read_bool("stream_options.include_obfuscation", *obfuscation));
  for (const char* name : {"user", "safety_identifier", "prompt_cache_key", "prompt_cache_retention"})
    MET_TRY(text_of(body, name));
  for (const char* name :
       {"prompt_cache_options", "background_options", "image"})  // nothing here depends on them
    if (const V* v = given(body, name); v != nullptr && !v->is_object()) return wrong(name, "an object", *v);
  if (const V* tier = given(body, "service_tier")) r.chat.append("service_tier", *tier);
  return {};
}

V or_null(const V& body, std::string_view name) {
  const V* v = given(body, name);
  return v != nullptr ? *v : V();
}

V or_else(const V& body, std::string_view name, V otherwise) {
  const V* v = given(body, name);
  return v != nullptr ? *v : std::move(otherwise);
}

/// `text` with what is left out filled in.
V text_json(const V& body) {
  const V text = or_else(body, "text", json::Object{});
  json::Object out;
  out.append("format", or_else(text, "format", json::Object{{"type", "text"}}));
  out.append("verbosity", or_else(text, "verbosity", "medium"));
  return out;
}

V reasoning_json(const V& body) {
  const V reasoning = or_else(body, "reasoning", json::Object{});
  return json::Object{{"effort", or_null(reasoning, "effort")}, {"summary", or_null(reasoning, "summary")}};
}

Result<json::Object> echo_of(const V& body, const ResponseRequest& r) {
  json::Object out;
  out.append("background", r.background);
  out.append("instructions", or_null(body, "instructions"));
  out.append("max_output_tokens", or_null(body, "max_output_tokens"));
  out.append("max_tool_calls", or_null(body, "max_tool_calls"));
  out.append("parallel_tool_calls", or_else(body, "parallel_tool_calls", true));
  out.append("previous_response_id", or_null(body, "previous_response_id"));
  out.append("prompt_cache_key", or_null(body, "prompt_cache_key"));
  out.append("reasoning", reasoning_json(body));
  out.append("safety_identifier", or_null(body, "safety_identifier"));
  out.append("service_tier", "default");
  out.append("store", r.store);
  out.append("text", text_json(body));
  out.append("tool_choice", or_else(body, "tool_choice", "auto"));
  out.append("tools", or_else(body, "tools", json::Array{}));
  out.append("top_logprobs", or_else(body, "top_logprobs", 0));
  out.append("truncation", or_else(body, "truncation", "disabled"));
  out.append("user", or_null(body, "user"));
  json::Object metadata;
  if (const V* given_metadata = given(body, "metadata")) {
    MET_ASSIGN(metadata, read_metadata(*given_metadata));
  }
  out.append("metadata", std::move(metadata));
  if (r.conversation_id) out.append("conversation", json::Object{{"id", *r.conversation_id}});
  return out;
}

}  // namespace

Result<ResponseRequest> parse_response(const V& body, const ParseContext& context) {
  if (!body.is_object()) return invalid("", concat("the body must be a JSON object, got ", shown(body)));
  ResponseRequest r;
  r.chat = passed_through(body.as_object(), kOwn, r.ignored);
  MET_ASSIGN(std::string model, read_model(body, context));
  r.chat.append("model", std::move(model));
  MET_TRY(read_input(body, r));
  MET_TRY(read_state(body, r));
  MET_TRY(lower_tools(body, r));
  MET_TRY(lower_tool_choice(body, r));
  MET_TRY(lower_text(body, r));
  MET_TRY(lower_answer(body, r));
  MET_ASSIGN(r.echo, echo_of(body, r));
  return r;
}

Result<GenerationRequest> lower_response(const ResponseRequest& request, std::span<const Item> items,
                                         const ParseContext& context) {
  MET_ASSIGN(json::Array messages, chat_messages(items, "input"));
  if (request.instructions)
    messages.insert(messages.begin(), json::Object{{"role", "system"}, {"content", *request.instructions}});
  json::Object chat = request.chat;
  chat.append("messages", std::move(messages));
  Result<GenerationRequest> out = parse_chat(V(std::move(chat)), context);
  if (!out) return std::unexpected(in_own_terms(std::move(out).error(), kNames));
  name_form_in_own_terms(*out, kNames);
  out->ignored.insert(out->ignored.end(), request.ignored.begin(), request.ignored.end());
  return out;
}

}  // namespace met::api
