// OpenAI's Responses.
#include "api/responses.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <charconv>

#include "core/concat.h"
#include "server/background.h"
#include "server/json_answer.h"
#include "server/paging.h"
#include "server/routes.h"

namespace met::server {
namespace {

using api::ApiError;
using api::Item;
using Items = std::vector<Item>;

/// A request with its history, ready to run.
struct Turn {
  api::ResponseRequest request;
  Items input;    // its own items, with ids
  Items history;  // what they continue
  Work work;
};

ApiError no_response(std::string_view id) { return no_object("response", id, "response_not_found"); }

/// The items with an id each.
Items named(const json::Array& items) {
  Items out;
  for (const json::Value& item : items) {
    if (item.find("id") != nullptr) {
      out.push_back(std::make_shared<const json::Value>(item));
      continue;
    }
    json::Object with_id{{"id", random_id(api::id_prefix(item))}};
    for (const auto& [name, value] : item.as_object()) with_id.append(name, value);
    out.push_back(std::make_shared<const json::Value>(std::move(with_id)));
  }
  return out;
}

std::expected<Items, ApiError> history_of(const api::ResponseRequest& request, std::uint64_t tenant,
                                          Services& met) {
  if (request.conversation_id) {
    const auto conversation = met.stores.conversations.get(tenant, *request.conversation_id);
    if (!conversation)
      return std::unexpected(no_object("conversation", *request.conversation_id, "conversation_not_found"));
    return conversation->items;
  }
  if (!request.previous_response_id) return Items{};
  const auto previous = met.stores.responses.get(tenant, *request.previous_response_id);
  if (!previous || !previous->object) {
    ApiError error({ErrorCode::kInvalidArgument,
                    concat("previous_response_id '", request.previous_response_id->substr(0, 200),
                           previous ? "' has not ended yet" : "' names no response that is stored"),
                    "previous_response_id"});
    error.code = previous ? "response_not_completed" : "previous_response_not_found";
    return std::unexpected(std::move(error));
  }
  return previous->context;
}

/// Where the items may be cut, so that what is left begins with a user's turn. The last one always stays.
std::vector<std::size_t> cuts(const Items& items) {
  std::vector<std::size_t> out;
  for (std::size_t i = 1; i < items.size(); ++i) {
    const json::Value* role = items[i]->find("role");
    if (role != nullptr && *role == json::Value("user")) out.push_back(i);
  }
  return out;
}

/// Lowers and tokenizes; with truncation "auto" from the earliest item from which the rest fits.
std::expected<Work, ApiError> fitted(const api::ResponseRequest& request, const Items& items, Services& met) {
  const auto from = [&](std::size_t first) -> std::expected<Work, ApiError> {
    MET_ASSIGN(api::GenerationRequest generation,
               api::lower_response(request, std::span(items).subspan(first), met.parse));
    auto work = make_work(std::move(generation), met);
    if (!work && work.error().param == "messages") work.error().param = "input";
    return work;
  };
  auto whole = from(0);
  if (whole || !request.truncates || whole.error().code != "context_length_exceeded") return whole;
  const std::vector<std::size_t> places = cuts(items);
  std::size_t low = 0;
  std::size_t high = places.size();
  std::expected<Work, ApiError> best = std::move(whole);
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    auto work = from(places[middle]);
    if (work) {
      best = std::move(work);
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return best;
}

std::expected<Turn, ApiError> make_turn(const std::string& body, std::uint64_t tenant, Services& met) {
  MET_ASSIGN(const json::Value parsed, json::parse(body));
  Turn turn;
  MET_ASSIGN(turn.request, api::parse_response(parsed, met.parse));
  MET_ASSIGN(turn.history, history_of(turn.request, tenant, met));
  turn.input = named(turn.request.input);
  Items all = turn.history;
  all.insert(all.end(), turn.input.begin(), turn.input.end());
  auto work = fitted(turn.request, all, met);
  if (!work) return std::unexpected(std::move(work).error());
  turn.work = std::move(*work);
  return turn;
}

/// What has to be kept of a turn while it runs.
struct Kept {
  std::uint64_t tenant = 0;
  std::string id;
  bool store = false;
  bool background = false;
  std::optional<std::string> conversation_id;
  Items input;
  Items history;
};

/// Stores an answer that is whole or has failed, and appends a whole one to its conversation.
void keep(const Kept& kept, const api::ResponseEncoder& encoder, const std::string& events, Services& met) {
  const Items output = named(encoder.output());
  const bool whole = encoder.status() == api::ResponseStatus::kCompleted ||
                     encoder.status() == api::ResponseStatus::kIncomplete;
  if (kept.conversation_id && whole)
    met.stores.conversations.update(kept.tenant, *kept.conversation_id, [&](const Conversation& old) {
      Conversation grown = old;
      grown.items.insert(grown.items.end(), kept.input.begin(), kept.input.end());
      grown.items.insert(grown.items.end(), output.begin(), output.end());
      return Stores::sized(std::move(grown));
    });
  if (!kept.store) return;
  StoredResponse stored;
  stored.object = std::make_shared<const json::Value>(encoder.object());
  stored.input = kept.input;
  stored.context = kept.history;
  stored.context.insert(stored.context.end(), kept.input.begin(), kept.input.end());
  stored.context.insert(stored.context.end(), output.begin(), output.end());
  stored.background = kept.background;
  if (!events.empty()) stored.events = std::make_shared<const std::string>(events);
  if (!kept.background) {
    met.stores.responses.put(kept.tenant, kept.id, Stores::sized(std::move(stored)));
  } else {  // unless it was deleted meanwhile
    met.stores.responses.update(kept.tenant, kept.id,
                                [&](const StoredResponse&) { return Stores::sized(std::move(stored)); });
  }
}

awaitable<void> run_in_background(Exchange& http, Services& met, Turn turn, Kept kept,
                                  std::unique_ptr<api::ResponseEncoder> encoder) {
  const bool stream = turn.work.request.stream;
  const auto loop = co_await asio::this_coro::executor;
  auto background = std::make_shared<BackgroundRun>(loop, stream);
  api::ResponseEncoder* const view = encoder.get();
  auto run =
      std::make_unique<Run>(met, background->wake(), http.tenant(), std::move(turn.work), std::move(encoder));
  StoredResponse running{.input = kept.input, .background = true, .run = background};
  auto finish = [kept, &met](const api::ResponseEncoder& answer, const std::string& events) {
    keep(kept, answer, events, met);
  };
  met.stores.responses.put(kept.tenant, kept.id, Stores::sized(std::move(running)));
  const std::optional<ApiError> error = background->begin(std::move(run), view, std::move(finish));
  if (error) {
    met.stores.responses.erase(kept.tenant, kept.id);
    co_await http.fail(*error);
    co_return;
  }
  JsonResult object = background->object();
  const std::shared_ptr<EventLog> log = background->log();
  asio::co_spawn(loop, serve_background(std::move(background)), asio::detached);
  if (stream) {
    co_await follow_events(http, met, log, 0);
    co_return;
  }
  co_await answer(http, std::move(object));
}

/// The number of events that ?starting_after leaves out.
std::expected<std::size_t, ApiError> skipped(const std::string& value) {
  std::size_t number = 0;
  const auto [end, code] = std::from_chars(value.data(), value.data() + value.size(), number);
  if (code != std::errc{} || end != value.data() + value.size())
    return std::unexpected(ApiError(
        {ErrorCode::kInvalidArgument, "starting_after must be the number of an event", "starting_after"}));
  return number + 1;
}

awaitable<void> replay(Exchange& http, Services& met, const StoredResponse& stored, std::size_t skip) {
  std::shared_ptr<EventLog> log;
  if (const auto run = stored.run.lock()) log = run->log();
  if (log) {
    co_await follow_events(http, met, log, skip);
    co_return;
  }
  if (!stored.events) {
    const ApiError error({ErrorCode::kInvalidArgument,
                          "only a response that was made with background and stream can be streamed again",
                          "stream"});
    co_await http.fail(error);
    co_return;
  }
  http.begin_stream();
  const std::string events = stored.events->substr(offset_of_event(*stored.events, skip));
  const bool here = co_await http.send(events);
  if (here) co_await http.end_stream();
}

}  // namespace

awaitable<void> post_responses(Exchange& http, Services& met) {
  auto job = [tenant = http.tenant(), &met](const std::string& body) { return make_turn(body, tenant, met); };
  auto turn = co_await on_text_thread(http, met, std::move(job));
  if (!turn) co_return;
  tell_of(http, met, turn->work);
  api::AnswerHead head = new_head("resp_", turn->work.request, met);
  Kept kept{.tenant = http.tenant(),
            .id = head.id,
            .store = turn->request.store,
            .background = turn->request.background,
            .conversation_id = turn->request.conversation_id,
            .input = std::move(turn->input),
            .history = std::move(turn->history)};
  auto encoder = std::make_unique<api::ResponseEncoder>(std::move(head), turn->request, turn->work.request);
  if (kept.background) {
    Turn whole = std::move(*turn);
    co_await run_in_background(http, met, std::move(whole), std::move(kept), std::move(encoder));
    co_return;
  }
  const api::ResponseEncoder* const view = encoder.get();
  Run run(met, http.wake(), http.tenant(), std::move(turn->work), std::move(encoder));
  run.at_end([&kept, view, &met] { keep(kept, *view, {}, met); });
  co_await serve_run(http, met, run);
}

awaitable<void> get_response(Exchange& http, Services& met) {
  const std::string& id = http.parameters()[0];
  const auto stored = met.stores.responses.get(http.tenant(), id);
  if (!stored) {
    const ApiError error = no_response(id);
    co_await http.fail(error);
    co_return;
  }
  bool stream = false;
  std::size_t skip = 0;
  for (const auto& [name, value] : query_pairs(http.head().query)) {
    if (name == "stream") stream = (value == "true" || value == "1") && http.head().method == "GET";
    if (name != "starting_after") continue;
    const auto number = skipped(value);
    if (!number) {
      co_await http.fail(number.error());
      co_return;
    }
    skip = *number;
  }
  if (stream) {
    co_await replay(http, met, *stored, skip);
    co_return;
  }
  JsonResult object = std::unexpected(no_response(id));
  if (stored->object) object = *stored->object;
  if (const auto run = stored->run.lock()) object = run->object();
  co_await answer(http, std::move(object));
}

awaitable<void> delete_response(Exchange& http, Services& met) {
  const std::string& id = http.parameters()[0];
  const auto stored = met.stores.responses.get(http.tenant(), id);
  JsonResult result = std::unexpected(no_response(id));
  if (stored) {
    if (const auto run = stored->run.lock()) run->cancel();
    met.stores.responses.erase(http.tenant(), id);
    result = json::Object{{"id", id}, {"object", "response"}, {"deleted", true}};
  }
  co_await answer(http, std::move(result));
}

awaitable<void> post_cancel_response(Exchange& http, Services& met) {
  const std::string& id = http.parameters()[0];
  const auto stored = met.stores.responses.get(http.tenant(), id);
  JsonResult result = std::unexpected(no_response(id));
  if (stored && !stored->background) {
    ApiError error(
        {ErrorCode::kInvalidArgument, "only a response that was made with background can be cancelled", {}});
    error.code = "response_not_cancellable";
    result = std::unexpected(std::move(error));
  } else if (stored) {
    const auto run = stored->run.lock();
    if (run) {
      result = run->cancel();
    } else if (stored->object) {
      result = *stored->object;
    }
  }
  co_await answer(http, std::move(result));
}

awaitable<void> get_response_input_items(Exchange& http, Services& met) {
  const std::string& id = http.parameters()[0];
  const auto stored = met.stores.responses.get(http.tenant(), id);
  const auto page = page_request(http.head(), /*descending=*/true);
  JsonResult result = std::unexpected(no_response(id));
  if (stored && !page) {
    result = std::unexpected(page.error());
  } else if (stored) {
    result = page_of(stored->input, *page);
  }
  co_await answer(http, std::move(result));
}

awaitable<void> post_response_input_tokens(Exchange& http, Services& met) {
  auto work = [tenant = http.tenant()](const json::Value& body, Services& services) -> JsonResult {
    MET_ASSIGN(const api::ResponseRequest request, api::parse_response(body, services.parse));
    auto items = history_of(request, tenant, services);
    if (!items) return std::unexpected(std::move(items).error());
    const Items own = named(request.input);
    items->insert(items->end(), own.begin(), own.end());
    MET_ASSIGN(const api::GenerationRequest generation, api::lower_response(request, *items, services.parse));
    MET_ASSIGN(const std::vector<api::TokenId> ids, api::prompt_ids(generation, *services.text));
    return json::Object{{"object", "response.input_tokens"}, {"input_tokens", ids.size()}};
  };
  co_await answer_with(http, met, std::move(work));
}

}  // namespace met::server
