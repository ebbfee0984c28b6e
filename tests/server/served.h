// A server over the fake engine, on a free port, for the length of a test.
#pragma once

#include <gtest/gtest.h>

#include <thread>

#include "core/log.h"
#include "server/server.h"
#include "tests/server/client.h"
#include "tests/server/fake_engine.h"
#include "tests/server/tiny_text.h"

namespace met::testing {

class Served {
 public:
  /// `attached` false: the model still loads.
  explicit Served(FakeOptions options = {}, std::vector<std::string> flags = {}, bool attached = true,
                  std::shared_ptr<const api::ModelText> text = tiny_text())
      : engine(std::move(options)) {
    log::set_level(log::Level::kError);
    flags.insert(flags.end(), {"--port", "0"});
    auto settings = config::read_settings(flags, {});
    EXPECT_TRUE(settings) << settings.error()[0].message;
    auto opened = server::Server::open({.text = std::move(text), .settings = *settings});
    EXPECT_TRUE(opened) << opened.error().message;
    server = std::move(*opened);
    if (attached) server->attach(engine, {});
    thread = std::jthread([this] { exit_code = server->run(/*signals=*/false); });
  }
  ~Served() { stop(); }

  int port() const { return server->port(); }
  /// Ends the server and gives its exit code.
  int stop() {
    if (thread.joinable()) {
      server->shut_down();
      thread.join();
    }
    return exit_code;
  }
  /// One request on a connection of its own.
  Answer ask(const std::string& bytes) const {
    Client client(port());
    client.send(bytes);
    const auto answer = client.answer();
    EXPECT_TRUE(answer) << "no answer to " << bytes.substr(0, 200);
    return answer.value_or(Answer{});
  }
  /// Waits until `condition` holds, at most two seconds.
  template <class Condition>
  bool eventually(Condition condition) const {
    for (int i = 0; i < 400; ++i) {
      if (condition()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return false;
  }

  FakeEngine engine;
  std::unique_ptr<server::Server> server;
  std::jthread thread;
  int exit_code = -1;
};

/// Answers with these bytes, then the end token.
inline FakeOptions saying(const std::string& text) {
  FakeOptions options;
  options.script = [ids = tiny_ids(text)](const scheduler::Request&, int, std::int64_t position) {
    return position < std::ssize(ids) ? ids[static_cast<std::size_t>(position)] : kImEnd;
  };
  return options;
}

inline std::string chat_body(const std::string& members = "", const std::string& text = "Hi.") {
  return R"({"model":"tiny","max_tokens":8,"messages":[{"role":"user","content":)" +
         json::write(json::Value(text)) + "}]" + members + "}";
}
inline std::string completion_body(const std::string& members = "",
                                   const std::string& prompt = "\"abcdef\"") {
  return R"({"model":"tiny","max_tokens":8,"prompt":)" + prompt + members + "}";
}
inline json::Value parsed(const std::string& text) {
  const auto v = json::parse(text);
  EXPECT_TRUE(v) << text;
  return v.value_or(json::Value());
}
/// One step of a path: a member's name or an index.
struct Step {
  Step(const char* key) : name(key) {}                               // NOLINT(google-explicit-constructor)
  Step(int position) : index(position) {}                            // NOLINT(google-explicit-constructor)
  Step(std::size_t position) : index(static_cast<int>(position)) {}  // NOLINT(google-explicit-constructor)
  const char* name = nullptr;
  int index = 0;
};

/// Member by path, null when absent: at(v, "choices", 0, "text").
template <class... Steps>
const json::Value& at(const json::Value& root, Steps... steps) {
  static const json::Value kNull;
  const json::Value* v = &root;
  for (const Step& step : {Step(steps)...}) {
    if (step.name != nullptr) {
      v = v->find(step.name);
    } else {
      v = v->is_array() && std::ssize(v->as_array()) > step.index
              ? &v->as_array()[static_cast<std::size_t>(step.index)]
              : nullptr;
    }
    if (v == nullptr) return kNull;
  }
  return *v;
}

/// The JSON chunks of a stream; checks framing and the terminator.
inline std::vector<json::Value> chunks_of(const std::string& body) {
  std::vector<json::Value> out;
  std::size_t from = 0;
  bool done = false;
  while (from < body.size()) {
    const std::size_t end = body.find("\n\n", from);
    EXPECT_NE(end, std::string::npos) << "an event without its end";
    if (end == std::string::npos) break;
    const std::string event = body.substr(from, end - from);
    from = end + 2;
    if (event.starts_with(":")) continue;
    EXPECT_TRUE(event.starts_with("data: ")) << event;
    EXPECT_FALSE(done) << "an event after [DONE]";
    done = event == "data: [DONE]";
    if (!done) out.push_back(parsed(event.substr(6)));
  }
  EXPECT_TRUE(done) << "no [DONE]";
  return out;
}

}  // namespace met::testing
