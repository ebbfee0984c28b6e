#include "engine/prefill_switches.h"

#include <string>
#include <string_view>

#include "kernels/lookup.h"

namespace met::engine {

namespace {

bool is_on(std::string_view setting, const kernels::Hardware& hardware, std::string_view key,
           bool otherwise) {
  const std::string_view value = setting == "auto" ? kernels::default_of(hardware, key) : setting;
  return value.empty() ? otherwise : value == "on";
}

}  // namespace

Result<PrefillMode> resolve_prefill_mode(const config::Settings& s, const kernels::Hardware& hardware,
                                         int max_batch_size) {
  const auto alone = [&](const std::string& setting) { return setting == "on" && max_batch_size < 2; };
  const std::string why = "prompts share a step only where --max-batch-size is above 1";
  if (alone(s.prefill_codispatch)) return unsupported("--prefill-codispatch", why);
  if (alone(s.prefill_first_chunk)) return unsupported("--prefill-first-chunk", why);
  const PrefillMode unset;
  return PrefillMode{
      .codispatch = is_on(s.prefill_codispatch, hardware, "prefill_codispatch", unset.codispatch),
      .first_chunk = is_on(s.prefill_first_chunk, hardware, "prefill_first_chunk", unset.first_chunk),
      .varlen = is_on(s.prefill_varlen_batch, hardware, "prefill_varlen_batch", unset.varlen)};
}

}  // namespace met::engine
