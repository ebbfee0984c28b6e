// Routes that generate nothing: models, tokens, numbers.
#include "api/prepare.h"
#include "config/version.h"
#include "core/concat.h"
#include "server/json_answer.h"
#include "server/metrics_page.h"
#include "server/prompt_ids.h"
#include "server/routes.h"
#include "telemetry/prometheus.h"

namespace met::server {
namespace {

using api::ApiError;

/// Anthropic's clients say which version they speak.
bool is_anthropic(const Exchange& http) { return !http.head().header("anthropic-version").empty(); }

json::Value anthropic_model_json(const std::string& name, const Services& met) {
  json::Object out{{"type", "model"}, {"id", name}};
  out.append("display_name", name);
  out.append("created_at", rfc3339(met.text->created));
  out.append("max_input_tokens", met.engine.max_seq_len());
  out.append("max_tokens", met.engine.max_seq_len());
  return out;
}

json::Value model_json(const std::string& name, const Services& met) {
  json::Object out;
  out.append("id", name);
  out.append("object", "model");
  out.append("created", met.text->created);
  out.append("owned_by", "met");
  out.append("max_model_len", met.engine.max_seq_len());
  const api::AnswerHabits& habits = met.text->habits;
  const bool reasons = habits.reasoning != text::ReasoningFormat::kNone && !habits.disable_thinking;
  json::Object capabilities{{"image_input", false}, {"reasoning", reasons}};
  capabilities.append("tools", habits.takes_tools && habits.tools != text::ToolFormat::kNone);
  out.append("capabilities", std::move(capabilities));
  return out;
}

Response json_response(const json::Value& value, int status = 200) {
  return {.status = status, .body = json::write(value)};
}

Result<bool> flag(const json::Value& body, std::string_view name, bool otherwise) {
  const json::Value* v = body.find(name);
  if (v == nullptr || v->is_null()) return otherwise;
  if (!v->is_bool()) return invalid(std::string(name), concat(name, " must be true or false"));
  return v->as_bool();
}

JsonResult tokenize(const json::Value& body, const Services& met) {
  MET_TRY(api::read_model(body, met.parse));
  MET_ASSIGN(const std::vector<api::TokenId> ids, ids_of_body(body, met));
  MET_ASSIGN(const bool texts, flag(body, "return_token_strs", false));
  json::Array tokens;
  json::Array strings;
  for (const api::TokenId id : ids) {
    tokens.emplace_back(id);
    if (texts) strings.emplace_back(met.text->tokenizer.piece(id));
  }
  json::Object out;
  out.append("count", ids.size());
  out.append("max_model_len", met.engine.max_seq_len());
  out.append("tokens", std::move(tokens));
  out.append("token_strs", texts ? json::Value(std::move(strings)) : json::Value());
  return out;
}

JsonResult detokenize(const json::Value& body, const Services& met) {
  MET_TRY(api::read_model(body, met.parse));
  const json::Value* tokens = body.find("tokens");
  if (tokens == nullptr)
    return std::unexpected(ApiError({ErrorCode::kInvalidArgument, "tokens is missing", "tokens"}));
  MET_ASSIGN(const std::vector<api::TokenId> ids, api::read_ids("tokens", *tokens, met.parse.vocabulary));
  const std::string text = met.text->tokenizer.decode(ids);
  json::Object out;
  out.append("prompt", text);
  out.append("content", text);
  return out;
}

}  // namespace

Result<std::vector<api::TokenId>> ids_of_body(const json::Value& body, const Services& met) {
  if (body.find("messages") !=
      nullptr) {  // the prompt of a chat with this body: its tools and template's variables too
    MET_ASSIGN(const api::GenerationRequest request, api::parse_chat(body, met.parse));
    return api::prompt_ids(request, *met.text);
  }
  const json::Value* prompt = body.find("prompt");
  const bool llama_form = prompt == nullptr;  // {"content", "add_special"}: no BOS unless asked for
  if (llama_form) prompt = body.find("content");
  if (prompt == nullptr) return invalid("prompt", "prompt or messages is missing");
  if (!prompt->is_string())
    return invalid("prompt", concat("prompt must be a string, got ", prompt->type_name()));
  MET_ASSIGN(const bool special, flag(body, llama_form ? "add_special" : "add_special_tokens", !llama_form));
  return met.text->tokenizer.encode(prompt->as_string(), {.add_special = special});
}

awaitable<void> get_models(Exchange& http, Services& met) {
  json::Array data;
  const bool anthropic = is_anthropic(http);
  for (const std::string& name : met.text->names)
    data.push_back(anthropic ? anthropic_model_json(name, met) : model_json(name, met));
  json::Object out;
  if (anthropic) {
    out.append("first_id", met.text->names.front());
    out.append("last_id", met.text->names.back());
    out.append("has_more", false);
  } else {
    out.append("object", "list");
  }
  out.append("data", std::move(data));
  Response response = json_response(out);
  co_await http.respond(std::move(response));
}

awaitable<void> get_model(Exchange& http, Services& met) {
  const std::string& wanted = http.parameters()[0];
  for (const std::string& name : met.text->names) {
    if (name != wanted) continue;
    Response response =
        json_response(is_anthropic(http) ? anthropic_model_json(name, met) : model_json(name, met));
    co_await http.respond(std::move(response));
    co_return;
  }
  json::Object body;
  body.append("model", wanted);
  if (is_anthropic(http)) http.set_dialect(api::Dialect::kAnthropic);
  const Result<std::string> missing = api::read_model(body, met.parse);
  const ApiError error(missing.error());
  co_await http.fail(error);
}

awaitable<void> get_version(Exchange& http, Services&) {
  json::Object out;
  out.append("version", config::kVersion);
  Response response = json_response(out);
  co_await http.respond(std::move(response));
}

awaitable<void> get_serve_config(Exchange& http, Services& met) {
  json::Object out;
  out.append("version", config::kVersion);
  out.append("model", met.text->names.front());
  out.append("max_model_len", met.engine.max_seq_len());
  out.append("settings", config::describe_settings(met.settings));
  Response response = json_response(out);
  co_await http.respond(std::move(response));
}

awaitable<void> get_metrics(Exchange& http, Services& met) {
  const auto snapshot = met.engine.snapshot();
  Response response{.body = metrics_page(*snapshot, met),
                    .type = std::string(telemetry::kPrometheusContentType)};
  co_await http.respond(std::move(response));
}

awaitable<void> post_tokenize(Exchange& http, Services& met) { co_await answer_with(http, met, tokenize); }
awaitable<void> post_detokenize(Exchange& http, Services& met) {
  co_await answer_with(http, met, detokenize);
}

}  // namespace met::server
