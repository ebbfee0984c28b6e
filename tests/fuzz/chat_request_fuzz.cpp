// Bodies of the generating routes: parsed or refused with a field's name, never a crash or a value outside
// its range.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "api/anthropic.h"
#include "api/request.h"
#include "api/responses.h"

namespace {

void check(const met::Result<met::api::GenerationRequest>& r) {
  if (!r) {
    if (r.error().message.empty()) std::abort();
    return;
  }
  const met::sampling::SamplingParams& s = r->sampling;
  const bool in_range = s.temperature >= 0 && s.temperature <= 2 && s.top_p >= 0 && s.top_p <= 1 &&
                        s.top_k >= 0 && s.min_tokens >= 0 && r->n >= 1 && r->n <= 128 && r->logprobs >= -1 &&
                        r->logprobs <= 20 && r->stop.size() <= 16 && (!r->max_tokens || *r->max_tokens >= 0);
  if (!in_range) std::abort();
  for (const auto& [id, bias] : s.logit_bias)
    if (id < 0 || id >= 1000 || bias < -100 || bias > 100) std::abort();
  for (const auto id : r->stop_token_ids)
    if (id < 0 || id >= 1000) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto body = met::json::parse({reinterpret_cast<const char*>(data), size});
  if (!body) return 0;
  met::api::ParseContext context;
  context.models = {"tiny"};
  context.vocabulary = 1000;
  check(met::api::parse_chat(*body, context));
  check(met::api::parse_completion(*body, context));
  check(met::api::parse_messages(*body, context));
  check(met::api::parse_count_tokens(*body, context));
  const auto response = met::api::parse_response(*body, context);
  if (!response) {
    if (response.error().message.empty()) std::abort();
    return 0;
  }
  std::vector<met::api::Item> items;
  for (const met::json::Value& item : response->input)
    items.push_back(std::make_shared<const met::json::Value>(item));
  check(met::api::lower_response(*response, items, context));
  return 0;
}
