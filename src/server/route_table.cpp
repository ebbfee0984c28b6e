// Every route, once: dispatch, Allow, CORS and /openapi.json read this table.
#include "core/concat.h"
#include "server/routes.h"

namespace met::server {
namespace {

awaitable<void> refuse_with(Exchange& http, std::string message) {
  api::ApiError error;
  error.status = 501;
  error.type = api::error_type(501);
  error.message = std::move(message);
  error.code = "not_supported";
  co_await http.fail(error);
}

std::string path_of(const Exchange& http) { return http.head().path.substr(0, 200); }

awaitable<void> refuse(Exchange& http, Services&) {
  co_await refuse_with(http,
                       concat(http.head().method, " ", path_of(http), " is not supported by this server"));
}

awaitable<void> refuse_pooling(Exchange& http, Services&) {
  co_await refuse_with(
      http,
      concat(path_of(http), " is not supported: the served model generates text and has no pooling head"));
}

awaitable<void> refuse_adapters(Exchange& http, Services&) {
  co_await refuse_with(http, "LoRA adapters are not supported by this server");
}

awaitable<void> refuse_compaction(Exchange& http, Services&) {
  co_await refuse_with(
      http,
      "/v1/responses/compact is not supported: truncation \"auto\" drops the oldest turns that do not "
      "fit, and --auto-compact shortens long conversations");
}

constexpr bool kOpen = true;
constexpr auto kAnthropic = api::Dialect::kAnthropic;

constexpr bool kPage = true;
constexpr auto kOpenAi = api::Dialect::kOpenAi;

constexpr Route kRoutes[] = {
    {"GET", "/", get_page, "the web page", kOpen, kOpenAi, kPage},
    {"GET", "/ui/{file}", get_page_file, "its files", kOpen, kOpenAi, kPage},
    // OpenAI
    {"POST", "/v1/chat/completions", post_chat_completions, "an answer to messages"},
    {"GET", "/v1/chat/completions", get_stored_completions, "the stored chat completions"},
    {"GET", "/v1/chat/completions/{completion_id}", get_stored_completion, "a stored chat completion"},
    {"POST", "/v1/chat/completions/{completion_id}", post_stored_completion, "changes its metadata"},
    {"DELETE", "/v1/chat/completions/{completion_id}", delete_stored_completion, "deletes it"},
    {"GET", "/v1/chat/completions/{completion_id}/messages", get_stored_messages,
     "the messages that it answered"},
    {"POST", "/v1/completions", post_completions, "a continuation of a prompt"},
    {"GET", "/v1/models", get_models, "the served models"},
    {"GET", "/v1/models/{model*}", get_model, "one served model"},
    {"POST", "/v1/responses", post_responses, "an answer to items"},
    {"POST", "/v1/responses/input_tokens", post_response_input_tokens, "tokens of its prompt"},
    {"POST", "/v1/responses/compact", refuse_compaction, "not supported"},
    {"GET", "/v1/responses/{response_id}", get_response, "a stored response"},
    {"DELETE", "/v1/responses/{response_id}", delete_response, "deletes it"},
    {"POST", "/v1/responses/{response_id}/cancel", post_cancel_response,
     "ends it while it runs in the background"},
    {"GET", "/v1/responses/{response_id}/input_items", get_response_input_items,
     "the items that it answered"},
    {"POST", "/v1/conversations", post_conversations, "a new conversation"},
    {"GET", "/v1/conversations/{conversation_id}", get_conversation, "a conversation"},
    {"POST", "/v1/conversations/{conversation_id}", post_conversation, "changes its metadata"},
    {"DELETE", "/v1/conversations/{conversation_id}", delete_conversation, "deletes it"},
    {"GET", "/v1/conversations/{conversation_id}/items", get_conversation_items, "its items"},
    {"POST", "/v1/conversations/{conversation_id}/items", post_conversation_items, "adds items"},
    {"GET", "/v1/conversations/{conversation_id}/items/{item_id}", get_conversation_item, "one of its items"},
    {"DELETE", "/v1/conversations/{conversation_id}/items/{item_id}", delete_conversation_item, "deletes it"},
    // Anthropic
    {"POST", "/v1/messages", post_messages, "an answer to messages", !kOpen, kAnthropic},
    {"POST", "/v1/messages/count_tokens", post_count_tokens, "tokens of a prompt", !kOpen, kAnthropic},
    // tokens
    {"POST", "/tokenize", post_tokenize, "token ids of a text or of messages"},
    {"POST", "/detokenize", post_detokenize, "the text of token ids"},
    {"POST", "/debug/prefix", post_prefix_probe, "where a prompt leaves the prefix cache"},
    // probes and numbers
    {"GET", "/health", get_health, "ready to serve", kOpen},
    {"GET", "/health/live", get_alive, "the process runs", kOpen},
    {"GET", "/health_generate", get_health_generate, "makes one token", kOpen},
    {"GET", "/ping", get_health, "ready to serve", kOpen},
    {"GET", "/version", get_version, "the server's version", kOpen},
    {"GET", "/metrics", get_metrics, "metrics in Prometheus' text format", kOpen},
    {"GET", "/openapi.json", get_openapi, "this table", kOpen},
    {"GET", "/serve-config", get_serve_config, "every setting and its origin"},
    {"GET", "/memory", get_memory, "the memory plan and what is in use"},
    {"GET", "/forward", get_forward, "what a step is made of"},
    {"GET", "/hardware", get_hardware, "the device and the host"},
    {"GET", "/v1/events", get_events, "changes of status and load, as server-sent events"},
    // Parts of the public APIs that are not served: a refusal in the client's own error shape, not a missing page.
    {"POST", "/v1/embeddings", refuse_pooling, "not supported"},
    {"POST", "/v1/rerank", refuse_pooling, "not supported"},
    {"POST", "/v1/score", refuse_pooling, "not supported"},
    {"POST", "/rerank", refuse_pooling, "not supported"},
    {"POST", "/v2/rerank", refuse_pooling, "not supported"},
    {"POST", "/score", refuse_pooling, "not supported"},
    {"POST", "/pooling", refuse_pooling, "not supported"},
    {"POST", "/classify", refuse_pooling, "not supported"},
    {"POST", "/v1/load_lora_adapter", refuse_adapters, "not supported"},
    {"POST", "/v1/unload_lora_adapter", refuse_adapters, "not supported"},
    {"POST", "/v1/lora/{action*}", refuse_adapters, "not supported"},
    {"GET", "/v1/lora/{action*}", refuse_adapters, "not supported"},
    {"*", "/v1/messages/batches", refuse, "not supported", !kOpen, kAnthropic},
    {"*", "/v1/messages/batches/{rest*}", refuse, "not supported", !kOpen, kAnthropic},
    {"POST", "/v1/complete", refuse, "not supported", !kOpen, kAnthropic},
    {"POST", "/v1/moderations", refuse, "not supported"},
    {"*", "/v1/assistants", refuse, "not supported"},
    {"*", "/v1/assistants/{rest*}", refuse, "not supported"},
    {"*", "/v1/audio/{rest*}", refuse, "not supported"},
    {"*", "/v1/batches", refuse, "not supported"},
    {"*", "/v1/batches/{rest*}", refuse, "not supported"},
    {"*", "/v1/chatkit/{rest*}", refuse, "not supported"},
    {"*", "/v1/containers", refuse, "not supported"},
    {"*", "/v1/containers/{rest*}", refuse, "not supported"},
    {"*", "/v1/evals", refuse, "not supported"},
    {"*", "/v1/evals/{rest*}", refuse, "not supported"},
    {"*", "/v1/files", refuse, "not supported"},
    {"*", "/v1/files/{rest*}", refuse, "not supported"},
    {"*", "/v1/fine_tuning/{rest*}", refuse, "not supported"},
    {"*", "/v1/images/{rest*}", refuse, "not supported"},
    {"*", "/v1/realtime/{rest*}", refuse, "not supported"},
    {"*", "/v1/skills", refuse, "not supported"},
    {"*", "/v1/skills/{rest*}", refuse, "not supported"},
    {"*", "/v1/threads", refuse, "not supported"},
    {"*", "/v1/threads/{rest*}", refuse, "not supported"},
    {"*", "/v1/uploads", refuse, "not supported"},
    {"*", "/v1/uploads/{rest*}", refuse, "not supported"},
    {"*", "/v1/vector_stores", refuse, "not supported"},
    {"*", "/v1/vector_stores/{rest*}", refuse, "not supported"},
    {"*", "/v1/videos", refuse, "not supported"},
    {"*", "/v1/videos/{rest*}", refuse, "not supported"},
    {"*", "/v1/agents", refuse, "not supported"},
    {"*", "/v1/agents/{rest*}", refuse, "not supported"},
    {"*", "/v1/environments", refuse, "not supported"},
    {"*", "/v1/environments/{rest*}", refuse, "not supported"},
    {"*", "/v1/memory_stores", refuse, "not supported"},
    {"*", "/v1/memory_stores/{rest*}", refuse, "not supported"},
    {"*", "/v1/organization/{rest*}", refuse, "not supported"},
    {"*", "/v1/organizations/{rest*}", refuse, "not supported"},
    {"*", "/v1/sessions", refuse, "not supported"},
    {"*", "/v1/sessions/{rest*}", refuse, "not supported"},
    {"*", "/v1/vaults", refuse, "not supported"},
    {"*", "/v1/vaults/{rest*}", refuse, "not supported"},
};

}  // namespace

std::span<const Route> routes() { return kRoutes; }

}  // namespace met::server
