#include "engine/row_samplers.h"

#include <algorithm>

namespace met::engine {

struct RowSamplers::Rows {};
RowSamplers::RowSamplers(int, int vocabulary) : vocabulary_(vocabulary) {}
RowSamplers::~RowSamplers() = default;
void RowSamplers::update(const scheduler::StepBatch&) {}
scheduler::SampleResult RowSamplers::sample(const scheduler::SampleWork&, std::span<float> logits) {
  return {.id = static_cast<scheduler::TokenId>(std::ranges::max_element(logits) - logits.begin())};
}
scheduler::PositionLogprobs log_probabilities(std::span<const float>, scheduler::TokenId, int) { return {}; }

}  // namespace met::engine
