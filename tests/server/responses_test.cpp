// Responses, conversations and stored completions over the fake engine: state, tenants, background runs.
#include <gmock/gmock.h>

#include "tests/api/encoding.h"
#include "tests/server/served.h"

namespace met::testing {
namespace {

constexpr std::string_view kResponses = "/v1/responses";
constexpr std::string_view kConversations = "/v1/conversations";

std::string response_body(const std::string& members = "", const std::string& input = "\"Hi.\"") {
  return R"({"model":"tiny","max_output_tokens":50,"input":)" + input + members + "}";
}

std::string request(std::string_view method, std::string_view path, std::vector<std::string> extra = {}) {
  std::string out = get(path, std::move(extra));
  return std::string(method) + out.substr(out.find(' '));
}

/// Asks and parses; checks the status.
json::Value ask(const Served& met, const std::string& bytes, int status = 200) {
  const Answer answer = met.ask(bytes);
  EXPECT_EQ(answer.status, status) << answer.body;
  return parsed(answer.body);
}

std::string path_of(std::string_view root, const json::Value& object, const char* rest = "") {
  return std::string(root) + "/" + at(object, "id").as_string() + rest;
}

TEST(Responses, IsStoredListedAndDeleted) {
  Served met(saying("Hello."));
  const json::Value made = ask(met, post(kResponses, response_body(R"(,"metadata":{"a":"b"})")));
  EXPECT_EQ(at(made, "object"), json::Value("response"));
  EXPECT_EQ(at(made, "output", 0, "content", 0, "text"), json::Value("Hello."));
  EXPECT_EQ(at(made, "metadata", "a"), json::Value("b"));
  const std::string path = path_of(kResponses, made);
  EXPECT_EQ(ask(met, get(path)), made);
  const json::Value items = ask(met, get(path + "/input_items"));
  ASSERT_EQ(at(items, "data").as_array().size(), 1U);
  EXPECT_EQ(at(items, "data", 0, "content", 0, "text"), json::Value("Hi."));
  EXPECT_EQ(at(items, "first_id"), at(items, "data", 0, "id"));
  ask(met, post(path + "/cancel", "{}"), 400);
  EXPECT_EQ(at(ask(met, request("DELETE", path)), "deleted"), json::Value(true));
  ask(met, get(path), 404);
  const json::Value unstored = ask(met, post(kResponses, response_body(R"(,"store":false)")));
  ask(met, get(path_of(kResponses, unstored)), 404);
}

TEST(Responses, AStreamEndsWithTheStoredObject) {
  Served met(saying("Grüße, 🙂"));
  const auto events = events_of(met.ask(post(kResponses, response_body(R"(,"stream":true)"))).body);
  ASSERT_FALSE(events.empty());
  const json::Value& last = at(events.back(), "response");
  EXPECT_EQ(at(last, "output", 0, "content", 0, "text"), json::Value("Grüße, 🙂"));
  EXPECT_EQ(ask(met, get(path_of(kResponses, last))), last);
}

TEST(Responses, ContinueWhatCameBefore) {
  Served met(saying("Hello."));
  const json::Value first = ask(met, post(kResponses, response_body(R"(,"instructions":"Be brief.")")));
  const std::string previous = R"(,"previous_response_id":)" + json::write(at(first, "id"));
  ask(met, post(kResponses, response_body(previous)));
  const std::string prompt = tiny_text()->tokenizer.decode(met.engine.last_request().prompt);
  EXPECT_NE(prompt.find("user\nHi."), std::string::npos);
  EXPECT_NE(prompt.find("assistant\nHello."), std::string::npos) << prompt;
  EXPECT_EQ(prompt.find("Be brief."), std::string::npos) << "instructions hold for their own response";
  const json::Value error =
      ask(met, post(kResponses, response_body(R"(,"previous_response_id":"resp_x")")), 400);
  EXPECT_EQ(at(error, "error", "code"), json::Value("previous_response_not_found"));
}

TEST(Responses, AReferenceIsTheStoredItem) {
  Served met(saying("Hello."), {"--require-auth", "--auth-token", "a", "--auth-token", "b"});
  const std::vector<std::string> a = {"authorization: Bearer a"};
  const json::Value first = ask(met, post(kResponses, response_body("", R"("What?")"), a));
  const std::string output = json::write(at(first, "output", 0, "id"));
  const std::string input =
      json::write(at(ask(met, get(path_of(kResponses, first, "/input_items"), a)), "data", 0, "id"));
  const std::string items = R"([{"type":"item_reference","id":)" + input + R"(},{"id":)" + output +
                            R"(},{"role":"user","content":"Go on."}])";
  const json::Value second = ask(met, post(kResponses, response_body("", items), a));
  const std::string prompt = tiny_text()->tokenizer.decode(met.engine.last_request().prompt);
  EXPECT_NE(prompt.find("user\nWhat?"), std::string::npos) << prompt;
  EXPECT_NE(prompt.find("assistant\nHello."), std::string::npos) << prompt;
  EXPECT_LT(prompt.find("Hello."), prompt.find("Go on."));
  const json::Value listed = ask(met, get(path_of(kResponses, second, "/input_items?order=asc"), a));
  EXPECT_EQ(at(listed, "data", 1, "content", 0, "text"), json::Value("Hello.")) << "what is kept is the item";
  EXPECT_GT(at(ask(met, post(std::string(kResponses) + "/input_tokens", response_body("", items), a)),
               "input_tokens")
                .as_int(),
            10);
  const json::Value missing =
      ask(met, post(kResponses, response_body("", items), {"authorization: Bearer b"}), 404);
  EXPECT_EQ(at(missing, "error", "param"), json::Value("input"));
  EXPECT_EQ(at(missing, "error", "code"), json::Value("item_not_found"));
  for (const char* bad : {R"([{"type":"item_reference"}])", R"([{"type":"item_reference","id":5}])"})
    EXPECT_EQ(at(ask(met, post(kResponses, response_body("", bad), a), 400), "error", "param"),
              json::Value("input"));
  ask(met, post(kConversations, R"({"items":[{"type":"item_reference","id":"x"}]})", a), 400);
}

TEST(Responses, TruncationAutoDropsOldTurns) {
  FakeOptions options = saying("ok");
  options.max_seq_len = 200;
  Served met(std::move(options));
  const std::string old = R"({"role":"user","content":")" + std::string(60, 'x') + R"("})";
  const std::string input = "[" + old + "," + old + "," + old + R"(,{"role":"user","content":"last"}])";
  const json::Value error = ask(met, post(kResponses, response_body("", input)), 400);
  EXPECT_EQ(at(error, "error", "code"), json::Value("context_length_exceeded"));
  EXPECT_EQ(at(error, "error", "param"), json::Value("input"));
  ask(met, post(kResponses, response_body(R"(,"truncation":"auto")", input)));
  const std::string prompt = tiny_text()->tokenizer.decode(met.engine.last_request().prompt);
  EXPECT_NE(prompt.find("last"), std::string::npos);
  EXPECT_NE(prompt.find("xxx"), std::string::npos) << "no more than needed goes";
}

TEST(Responses, TenantsDoNotSeeEachOther) {
  Served met(saying("x"), {"--require-auth", "--auth-token", "a", "--auth-token", "b"});
  const std::vector<std::string> a = {"authorization: Bearer a"};
  const std::vector<std::string> b = {"authorization: Bearer b"};
  const json::Value response = ask(met, post(kResponses, response_body(), a));
  const json::Value conversation = ask(met, post(kConversations, "{}", a));
  const json::Value chat = ask(met, post("/v1/chat/completions", chat_body(R"(,"store":true)"), a));
  for (const std::string& path : {path_of(kResponses, response), path_of(kConversations, conversation),
                                  path_of("/v1/chat/completions", chat)}) {
    ask(met, get(path, a));
    ask(met, get(path, b), 404);
    ask(met, request("DELETE", path, b), 404);
    ask(met, get(path, a));
  }
  ask(met,
      post(kResponses, response_body(R"(,"previous_response_id":)" + json::write(at(response, "id"))), b),
      400);
  ask(met, post(kResponses, response_body(R"(,"conversation":)" + json::write(at(conversation, "id"))), b),
      404);
  EXPECT_TRUE(at(ask(met, get("/v1/chat/completions", b)), "data").as_array().empty());
}

TEST(Background, RunsWithoutItsClient) {
  FakeOptions options = saying("A longer answer.");
  options.step = std::chrono::milliseconds(5);
  Served met(std::move(options));
  met.engine.hold(true);
  const json::Value made = ask(met, post(kResponses, response_body(R"(,"background":true)")));
  EXPECT_EQ(at(made, "status"), json::Value("queued"));
  const std::string path = path_of(kResponses, made);
  EXPECT_EQ(at(ask(met, get(path)), "status"), json::Value("queued"));
  const json::Value early = ask(
      met, post(kResponses, response_body(R"(,"previous_response_id":)" + json::write(at(made, "id")))), 400);
  EXPECT_EQ(at(early, "error", "code"), json::Value("response_not_completed"));
  met.engine.hold(false);
  EXPECT_TRUE(met.eventually([&] { return at(ask(met, get(path)), "status") == json::Value("completed"); }));
  const json::Value done = ask(met, get(path));
  EXPECT_EQ(at(done, "output", 0, "content", 0, "text"), json::Value("A longer answer."));
  EXPECT_EQ(ask(met, post(path + "/cancel", "{}")), done) << "what has ended stays as it is";
}

TEST(Background, CancelEndsWhatIsQueuedAndWhatRuns) {
  FakeOptions options;  // repeats the prompt until its limit
  options.step = std::chrono::milliseconds(20);
  for (const bool queued : {true, false}) {
    Served met(options);
    met.engine.hold(queued);
    const json::Value made = ask(met, post(kResponses, response_body(R"(,"background":true)")));
    const std::string path = path_of(kResponses, made);
    if (!queued) {
      EXPECT_TRUE(met.eventually([&] { return met.engine.steps() > 2; }));
    }
    EXPECT_EQ(at(ask(met, post(path + "/cancel", "{}")), "status"), json::Value("cancelled"));
    EXPECT_EQ(at(ask(met, get(path)), "status"), json::Value("cancelled"));
    EXPECT_TRUE(met.eventually([&] { return met.engine.running() == 0; }));
    EXPECT_EQ(met.engine.cancelled(), 1);
  }
}

TEST(Background, AStreamIsTakenUpAgain) {
  FakeOptions options = saying("An answer in pieces.");
  options.step = std::chrono::milliseconds(5);
  Served met(std::move(options));
  Client client(met.port());
  client.send(post(kResponses, response_body(R"(,"background":true,"stream":true)")));
  ASSERT_TRUE(client.read_until("response.output_text.delta"));
  const std::string& head = client.buffered();
  const std::size_t id = head.find("\"resp_") + 1;
  const std::string path = std::string(kResponses) + "/" + head.substr(id, head.find('"', id) - id);
  client.reset();
  const auto resumed = events_of(met.ask(get(path + "?stream=true&starting_after=3")).body);
  ASSERT_FALSE(resumed.empty());
  EXPECT_EQ(at(resumed.front(), "sequence_number").as_int(), 4);
  EXPECT_EQ(at(resumed.back(), "type"), json::Value("response.completed"));
  const auto whole = events_of(met.ask(get(path + "?stream=true")).body);
  EXPECT_EQ(at(whole.front(), "sequence_number").as_int(), 0);
  EXPECT_EQ(whole.size(), resumed.size() + 4);
  const Answer unclear = met.ask(get(path + "?stream=yes"));
  EXPECT_EQ(unclear.status, 400);
  EXPECT_EQ(at(parsed(unclear.body), "error", "param"), json::Value("stream"));
  EXPECT_EQ(met.ask(get(path + "?stream=false")).status, 200);
  Client late(met.port());  // one that has seen the last event: no events, and the connection goes on
  late.send(get(path + "?stream=true&starting_after=1000") + get("/health"));
  for (const char* what : {"events", "health"}) {
    const auto answer = late.answer();
    ASSERT_TRUE(answer) << what;
    EXPECT_EQ(answer->status, 200) << what;
  }
  EXPECT_EQ(at(ask(met, get(path)), "status"), json::Value("completed"));
}

TEST(Background, AShutdownEndsIt) {
  FakeOptions options;
  options.step = std::chrono::milliseconds(20);
  Served met(std::move(options), {"--shutdown-timeout", "0.1"});
  ask(met, post(kResponses, response_body(R"(,"background":true)")));
  EXPECT_EQ(met.stop(), 0);
}

TEST(Conversations, ItemsInPages) {
  Served met(saying("Rex."));
  const std::string items =
      R"({"items":[{"role":"user","content":"a"},{"role":"user","content":"b"},{"role":"assistant","content":"c"}]})";
  const json::Value made = ask(met, post(kConversations, items));
  const std::string path = path_of(kConversations, made, "/items");
  const json::Value newest = ask(met, get(path + "?limit=2"));
  EXPECT_EQ(at(newest, "data", 0, "content", 0, "type"), json::Value("output_text"));
  EXPECT_EQ(at(newest, "has_more"), json::Value(true));
  const json::Value rest = ask(met, get(path + "?limit=2&after=" + at(newest, "last_id").as_string()));
  EXPECT_EQ(at(rest, "data", 0, "content", 0, "text"), json::Value("a"));
  EXPECT_EQ(at(rest, "has_more"), json::Value(false));
  ask(met, get(path + "?limit=0"), 400);
  ask(met, get(path + "?order=sideways"), 400);
  ask(met, get(path + "?after=nothing"), 400);
  const std::string item = path + "/" + at(rest, "data", 0, "id").as_string();
  EXPECT_EQ(at(ask(met, get(item)), "content", 0, "text"), json::Value("a"));
  EXPECT_EQ(at(ask(met, request("DELETE", item)), "object"), json::Value("conversation"));
  ask(met, get(item), 404);
}

TEST(Conversations, AResponseReadsAndAddsToThem) {
  Served met(saying("Rex."));
  const json::Value made =
      ask(met, post(kConversations, R"({"items":[{"role":"user","content":"My dog is Rex."}]})"));
  const std::string member = R"(,"conversation":)" + json::write(at(made, "id"));
  const json::Value response = ask(met, post(kResponses, response_body(member)));
  EXPECT_EQ(at(response, "conversation", "id"), at(made, "id"));
  const std::string prompt = tiny_text()->tokenizer.decode(met.engine.last_request().prompt);
  EXPECT_NE(prompt.find("My dog is Rex."), std::string::npos);
  const json::Value items = ask(met, get(path_of(kConversations, made, "/items?order=asc")));
  ASSERT_EQ(at(items, "data").as_array().size(), 3U);
  EXPECT_EQ(at(items, "data", 2, "content", 0, "text"), json::Value("Rex."));
  ask(met, post(kConversations, R"({"metadata":{"a":1}})"), 400);
  ask(met, post("/v1/conversations/conv_x/items", R"({"items":[{"role":"user","content":"x"}]})"), 404);
}

TEST(StoredCompletions, AreListedChangedAndDeleted) {
  Served met(saying("Hello."));
  const std::string chat = "/v1/chat/completions";
  const json::Value plain = ask(met, post(chat, chat_body(R"(,"store":true,"metadata":{"k":"1"})")));
  const auto chunks = chunks_of(met.ask(post(chat, chat_body(R"(,"store":true,"stream":true)"))).body);
  ask(met, post(chat, chat_body()));
  const json::Value all = ask(met, get(chat));
  ASSERT_EQ(at(all, "data").as_array().size(), 2U) << "only what was asked to be stored";
  EXPECT_EQ(at(all, "data", 0, "id"), at(plain, "id"));
  EXPECT_EQ(at(all, "data", 1, "choices", 0, "message", "content"), json::Value("Hello."));
  EXPECT_EQ(at(all, "data", 1, "id"), at(chunks.front(), "id"));
  const std::string path = path_of(chat, plain);
  EXPECT_EQ(at(ask(met, get(path)), "choices"), at(plain, "choices"));
  EXPECT_EQ(at(ask(met, get(path + "/messages")), "data", 0, "content"), json::Value("Hi."));
  EXPECT_EQ(at(ask(met, post(path, R"({"metadata":{"k":"2"}})")), "metadata", "k"), json::Value("2"));
  EXPECT_EQ(at(ask(met, get(chat + "?metadata[k]=2")), "data").as_array().size(), 1U);
  EXPECT_EQ(at(ask(met, get(chat + "?metadata%5Bk%5D=1")), "data").as_array().size(), 0U);
  EXPECT_EQ(at(ask(met, request("DELETE", path)), "deleted"), json::Value(true));
  ask(met, get(path), 404);
}

}  // namespace
}  // namespace met::testing
