// Where a prompt leaves the prefix cache, and the prompts before it.
#include <chrono>
#include <span>

#include "core/concat.h"
#include "server/json_answer.h"
#include "server/prompt_ids.h"
#include "server/routes.h"

namespace met::server {
namespace {

using api::ApiError;
using api::TokenId;
constexpr auto kProbeMax = std::chrono::seconds(30);
/// Tokens shown on either side of a place.
constexpr std::size_t kShown = 16;

struct Probe {
  std::vector<TokenId> ids;
  std::string salt;
};

std::expected<Probe, ApiError> read_probe(const json::Value& body, const Services& met) {
  MET_TRY(api::read_model(body, met.parse));
  Probe probe;
  MET_ASSIGN(probe.ids, ids_of_body(body, met));
  const json::Value* salt = body.find("cache_salt");
  if (salt == nullptr || salt->is_null()) return probe;
  if (!salt->is_string())
    return std::unexpected(
        ApiError({ErrorCode::kInvalidArgument, concat("cache_salt must be a string, got ", salt->type_name()),
                  "cache_salt"}));
  probe.salt = salt->as_string();
  return probe;
}

/// What the engine says of it; nothing: it did not in time, or the client has left.
awaitable<std::optional<scheduler::Event>> ask_engine(Exchange& http, scheduler::Generation& generation) {
  generation.on_ready(http.wake().notifier());
  const auto deadline = Clock::now() + kProbeMax;
  while (Clock::now() < deadline && !http.gone()) {
    while (auto event = generation.poll())
      if (event->terminal()) co_return event;
    co_await http.wake().wait(deadline);
  }
  co_return std::nullopt;
}

std::string text_of(const Services& met, std::span<const TokenId> ids) {
  return met.text->tokenizer.decode(std::vector<TokenId>(ids.begin(), ids.end()));
}

/// The place behind `at` ids: the number and both sides as text.
json::Object place(const Services& met, std::span<const TokenId> ids, std::int64_t at) {
  const auto i = static_cast<std::size_t>(at);
  const std::size_t before = std::min(i, kShown);
  json::Object out{{"token", at}};
  out.append("text_before", text_of(met, ids.subspan(i - before, before)));
  out.append("text", text_of(met, ids.subspan(i, std::min(kShown, ids.size() - i))));
  return out;
}

std::string_view reason(std::int64_t matched, std::int64_t prompt, std::int64_t block, std::int64_t recent,
                        bool caches) {
  if (!caches) return "the prefix cache is off";
  if (matched + block > prompt) return "every whole block is in the cache";
  if (recent >= matched + block)
    return "the next block was asked for lately and is not in the cache: evicted, of another salt, or not "
           "computed";
  return matched == 0 ? "no prompt in the cache begins like this one"
                      : "no prompt in the cache goes on like this one";
}

json::Value report(const Probe& probe, const scheduler::Event& event, std::uint64_t tenant,
                   const Services& met) {
  const std::int64_t prompt = std::ssize(probe.ids);
  const std::int64_t matched = event.prompt_computed;
  const std::int64_t block = met.settings.block_size;
  const auto nearest = met.recent_prompts.nearest(tenant, probe.ids, kShown);
  json::Object out{{"prompt_tokens", prompt}, {"block_tokens", block}};
  out.append("matched_tokens", matched);
  out.append("cached_tokens", event.cached);
  out.append("reason",
             reason(matched, prompt, block, nearest ? nearest->common : 0, !met.settings.no_prefix_caching));
  const bool whole = matched + block > prompt;
  out.append("leaves_cache", whole ? json::Value() : json::Value(place(met, probe.ids, matched)));
  if (!nearest) {
    out.append("nearest_prompt", nullptr);
    return out;
  }
  json::Object near = place(met, probe.ids, nearest->common);
  near.append("text_there", text_of(met, nearest->goes_on));
  near.append("prompts_ago", nearest->ago);
  out.append("nearest_prompt", std::move(near));
  return out;
}

}  // namespace

awaitable<void> post_prefix_probe(Exchange& http, Services& met) {
  const auto probe = co_await from_object(http, met, read_probe);
  if (!probe) co_return;
  ++met.counters.probes;
  scheduler::Request request;
  request.prompt = probe->ids;
  request.tenant = http.tenant();
  request.cache_salt = probe->salt;
  request.max_tokens = 0;
  request.probe = true;
  auto generation = met.engine.submit(std::move(request));
  if (!generation) {
    const ApiError error(generation.error());
    co_await http.fail(error);
    co_return;
  }
  const auto event = co_await ask_engine(http, **generation);
  if (http.gone()) co_return;
  if (!event || event->kind != scheduler::Event::Kind::kFinished) {
    const ApiError error(event ? event->error
                               : Error{ErrorCode::kUnavailable, "the engine did not answer", ""});
    co_await http.fail(error);
    co_return;
  }
  JsonResult result = report(*probe, *event, http.tenant(), met);
  co_await answer(http, std::move(result));
}

}  // namespace met::server
