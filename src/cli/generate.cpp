#include <charconv>
#include <chrono>
#include <cstdio>

#include "api/prepare.h"
#include "cli/commands.h"
#include "cli/load_text.h"
#include "core/log.h"
#include "engine/model_host.h"
#include "text/machine/machine.h"

namespace met::cli {

namespace {

constexpr const char* kCommand = "generate";
using Clock = std::chrono::steady_clock;

struct Question {
  std::string prompt;
  std::int64_t max_tokens = 256;
  double temperature = 0;
  std::uint64_t seed = 0;
  bool raw = false;  ///< the prompt as it is, without the chat template
};

template <class T>
Result<> read_number(const std::string& flag, const std::string& text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc{} || end != text.data() + text.size() || !(out >= T{0}))
    return invalid(flag, "'" + text + "' is not " + (std::is_integral_v<T> ? "an integer" : "a number") +
                             " of at least 0");
  return {};
}

/// Takes the command's own flags out of `arguments`.
Result<Question> take_question(std::vector<std::string>& arguments) {
  Question question;
  std::vector<std::string> rest;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& flag = arguments[i];
    if (flag == "--raw") {
      question.raw = true;
      continue;
    }
    const bool own = flag == "-p" || flag == "--prompt" || flag == "--max-tokens" ||
                     flag == "--temperature" || flag == "--seed";
    if (!own) {
      rest.push_back(flag);
      continue;
    }
    if (++i == arguments.size()) return invalid(flag, "a value is missing");
    if (flag == "-p" || flag == "--prompt") {
      question.prompt = arguments[i];
      continue;
    }
    if (flag == "--max-tokens") MET_TRY(read_number(flag, arguments[i], question.max_tokens));
    if (flag == "--temperature") MET_TRY(read_number(flag, arguments[i], question.temperature));
    if (flag == "--seed") MET_TRY(read_number(flag, arguments[i], question.seed));
  }
  if (question.prompt.empty()) return invalid("-p", "a prompt is missing");
  arguments = std::move(rest);
  return question;
}

Result<std::vector<text::TokenId>> prompt_ids(const Question& question, const api::ModelText& text) {
  if (question.raw || text.chat == nullptr)
    return text.tokenizer.encode(question.prompt, {.add_special = true});
  const json::Array messages{json::Object{{"role", "user"}, {"content", question.prompt}}};
  return api::chat_ids(messages, {}, text);
}

void print_pieces(const std::vector<text::Piece>& pieces) {
  for (const text::Piece& piece : pieces) std::fwrite(piece.text.data(), 1, piece.text.size(), stdout);
  std::fflush(stdout);
}

double seconds(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

/// Streams one answer and prints its figures.
Result<> answer(const Question& question, engine::ModelHost& host, const api::ModelText& text) {
  MET_ASSIGN(std::vector<text::TokenId> ids, prompt_ids(question, text));
  const std::size_t prompt_tokens = ids.size();
  scheduler::Request request;
  request.prompt = std::move(ids);
  request.sampling.temperature = question.temperature;
  request.sampling.seed = question.seed;
  request.max_tokens = question.max_tokens;
  request.eos_ids = text.eos_ids;
  MET_ASSIGN(text::Machine machine, text::Machine::create(text.tokenizer));
  const auto begin = Clock::now();
  auto first = begin;
  std::int64_t count = 0;
  MET_ASSIGN(const std::unique_ptr<scheduler::Generation> generation,
             host.client().submit(std::move(request)));
  for (;;) {
    const scheduler::Event event = generation->wait();
    if (event.kind == scheduler::Event::Kind::kFailed) return std::unexpected(event.error);
    if (event.terminal()) break;
    if (event.kind != scheduler::Event::Kind::kTokens) continue;
    if (count == 0) first = Clock::now();
    count += std::ssize(event.ids);
    print_pieces(machine.push(event.ids));
  }
  print_pieces(machine.finish());
  const auto end = Clock::now();
  const double to_first = seconds(begin, first);
  std::printf("\n");
  std::fprintf(
      stderr,
      "prompt %zu tokens, first token after %.1f ms (%.1f tokens/s); answer %lld tokens, %.1f tokens/s\n",
      prompt_tokens, to_first * 1e3, count > 0 ? static_cast<double>(prompt_tokens) / to_first : 0.0,
      static_cast<long long>(count), count > 1 ? static_cast<double>(count - 1) / seconds(first, end) : 0.0);
  return {};
}

}  // namespace

int generate(std::vector<std::string> arguments) {
  const auto question = take_question(arguments);
  if (!question) return complain(kCommand, question.error());
  const std::optional<config::Settings> settings = settings_or_complain(kCommand, arguments);
  if (!settings) return 2;
  log::set_level(log::Level::kWarn);
  const auto source = find_text_source(*settings);
  if (!source) return complain(kCommand, source.error());
  const auto text = load_text(*settings, *source);
  if (!text) return complain(kCommand, text.error());
  auto host = engine::load_model(*settings, loading_bar(), [](const Error&) {});
  if (!host) return complain(kCommand, host.error());
  const Result<> done = answer(*question, **host, **text);
  if (done) return 0;
  const int code = complain(kCommand, done.error());
  if (done.error().code == ErrorCode::kDevice) exit_now(code);
  return code;
}

}  // namespace met::cli
