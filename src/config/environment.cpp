#include "config/environment.h"

#include <unistd.h>

#include <algorithm>

#include "core/error.h"

namespace met::config {

namespace {

constexpr EnvironmentVariable kTable[] = {
    {"HF_HOME", "directory whose `hub` holds downloaded models"},
    {"HF_HUB_CACHE", "directory of downloaded models"},
    {"HOME", "the user's directory; `.cache/huggingface/hub` in it holds downloaded models"},
    {"METRALE_CONVERSATION_MAX_ENTRIES", "fallback of --conversation-max-entries"},
    {"METRALE_GEMM_SHAPE_LOG",
     "1: the log says once for each product which kernel and tile were chosen (CUDA)"},
    {"METRALE_HERMETIC", "fallback of --hermetic"},
    {"METRALE_KV_ADMIT_WATERMARK", "fallback of --kv-admit-watermark"},
    {"METRALE_MAX_BODY_BYTES", "fallback of --max-body-bytes"},
    {"METRALE_PREFILL_CODISPATCH", "fallback of --prefill-codispatch"},
    {"METRALE_PREFILL_VARLEN", "fallback of --prefill-varlen-batch"},
    {"METRALE_Q12_BATCHED_FIRST_CHUNK", "fallback of --prefill-first-chunk"},
    {"METRALE_RATE_LIMIT_BURST_RPM", "fallback of --rate-limit-burst-rpm"},
    {"METRALE_RATE_LIMIT_BURST_TPM", "fallback of --rate-limit-burst-tpm"},
    {"METRALE_RATE_LIMIT_RPM", "fallback of --rate-limit-rpm"},
    {"METRALE_RATE_LIMIT_TPM", "fallback of --rate-limit-tpm"},
    {"METRALE_SSM_TAIL_CKPT", "fallback of --ssm-tail-checkpoint"},
    {"METRALE_SSM_TAIL_MIDCHUNK", "0: --no-ssm-tail-midchunk"},
    {"METRALE_STORE_DIR", "fallback of --store-dir"},
    {"METRALE_STORE_MAX_ENTRIES", "fallback of --store-max-entries"},
    {"METRALE_STORE_TTL_SECONDS", "fallback of --store-ttl-s"},
    {"XDG_CACHE_HOME", "the user's cache directory, instead of `~/.cache`"},
};
/// Read by the build alone.
constexpr std::string_view kBuild[] = {"METRALE_SKIP_BUILD", "METRALE_TARGET_HW", "METRALE_TARGET_MODEL",
                                       "METRALE_TARGET_QUANT"};
static_assert(std::ranges::is_sorted(kBuild));
static_assert(std::ranges::is_sorted(kTable, {}, &EnvironmentVariable::name));

}  // namespace

std::span<const EnvironmentVariable> environment_table() { return kTable; }

const Environment& Environment::process() {
  static const Environment environment = [] {
    std::vector<std::pair<std::string, std::string>> values;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
      const std::string_view text = *entry;
      const std::size_t equals = text.find('=');
      if (equals != std::string_view::npos)
        values.emplace_back(text.substr(0, equals), text.substr(equals + 1));
    }
    return Environment(std::move(values));
  }();
  return environment;
}

Environment::Environment(std::vector<std::pair<std::string, std::string>> values) {
  for (auto& [name, value] : values) {
    const std::string_view view = name;
    if (std::ranges::binary_search(kTable, view, {}, &EnvironmentVariable::name)) {
      values_.emplace_back(name, std::move(value));
    } else if (view.starts_with("METRALE_") && !std::ranges::binary_search(kBuild, view)) {
      unknown_.push_back(name);
    }
  }
  std::ranges::sort(unknown_);
}

std::optional<std::string> Environment::get(std::string_view name) const {
  MET_CHECK(std::ranges::binary_search(kTable, name, {}, &EnvironmentVariable::name), std::string(name));
  const auto it = std::ranges::find(values_, name, &std::pair<std::string, std::string>::first);
  if (it == values_.end() || it->second.empty()) return std::nullopt;
  return it->second;
}

}  // namespace met::config
