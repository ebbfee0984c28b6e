#include <algorithm>
#include <array>

#include "api/anthropic.h"
#include "api/anthropic_tools.h"
#include "api/context_edits.h"
#include "api/document_block.h"
#include "api/fields.h"
#include "api/lower.h"
#include "core/concat.h"

namespace met::api {
namespace {

using V = json::Value;
constexpr std::int64_t kBudgetMin = 1024;

constexpr std::string_view kOwn[] = {
    "model",           "messages",
    "system",          "max_tokens",
    "stop_sequences",  "tools",
    "tool_choice",     "thinking",
    "metadata",        "service_tier",
    "output_config",   "output_format",
    "mcp_servers",     "container",
    "cache_control",   "diagnostics",
    "inference_geo",   "speed",
    "user_profile_id", "workspace_id",
    "betas",           "context_management",
    "compaction",      "thread",
    "fallbacks",       "fallback_credit_token",
    "billing_policy",
};
/// First where it runs, how fast, on whose account, and hints for the cache: the text is the same. Then what is
/// lacking.
constexpr Field kRest[] = {
    {"cache_control", Field::Known::kObject},
    {"inference_geo", Field::Known::kText},
    {"speed", Field::Known::kText, 0, 0, false, "standard|fast"},
    {"user_profile_id", Field::Known::kText},
    {"workspace_id", Field::Known::kText},
    {"betas",
     [](const Field& f, const V& v, GenerationRequest&, const ParseContext&) -> Result<void> {
       MET_TRY(read_texts(f.name, v));
       return {};
     }},
    {"diagnostics", refuse_field},
    {"mcp_servers", refuse_field},
    {"container", refuse_field},
    {"compaction", refuse_field},
    {"thread", refuse_field},
    {"fallbacks", refuse_field},
    {"fallback_credit_token", refuse_field},
    {"billing_policy", refuse_field},
};
constexpr Renamed kNames[] = {
    {"stop", "stop_sequences"}, {"reasoning_effort", "output_config"}, {"response_format", "output_config"}};

std::unexpected<Error> bad(std::string_view place, std::string_view what) {
  const std::size_t end = place.find_first_of(".[");
  return invalid(std::string(place.substr(0, end)), concat(place, what));
}

/// The texts of blocks that can only be text: of system prompts and of tool results.
Result<json::Array> text_blocks(const V& content, const std::string& place) {
  json::Array out;
  if (content.is_string()) {
    out.push_back(text_part(content.as_string()));
    return out;
  }
  if (!content.is_array())
    return bad(place, concat(" must be a string or an array of blocks, got ", shown(content)));
  for (std::size_t i = 0; i < content.as_array().size(); ++i) {
    const V& block = content.as_array()[i];
    const std::string here = concat(place, "[", i, "]");
    MET_ASSIGN(const std::string type,
               need_text(block, "type", place.substr(0, place.find_first_of(".[")), here));
    const std::string field = place.substr(0, place.find_first_of(".["));
    if (field == "messages" && (type == "document" || type == "search_result")) {
      MET_ASSIGN(std::string text, document_text(block, field, here));
      out.push_back(text_part(std::move(text)));
      continue;
    }
    if (type != "text")
      return bad(here, concat(" has the type \"", type, "\", but this model takes only text"));
    MET_ASSIGN(std::string text, need_text(block, "text", field, here));
    out.push_back(text_part(std::move(text)));
  }
  return out;
}

/// Turns Anthropic's messages into chat messages, one by one.
class Lowering {
 public:
  Result<void> message(const V& message, std::size_t index) {
    place_ = concat("messages[", index, "]");
    if (!message.is_object()) return bad(place_, concat(" must be an object, got ", shown(message)));
    MET_ASSIGN(const std::string role, need_text(message, "role", "messages", place_));
    if (role != "user" && role != "assistant" && role != "system")
      return bad(place_, concat(".role must be user, assistant or system, got ", shown(V(role))));
    const V* content = given(message, "content");
    if (content == nullptr) return bad(place_, ".content is missing");
    place_ += ".content";
    parts_.clear();
    calls_.clear();
    reasoning_.clear();
    if (content->is_string()) {
      parts_.push_back(text_part(content->as_string()));
    } else if (content->is_array()) {
      if (content->as_array().empty() && role != "assistant")
        return bad(place_, " must not be an empty array");
      for (std::size_t i = 0; i < content->as_array().size(); ++i)
        MET_TRY(block(content->as_array()[i], role, i));
    } else {
      return bad(place_, concat(" must be a string or an array of blocks, got ", shown(*content)));
    }
    if (role == "assistant") {
      open_calls_ = ids_of(calls_);
    } else if (role == "user") {
      open_calls_.clear();
    }
    add(role);
    return {};
  }

  /// The last message is the assistant's, to be continued; a call cannot be. False: there is nothing to
  /// continue.
  Result<bool> prefill() {
    V& last = out_.back();
    if (last.find("role")->as_string() != "assistant") return false;
    if (last.find("tool_calls") != nullptr)
      return invalid("messages", "messages ends with a tool_use block: its tool_result must follow");
    const V* content = last.find("content");
    if (content->as_array().empty() ||
        (content->as_array().size() == 1 && content->as_array()[0].find("text")->as_string().empty())) {
      out_.pop_back();
      return false;
    }
    return true;
  }

  json::Array take() {
    for (V& message : out_) {
      V* content = message.as_object().find("content");
      if (content->as_array().empty()) *content = V();  // a turn of calls alone
    }
    return std::move(out_);
  }

 private:
  static std::vector<std::string> ids_of(const json::Array& calls) {
    std::vector<std::string> out;
    for (const V& call : calls) out.push_back(call.find("id")->as_string());
    return out;
  }

  Result<void> block(const V& block, const std::string& role, std::size_t index) {
    const std::string here = concat(place_, "[", index, "]");
    MET_ASSIGN(const std::string type, need_text(block, "type", "messages", here));
    if (type == "text") {
      MET_ASSIGN(std::string text, need_text(block, "text", "messages", here));
      parts_.push_back(text_part(std::move(text)));
      return {};
    }
    if (type == "thinking" && role == "assistant") {
      MET_ASSIGN(const std::string text, need_text(block, "thinking", "messages", here));
      reasoning_ += text;
      return {};
    }
    if (type == "redacted_thinking" && role == "assistant") return {};  // its text is not ours to read
    if (type == "tool_use" && role == "assistant") return tool_use(block, here);
    if (type == "tool_result" && role == "user") return tool_result(block, here);
    if ((type == "document" || type == "search_result") && role == "user") {
      MET_ASSIGN(std::string text, document_text(block, "messages", here));
      parts_.push_back(text_part(std::move(text)));
      return {};
    }
    if (type == "image" || type == "document" || type == "audio" || type == "video" || type == "file" ||
        type == "container_upload")
      return unsupported("messages",
                         concat(here, " has the type \"", type, "\", but this model takes only text"));
    return bad(here,
               concat(".type of a ", role, " message must be text, tool_use, tool_result or thinking, got ",
                      shown(V(type))));
  }

  Result<void> tool_use(const V& block, const std::string& here) {
    MET_ASSIGN(const std::string id, need_text(block, "id", "messages", here));
    MET_ASSIGN(const std::string name, need_text(block, "name", "messages", here));
    const V* input = given(block, "input");
    if (input == nullptr || !input->is_object()) return bad(here, ".input must be an object");
    json::Object function{{"name", name}, {"arguments", json::write(*input)}};
    calls_.emplace_back(json::Object{{"id", id}, {"type", "function"}, {"function", std::move(function)}});
    return {};
  }

  Result<void> tool_result(const V& block, const std::string& here) {
    MET_ASSIGN(const std::string id, need_text(block, "tool_use_id", "messages", here));
    if (std::ranges::find(open_calls_, id) == open_calls_.end())
      return bad(here,
                 concat(".tool_use_id ", shown(V(id)), " names no tool_use block of the message before"));
    json::Array parts;
    if (const V* content = given(block, "content")) {
      MET_ASSIGN(parts, text_blocks(*content, here + ".content"));
    }
    const V* error = given(block, "is_error");
    if (error != nullptr && !error->is_bool()) return bad(here, ".is_error must be true or false");
    if (error != nullptr && error->as_bool()) parts.insert(parts.begin(), text_part("Error:"));
    if (parts.empty()) parts.push_back(text_part(""));
    out_.emplace_back(json::Object{{"role", "tool"}, {"tool_call_id", id}, {"content", std::move(parts)}});
    return {};
  }

  /// Successive messages of one side are one turn.
  void add(const std::string& role) {
    if (parts_.empty() && calls_.empty() && reasoning_.empty() && role != "assistant") return;
    if (!out_.empty() && role != "system") {
      V& last = out_.back();
      if (last.find("role")->as_string() == role && last.find("tool_calls") == nullptr) {
        json::Array& have = last.as_object().find("content")->as_array();
        have.insert(have.end(), parts_.begin(), parts_.end());
        if (!calls_.empty()) last.as_object().append("tool_calls", std::move(calls_));
        return;
      }
    }
    json::Object message{{"role", role}, {"content", std::move(parts_)}};
    if (!reasoning_.empty()) message.append("reasoning_content", std::move(reasoning_));
    if (!calls_.empty()) message.append("tool_calls", std::move(calls_));
    out_.emplace_back(std::move(message));
  }

  json::Array out_;
  std::vector<std::string> open_calls_;  // of the assistant's message before
  // of the message that is being read
  std::string place_;
  json::Array parts_;
  json::Array calls_;
  std::string reasoning_;
};

Result<void> lower_tool_choice(const V& body, json::Object& chat) {
  const V* choice = given(body, "tool_choice");
  if (choice == nullptr) return {};
  if (!choice->is_object())
    return invalid("tool_choice", concat("tool_choice must be an object, got ", shown(*choice)));
  MET_ASSIGN(const std::string type, need_text(*choice, "type", "tool_choice", "tool_choice"));
  if (type == "auto" || type == "none") {
    chat.append("tool_choice", type);
  } else if (type == "any") {
    chat.append("tool_choice", "required");
  } else if (type == "tool") {
    MET_ASSIGN(const std::string name, need_text(*choice, "name", "tool_choice", "tool_choice"));
    chat.append("tool_choice",
                json::Object{{"type", "function"}, {"function", json::Object{{"name", name}}}});
  } else {
    return invalid("tool_choice",
                   concat("tool_choice.type must be auto, any, tool or none, got ", shown(V(type))));
  }
  if (chat.find("tools") == nullptr && (type == "any" || type == "tool"))
    return invalid("tool_choice", "tool_choice needs tools");
  if (const V* single = given(*choice, "disable_parallel_tool_use")) {
    if (!single->is_bool())
      return invalid("tool_choice", "tool_choice.disable_parallel_tool_use must be true or false");
    chat.append("parallel_tool_calls", !single->as_bool());
  }
  return {};
}

Result<Thinking> read_thinking(const V& body) {
  Thinking out;
  const V* thinking = given(body, "thinking");
  if (thinking == nullptr) return out;
  if (!thinking->is_object())
    return invalid("thinking", concat("thinking must be an object, got ", shown(*thinking)));
  MET_ASSIGN(const std::string type, need_text(*thinking, "type", "thinking", "thinking"));
  if (const V* display = given(*thinking, "display")) {
    if (*display != V("summarized") && *display != V("omitted"))
      return invalid("thinking",
                     concat("thinking.display must be summarized or omitted, got ", shown(*display)));
    out.show = *display == V("summarized");
  }
  if (type == "adaptive") return out;
  if (type == "between_tools") return unsupported("thinking", "thinking.type between_tools is not supported");
  if (type != "enabled" && type != "disabled")
    return invalid("thinking",
                   concat("thinking.type must be enabled, disabled or adaptive, got ", shown(V(type))));
  out.enabled = type == "enabled";
  if (!*out.enabled) return out;
  const V* budget = given(*thinking, "budget_tokens");
  if (budget == nullptr || !budget->is_int() || budget->as_int() < kBudgetMin)
    return invalid("thinking", concat("thinking.budget_tokens must be an integer of at least ", kBudgetMin,
                                      budget == nullptr ? "" : ", got " + shown(*budget)));
  const V* most = given(body, "max_tokens");
  if (most != nullptr && most->is_int() && budget->as_int() >= most->as_int())
    return invalid("thinking", concat("thinking.budget_tokens is ", budget->as_int(),
                                      ", but must be below max_tokens, which is ", most->as_int()));
  out.budget_tokens = budget->as_int();
  return out;
}

/// {"type": "json_schema", "schema"} as chat's response_format.
Result<void> lower_format(const V& format, json::Object& chat) {
  MET_ASSIGN(const std::string type, need_text(format, "type", "output_config", "output_config.format"));
  const V* schema = given(format, "schema");
  if (type != "json_schema" || schema == nullptr)
    return invalid("output_config", "output_config.format must have the type json_schema and a schema");
  json::Object inner{{"name", "output"}, {"schema", *schema}, {"strict", true}};
  chat.append("response_format", json::Object{{"type", "json_schema"}, {"json_schema", std::move(inner)}});
  return {};
}

Result<void> lower_output(const V& body, json::Object& chat) {
  const V* config = given(body, "output_config");
  if (config != nullptr && !config->is_object())
    return invalid("output_config", concat("output_config must be an object, got ", shown(*config)));
  const V* format = config != nullptr ? given(*config, "format") : nullptr;
  if (format == nullptr) format = given(body, "output_format");
  if (format != nullptr) MET_TRY(lower_format(*format, chat));
  if (const V* effort = config != nullptr ? given(*config, "effort") : nullptr)
    chat.append("reasoning_effort", *effort == V("max") ? V("xhigh") : *effort);
  return {};
}

Result<void> check_rest(const V& body) {
  if (const V* metadata = given(body, "metadata"); metadata != nullptr && !metadata->is_object())
    return invalid("metadata", concat("metadata must be an object, got ", shown(*metadata)));
  if (const V* tier = given(body, "service_tier");
      tier != nullptr && *tier != V("auto") && *tier != V("standard_only"))
    return invalid("service_tier", concat("service_tier must be auto or standard_only, got ", shown(*tier)));
  json::Object rest;
  for (const Field& field : kRest)
    if (const V* v = given(body, field.name)) rest.append(std::string(field.name), *v);
  GenerationRequest unused;
  return read_fields(rest, {kRest}, {}, unused);
}

Result<void> lower_stops(const V& body, json::Object& chat) {
  const V* stops = given(body, "stop_sequences");
  if (stops == nullptr) return {};
  MET_ASSIGN(std::vector<std::string> texts, read_texts("stop_sequences", *stops));
  if (!texts.empty()) chat.append("stop", json::Array(texts.begin(), texts.end()));
  return {};
}

Result<void> lower_conversation(const V& body, json::Object& chat) {
  json::Array all;
  if (const V* system = given(body, "system")) {
    MET_ASSIGN(json::Array parts, text_blocks(*system, "system"));
    if (!parts.empty()) all.emplace_back(json::Object{{"role", "system"}, {"content", std::move(parts)}});
  }
  const V* messages = given(body, "messages");
  if (messages == nullptr) return invalid("messages", "messages is missing");
  if (!messages->is_array())
    return invalid("messages", concat("messages must be an array, got ", shown(*messages)));
  if (messages->as_array().empty()) return invalid("messages", "messages must not be empty");
  Lowering lowering;
  for (std::size_t i = 0; i < messages->as_array().size(); ++i)
    MET_TRY(lowering.message(messages->as_array()[i], i));
  MET_ASSIGN(const bool open, lowering.prefill());
  json::Array lowered = lowering.take();
  all.insert(all.end(), std::make_move_iterator(lowered.begin()), std::make_move_iterator(lowered.end()));
  if (all.empty()) return invalid("messages", "messages has no content");
  chat.append("messages", std::move(all));
  if (open) chat.append("continue_final_message", true);
  return {};
}

Result<GenerationRequest> parse(const V& body, const ParseContext& context, bool counts) {
  if (!body.is_object()) return invalid("", concat("the body must be a JSON object, got ", shown(body)));
  std::vector<std::string> ignored;
  json::Object chat = passed_through(body.as_object(), kOwn, ignored);
  if (const V* model = given(body, "model")) chat.append("model", *model);
  if (const V* most = given(body, "max_tokens")) {
    chat.append("max_tokens", *most);
  } else if (!counts) {
    return invalid("max_tokens", "max_tokens is missing");
  }
  MET_TRY(lower_conversation(body, chat));
  MET_TRY(lower_stops(body, chat));
  MET_TRY(lower_tools(body, chat));
  MET_TRY(lower_tool_choice(body, chat));
  MET_TRY(lower_output(body, chat));
  if (chat.contains("response_format") && chat.contains("continue_final_message"))
    return invalid(
        "messages",
        "messages ends with the assistant's own words, which output_config.format would not continue");
  MET_TRY(check_rest(body));
  MET_ASSIGN(const Thinking thinking, read_thinking(body));
  Result<GenerationRequest> request = parse_chat(V(std::move(chat)), context);
  if (!request) return std::unexpected(in_own_terms(std::move(request).error(), kNames));
  name_form_in_own_terms(*request, kNames);
  if (thinking.enabled) request->thinking.enabled = thinking.enabled;
  if (thinking.budget_tokens) request->thinking.budget_tokens = thinking.budget_tokens;
  if (!thinking.show) request->thinking.show = false;
  if (const V* edits = given(body, "context_management")) {
    MET_ASSIGN(request->context_edits, read_context_edits(*edits));
  }
  request->detect_refusals = false;  // what the model declines in its own words is text there
  request->ignored.insert(request->ignored.end(), ignored.begin(), ignored.end());
  return request;
}

}  // namespace

Result<GenerationRequest> parse_messages(const V& body, const ParseContext& context) {
  return parse(body, context, /*counts=*/false);
}

Result<GenerationRequest> parse_count_tokens(const V& body, const ParseContext& context) {
  return parse(body, context, /*counts=*/true);
}

}  // namespace met::api
