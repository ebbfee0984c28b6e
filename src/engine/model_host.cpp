#include "engine/model_host.h"

#include <random>

#include "core/clock.h"
#include "scheduler/engine.h"

namespace met::engine {

namespace {

class Host final : public ModelHost {
 public:
  explicit Host(LoadedModel model) : model_(std::move(model)) {}
  Result<> start(const config::Settings& settings, std::function<void(const Error&)> on_fault);
  scheduler::Client& client() override { return *client_; }
  const LoadedModel& model() const override { return model_; }

 private:
  LoadedModel model_;
  SteadyClock clock_;
  std::unique_ptr<scheduler::Client> client_;  // destroyed first: its threads use the model
};

SipKey random_key() {
  SipKey key;
  std::random_device random;
  for (auto& byte : key) byte = static_cast<std::uint8_t>(random());
  return key;
}

std::int64_t microseconds(double seconds) { return static_cast<std::int64_t>(seconds * 1e6); }

Result<> Host::start(const config::Settings& settings, std::function<void(const Error&)> on_fault) {
  const scheduler::EngineConfig config{
      .plan = model_.plan,
      .max_num_seqs = static_cast<int>(settings.max_num_seqs),
      .vocab_size = model_.config.vocabulary,
      .prefix_caching = !settings.no_prefix_caching,
      .cache_identity = model_.source.path + "|" + std::string(info(model_.cache).name),
      .cache_key = random_key(),
      .request_timeout_us = microseconds(settings.request_timeout),
      .step_timeout_us = microseconds(settings.step_timeout_s)};
  MET_ASSIGN(client_, scheduler::start_engine(config, *model_.runner, clock_, std::move(on_fault)));
  return {};
}

}  // namespace

Result<std::unique_ptr<ModelHost>> load_model(const config::Settings& settings, const Progress& progress,
                                              std::function<void(const Error&)> on_fault) {
  MET_ASSIGN(LoadedModel model, load_parts(settings, progress));
  return start_host(std::move(model), settings, std::move(on_fault));
}

Result<std::unique_ptr<ModelHost>> start_host(LoadedModel model, const config::Settings& settings,
                                              std::function<void(const Error&)> on_fault) {
  auto host = std::make_unique<Host>(std::move(model));
  MET_TRY(host->start(settings, std::move(on_fault)));
  return host;
}

}  // namespace met::engine
