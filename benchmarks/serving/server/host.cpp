#include "benchmarks/serving/server/host.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>

#include "core/log.h"
#include "formats/gguf.h"
#include "text/chat/chat_template.h"
#include "text/tokenizer/gguf_vocabulary.h"

namespace met::bench {
namespace {

constexpr std::string_view kScript =
    "The river runs from the mountains to the sea, and the towns on its banks are old. ";

template <class T>
T or_end(Result<T> result) {
  if (result) return std::move(*result);
  std::fprintf(stderr, "%s\n", result.error().message.c_str());
  std::exit(1);
}

class Renderer final : public api::ChatRenderer {
 public:
  explicit Renderer(std::shared_ptr<const text::ChatTemplate> chat) : chat_(std::move(chat)) {}
  Result<api::RenderedPrompt> render(const json::Array& messages,
                                     const api::RenderOptions& options) const override {
    const json::Value all(messages);
    const json::Value tools(options.tools);
    MET_ASSIGN(text::RenderedPrompt prompt, chat_->render({.messages = &all,
                                                           .tools = options.tools.empty() ? nullptr : &tools,
                                                           .kwargs = &options.variables}));
    return api::RenderedPrompt{std::move(prompt.text), std::move(prompt.untrusted)};
  }

 private:
  std::shared_ptr<const text::ChatTemplate> chat_;
};

scheduler::EngineConfig engine_config(int max_batch_size) {
  scheduler::EngineConfig config;
  config.plan = {.depth = 2,
                 .block_tokens = 16,
                 .blocks_total = 1 + max_batch_size * 64,
                 .max_batch_size = max_batch_size,
                 .max_seq_len = 16384,
                 .max_prefill_tokens = 8192,
                 .mixed_prefill_tokens = 4096};
  config.plan.blocks_total = std::max(config.plan.blocks_total, 2048);
  config.max_num_seqs = 2048;
  return config;
}

}  // namespace

std::shared_ptr<const api::ModelText> load_text(const std::string& gguf, const std::string& template_path) {
  const auto file = or_end(formats::GgufFile::open(gguf));
  auto tokenizer = or_end(text::Tokenizer::from_gguf(or_end(text::GgufVocabulary::read(file))));
  std::ifstream in(template_path);
  const std::string source((std::istreambuf_iterator<char>(in)), {});
  auto chat = or_end(text::ChatTemplate::compile(source, {}));
  std::vector<text::TokenId> eos;
  if (tokenizer.eos()) eos.push_back(*tokenizer.eos());
  return std::make_shared<api::ModelText>(
      api::ModelText{.names = {"bench"},
                     .tokenizer = std::move(tokenizer),
                     .chat = std::make_shared<Renderer>(std::move(chat)),
                     .habits = {.tools = text::ToolFormat::kHermes, .takes_tools = true},
                     .eos_ids = std::move(eos),
                     .fingerprint = "fp_bench"});
}

Host::Host(std::shared_ptr<const api::ModelText> text, const HostOptions& options)
    : device_(text->tokenizer.encode(kScript), options.step) {
  log::set_level(log::Level::kError);
  engine_ = or_end(
      scheduler::start_engine(engine_config(options.max_batch_size), device_, clock_, [](const Error&) {}));
  client_ = std::make_unique<StampedClient>(*engine_);
  std::vector<std::string> flags = options.flags;
  flags.insert(flags.end(), {"--port", "0", "--max-num-seqs", "2048", "--max-connections", "4096",
                             "--shutdown-timeout", "0"});
  const auto settings = config::read_settings(flags, {});
  if (!settings) std::exit((std::fprintf(stderr, "%s\n", settings.error()[0].message.c_str()), 1));
  server_ = or_end(server::Server::open({.text = std::move(text), .settings = *settings}));
  server_->attach(*client_, {});
  loop_ = std::jthread([this] { server_->run(/*signals=*/false); });
  pthread_setname_np(loop_.native_handle(), "server loop");  // for perf
}

Host::~Host() {
  server_->shut_down();
  loop_.join();
  server_.reset();
}

double Host::loop_cpu_s() const {
  clockid_t clock{};
  timespec t{};
  pthread_getcpuclockid(const_cast<std::jthread&>(loop_).native_handle(), &clock);
  clock_gettime(clock, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

}  // namespace met::bench
