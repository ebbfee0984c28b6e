// OpenAI's Responses.
#include "api/responses.h"

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/this_coro.hpp>
#include <charconv>

#include "core/concat.h"
#include "server/admission.h"
#include "server/background.h"
#include "server/json_answer.h"
#include "server/paging.h"
#include "server/response_record.h"
#include "server/routes.h"

namespace met::server {
namespace {

using api::ApiError;
using api::Item;
using Items = std::vector<Item>;

storage::Key response_key(std::uint64_t tenant, std::string id) {
  return object_key(Kind::kResponse, tenant, std::move(id));
}

ApiError no_response(std::string_view id) { return no_object("response", id, "response_not_found"); }

/// What a request continues, as the store has it.
struct StoredHistory {
  std::vector<std::string> texts;
  storage::ItemNumber tip = 0;
};

Answered<StoredHistory> read_history(storage::ObjectStore& store, const api::ResponseRequest& request,
                                     std::uint64_t tenant) {
  std::optional<storage::Object> object;
  if (request.conversation_id) {
    object = store.get(object_key(Kind::kConversation, tenant, *request.conversation_id));
    if (!object) {
      ApiError error = no_object("conversation", *request.conversation_id, "conversation_not_found");
      error.param = "conversation";
      return std::unexpected(std::move(error));
    }
  } else if (request.previous_response_id) {
    object = store.get(response_key(tenant, *request.previous_response_id));
    if (!object || object->state == storage::State::kOpen) {
      ApiError error({ErrorCode::kInvalidArgument,
                      concat("previous_response_id '", request.previous_response_id->substr(0, 200),
                             object ? "' has not ended yet" : "' names no response that is stored"),
                      "previous_response_id"});
      error.code = object ? "response_not_completed" : "previous_response_not_found";
      return std::unexpected(std::move(error));
    }
  }
  if (!object) return StoredHistory{};
  return StoredHistory{.texts = item_texts(store, 0, object->tip), .tip = object->tip};
}

/// Puts the stored items in the place of the references to them.
Answered<bool> resolve_references(storage::ObjectStore& store, json::Array& items, std::uint64_t tenant) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    const std::string* id = api::reference_of(items[i]);
    if (id == nullptr) continue;
    const storage::ItemNumber number = store.find_item(tenant, *id);
    if (number == 0) {
      ApiError error(
          {ErrorCode::kNotFound,
           concat("input[", i, "] refers to the item '", id->substr(0, 200), "', which is not stored"),
           "input"});
      error.code = "item_not_found";
      return std::unexpected(std::move(error));
    }
    MET_ASSIGN(items[i], json::parse(store.item_body(number)));
  }
  return true;
}

/// A request and what the store has of its history.
struct Continued {
  api::ResponseRequest request;
  StoredHistory history;
};

/// Reads the body, then the history. Nothing when the exchange was answered with an error or the client has left.
awaitable<std::optional<Continued>> read_request(Exchange& http, Services& met) {
  auto parse = [](const json::Value& body, Services& services) -> Answered<api::ResponseRequest> {
    MET_ASSIGN(api::ResponseRequest request, api::parse_response(body, services.parse));
    return request;
  };
  auto request = co_await from_object(http, met, std::move(parse));
  if (!request) co_return std::nullopt;
  Continued out{.request = std::move(*request), .history = {}};
  const bool refers = std::ranges::any_of(
      out.request.input, [](const json::Value& item) { return api::reference_of(item) != nullptr; });
  if (!out.request.conversation_id && !out.request.previous_response_id && !refers) co_return out;
  auto job = [&out, tenant = http.tenant()](storage::ObjectStore& store) -> Answered<StoredHistory> {
    MET_TRY(resolve_references(store, out.request.input, tenant));
    return read_history(store, out.request, tenant);
  };
  auto history = co_await met.stores.run(std::move(job));
  if (!history) {
    co_await http.fail(history.error());
    co_return std::nullopt;
  }
  out.history = std::move(*history);
  co_return out;
}

/// A request with its history, ready to run.
struct Turn {
  api::ResponseRequest request;
  Items input;  // its own items, with ids
  History history;
  Work work;
};

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

Answered<Turn> make_turn(Continued continued, Services& met) {
  Turn turn{.request = std::move(continued.request)};
  turn.history.tip = continued.history.tip;
  MET_ASSIGN(turn.history.items, to_items(continued.history.texts));
  turn.input = named(turn.request.input);
  Items all = turn.history.items;
  all.insert(all.end(), turn.input.begin(), turn.input.end());
  MET_ASSIGN(turn.work, fitted(turn.request, all, met));
  return turn;
}

awaitable<void> run_in_background(Exchange& http, Services& met, Work work,
                                  std::shared_ptr<const ResponseRecord> record,
                                  std::unique_ptr<api::ResponseEncoder> encoder) {
  const bool stream = work.request.stream;
  const auto loop = co_await asio::this_coro::executor;
  auto background = std::make_shared<BackgroundRun>(loop, record, stream);
  api::ResponseEncoder* const view = encoder.get();
  auto run =
      std::make_unique<Run>(met, background->wake(), http.tenant(), std::move(work), std::move(encoder));
  if (const std::optional<ApiError> error = background->begin(std::move(run), view)) {
    co_await http.fail(*error);
    co_return;
  }
  const std::shared_ptr<EventLog> log = background->log();
  json::Value object = background->object();
  auto job = [record, object, events = log ? log->text() : std::string()](storage::ObjectStore& store) {
    return store_queued(store, *record, object, events);
  };
  const Answered<bool> stored = co_await met.stores.run(std::move(job));
  if (!stored) {
    co_await http.fail(stored.error());
    co_return;
  }
  met.background_runs.add(record->key, background);
  asio::co_spawn(loop, serve_background(std::move(background), met), asio::detached);
  if (stream) {
    co_await follow_events(http, met, log, 0);
    co_return;
  }
  JsonResult result = std::move(object);
  co_await answer(http, std::move(result));
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

/// The events that a response has left behind. One that was cut off ends with an event that no client has seen.
awaitable<void> replay(Exchange& http, const std::string& events, bool interrupted, std::size_t skip) {
  if (events.empty()) {
    const ApiError error({ErrorCode::kInvalidArgument,
                          "only a response that was made with background and stream can be streamed again",
                          "stream"});
    co_await http.fail(error);
    co_return;
  }
  std::size_t from = offset_of_event(events, skip);
  if (interrupted) from = std::min(from, events.rfind("event: "));
  http.begin_stream();
  const bool here = co_await http.send(std::string_view(events).substr(from));
  if (here) co_await http.end_stream();
}

/// What a GET asks for.
struct Wanted {
  bool stream = false;
  std::size_t skip = 0;
};

Answered<Wanted> wanted_of(const Head& head) {
  Wanted out;
  for (const auto& [name, value] : query_pairs(head.query)) {
    if (name == "stream") {
      const bool on = value == "true" || value == "1";
      if (!on && value != "false" && value != "0")
        return std::unexpected(ApiError(
            {ErrorCode::kInvalidArgument, concat("stream must be true or false, got ", value), "stream"}));
      out.stream = on && head.method == "GET";
    }
    if (name != "starting_after") continue;
    MET_ASSIGN(out.skip, skipped(value));
  }
  return out;
}

/// Ends it if it runs, and stores that. True: it ran.
awaitable<Answered<bool>> end_background(storage::Key key, Services& met) {
  std::shared_ptr<BackgroundRun> run = met.background_runs.find(key);
  if (!run) co_return false;
  auto ending = run->cancel();
  const auto record = run->record();
  const auto log = run->log();
  run.reset();
  if (!ending) co_return false;
  const std::optional<ApiError> error = co_await keep_background(record, log, std::move(*ending), met);
  if (error) co_return std::unexpected(*error);
  co_return true;
}

}  // namespace

awaitable<void> post_responses(Exchange& http, Services& met) {
  auto continued = co_await read_request(http, met);
  if (!continued) co_return;
  auto task = [&continued, &met] { return make_turn(std::move(*continued), met); };
  auto turn = co_await on_text_pool(http, met, std::move(task));
  if (!turn) co_return;
  tell_of(http, met, turn->work);
  const bool admitted = co_await admit_work(http, met, turn->work);
  if (!admitted) co_return;
  api::AnswerHead head = new_head("resp_", turn->work.request, met);
  const auto record =
      std::make_shared<const ResponseRecord>(ResponseRecord{.key = response_key(http.tenant(), head.id),
                                                            .store = turn->request.store,
                                                            .background = turn->request.background,
                                                            .conversation_id = turn->request.conversation_id,
                                                            .input = std::move(turn->input),
                                                            .history = std::move(turn->history)});
  auto encoder = std::make_unique<api::ResponseEncoder>(std::move(head), turn->request, turn->work.request);
  if (record->background) {
    Work work = std::move(turn->work);
    co_await run_in_background(http, met, std::move(work), record, std::move(encoder));
    co_return;
  }
  const api::ResponseEncoder* const view = encoder.get();
  Run run(met, http.wake(), http.tenant(), std::move(turn->work), std::move(encoder));
  run.at_end([record, view, &met] { return keep_response(record, ending_of(*view), {}, met); });
  co_await serve_run(http, met, run);
}

awaitable<void> get_response(Exchange& http, Services& met) {
  const storage::Key key = response_key(http.tenant(), http.parameters()[0]);
  const Answered<Wanted> wanted = wanted_of(http.head());
  if (auto run = met.background_runs.find(key); run && wanted) {
    const std::shared_ptr<EventLog> log = run->log();
    JsonResult object = run->object();
    run.reset();
    if (wanted->stream && log) {
      co_await follow_events(http, met, log, wanted->skip);
      co_return;
    }
    if (!wanted->stream) {
      co_await answer(http, std::move(object));
      co_return;
    }
  }
  auto job = [&key, &wanted](storage::ObjectStore& store) -> Answered<storage::Object> {
    auto stored = store.get(key);
    if (!stored) return std::unexpected(no_response(key.id));
    if (!wanted) return std::unexpected(wanted.error());
    if (wanted->stream) stored->aside = store.aside(key);
    return std::move(*stored);
  };
  Answered<storage::Object> stored = co_await met.stores.run(std::move(job));
  if (stored && wanted->stream) {
    co_await replay(http, stored->aside, stored->state == storage::State::kInterrupted, wanted->skip);
    co_return;
  }
  Answered<std::string> text;
  if (stored) {
    text = std::move(stored->body);
  } else {
    text = std::unexpected(stored.error());
  }
  co_await answer_text(http, std::move(text));
}

awaitable<void> delete_response(Exchange& http, Services& met) {
  const storage::Key key = response_key(http.tenant(), http.parameters()[0]);
  co_await end_background(key, met);
  auto job = [&key](storage::ObjectStore& store) -> JsonResult {
    if (!store.erase(key)) return std::unexpected(no_response(key.id));
    return json::Object{{"id", key.id}, {"object", "response"}, {"deleted", true}};
  };
  JsonResult result = co_await met.stores.run(std::move(job));
  co_await answer(http, std::move(result));
}

awaitable<void> post_cancel_response(Exchange& http, Services& met) {
  const storage::Key key = response_key(http.tenant(), http.parameters()[0]);
  const Answered<bool> ended = co_await end_background(key, met);
  auto job = [&key, &ended](storage::ObjectStore& store) -> Answered<std::string> {
    if (!ended) return std::unexpected(ended.error());
    const auto stored = store.get(key);
    if (!stored) return std::unexpected(no_response(key.id));
    MET_ASSIGN(const json::Value object, json::parse(stored->body));
    const json::Value* background = object.find("background");
    if (background != nullptr && *background == json::Value(true)) return stored->body;
    ApiError error(
        {ErrorCode::kInvalidArgument, "only a response that was made with background can be cancelled", {}});
    error.code = "response_not_cancellable";
    return std::unexpected(std::move(error));
  };
  auto text = co_await met.stores.run(std::move(job));
  co_await answer_text(http, std::move(text));
}

awaitable<void> get_response_input_items(Exchange& http, Services& met) {
  auto job = [key = response_key(http.tenant(), http.parameters()[0]),
              page = page_request(http.head(), /*descending=*/true)](
                 storage::ObjectStore& store) -> Answered<std::string> {
    const auto stored = store.get(key);
    if (!stored) return std::unexpected(no_response(key.id));
    if (!page) return std::unexpected(page.error());
    return item_page(store, stored->base, stored->own, *page);
  };
  auto text = co_await met.stores.run(std::move(job));
  co_await answer_text(http, std::move(text));
}

awaitable<void> post_response_input_tokens(Exchange& http, Services& met) {
  auto continued = co_await read_request(http, met);
  if (!continued) co_return;
  auto task = [&continued, &met]() -> JsonResult {
    MET_ASSIGN(Items items, to_items(continued->history.texts));
    const Items own = named(continued->request.input);
    items.insert(items.end(), own.begin(), own.end());
    MET_ASSIGN(const api::GenerationRequest generation,
               api::lower_response(continued->request, items, met.parse));
    MET_ASSIGN(const std::vector<api::TokenId> ids, api::prompt_ids(generation, *met.text));
    return json::Object{{"object", "response.input_tokens"}, {"input_tokens", ids.size()}};
  };
  auto result = co_await on_text_pool(http, met, std::move(task));
  if (!result) co_return;
  JsonResult value = std::move(*result);
  co_await answer(http, std::move(value));
}

}  // namespace met::server
