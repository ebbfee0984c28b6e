#include "engine/model_host.h"

#include <random>

#include "core/clock.h"
#include "core/log.h"
#include "engine/disk_spill.h"
#include "engine/serve_plan.h"
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
  std::unique_ptr<DiskSpill> spill_;           // moves blocks between the runner's memory and disk
  std::unique_ptr<scheduler::Client> client_;  // destroyed first: its threads use the model
};

SipKey random_key() {
  SipKey key;
  std::random_device random;
  for (auto& byte : key) byte = static_cast<std::uint8_t>(random());
  return key;
}

Result<> Host::start(const config::Settings& settings, std::function<void(const Error&)> on_fault) {
  scheduler::EngineConfig config = engine_config(settings, model_.plan);
  config.vocab_size = model_.config.vocabulary;
  config.cache_identity = model_.source.path + "|" + model_.cache.name();
  config.cache_key = random_key();
  config.block_bytes = static_cast<std::int64_t>(kv_block_bytes(model_.config, model_.cache));
  config.swap_block_ns = model_.swap_block_ns;
  if (config.plan.disk_blocks > 0) {
    const SwapPool& pool = *model_.runner->swap_pool();
    auto created = storage::BlockFile::create(settings.swap_dir, pool.slot_bytes(), config.plan.disk_blocks);
    if (!created) return fail(created.error().code, created.error().message, "--swap-dir");
    std::unique_ptr<storage::BlockFile> file = std::move(*created);
    if (!file->direct()) log::warn("--swap-dir is on a file system that keeps every file in memory");
    spill_ = std::make_unique<DiskSpill>(std::move(file), pool.memory(), pool.slot_bytes());
  }
  MET_ASSIGN(client_,
             scheduler::start_engine(config, *model_.runner, clock_, std::move(on_fault), spill_.get()));
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
