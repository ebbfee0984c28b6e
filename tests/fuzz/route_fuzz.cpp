// Bodies of every route that takes one, through the server: the first byte chooses the route. Each gets a whole
// answer that is not 500; where it is JSON it parses.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/json.h"
#include "tests/fuzz/served_fuzz.h"

namespace {

using met::testing::FuzzedServer;

met::testing::Answer ask(const FuzzedServer& server, std::string_view path, std::string_view body) {
  const auto client = server.connect();
  client->send(met::testing::post(path, body));
  const auto answer = client->answer();
  if (!answer) met::testing::found("no whole answer", client->buffered());
  return *answer;
}

/// An object that later inputs change.
std::string made(const FuzzedServer& server, std::string_view path, std::string_view body) {
  const auto object = met::json::parse(ask(server, path, body).body);
  if (!object || object->find("id") == nullptr) met::testing::found("an object cannot be made", path);
  return std::string(path) + "/" + object->find("id")->as_string();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static FuzzedServer server;
  static const std::string kConversation = made(server, "/v1/conversations", "{}");
  static const std::string kCompletion =
      made(server, "/v1/chat/completions",
           R"({"messages":[{"role":"user","content":"a"}],"max_tokens":1,"store":true})");
  static const std::string kPaths[] = {"/v1/chat/completions",
                                       "/v1/completions",
                                       "/v1/responses",
                                       "/v1/responses/input_tokens",
                                       "/v1/conversations",
                                       kConversation,
                                       kConversation + "/items",
                                       "/v1/messages",
                                       "/v1/messages/count_tokens",
                                       "/tokenize",
                                       "/detokenize",
                                       kCompletion};
  if (size < 1) return 0;
  const std::string& path = kPaths[data[0] % std::size(kPaths)];
  const auto answer = ask(server, path, {reinterpret_cast<const char*>(data) + 1, size - 1});
  if (answer.status == 500) met::testing::found("500", answer.body);
  if (answer.header("content-type").starts_with("application/json") && !met::json::parse(answer.body))
    met::testing::found("no JSON", answer.body);
  return 0;
}
