#include "engine/row_samplers.h"

#include <algorithm>
#include <optional>

#include "sampling/sampler.h"

namespace met::engine {

struct RowSamplers::Rows {
  std::vector<std::optional<sampling::Sampler>> samplers;
  std::vector<float> raw;  // a row kept for log-probabilities while sampling changes it
  std::vector<sampling::Logprob> logprobs;
};

namespace {

sampling::Sampler make_sampler(const scheduler::RowAdded& added, int vocabulary) {
  std::vector<std::int32_t> end_ids(added.eos_ids.begin(), added.eos_ids.end());
  end_ids.insert(end_ids.end(), added.stop_ids.begin(), added.stop_ids.end());
  auto sampler = sampling::Sampler::create(
      *added.sampling, {.vocab_size = vocabulary, .prompt = added.prompt, .end_ids = end_ids});
  MET_CHECK(sampler.has_value(),
            "a request was accepted with sampling parameters that are not valid: " + sampler.error().message);
  for (const std::int32_t id : added.output) sampler->accept(id);
  return std::move(*sampler);
}

scheduler::PositionLogprobs to_position(const std::vector<sampling::Logprob>& from) {
  scheduler::PositionLogprobs out{.chosen = from[0].logprob, .top = {}, .rank = from[0].rank};
  for (std::size_t i = 1; i < from.size(); ++i) out.top.push_back({from[i].id, from[i].logprob});
  return out;
}

}  // namespace

RowSamplers::RowSamplers(int rows, int vocabulary)
    : rows_(std::make_unique<Rows>()), vocabulary_(vocabulary) {
  rows_->samplers.resize(static_cast<std::size_t>(rows));
  rows_->raw.resize(static_cast<std::size_t>(vocabulary));
}

RowSamplers::~RowSamplers() = default;

void RowSamplers::update(const scheduler::StepBatch& batch) {
  for (const std::int32_t row : batch.removed) remove(row);
  for (const scheduler::RowAdded& added : batch.added) add(added);
}

void RowSamplers::remove(std::int32_t device_row) {
  rows_->samplers[static_cast<std::size_t>(device_row)].reset();
}

void RowSamplers::add(const scheduler::RowAdded& added) {
  rows_->samplers[static_cast<std::size_t>(added.device_row)].emplace(make_sampler(added, vocabulary_));
}

scheduler::SampleResult RowSamplers::sample(const scheduler::SampleWork& work, std::span<float> logits,
                                            std::span<const std::uint32_t> allowed) {
  sampling::Sampler& sampler = *rows_->samplers[static_cast<std::size_t>(work.device_row)];
  if (work.logprobs >= 0) std::ranges::copy(logits, rows_->raw.begin());
  const auto sampled = sampler.sample(logits, work.position, allowed);
  MET_CHECK(sampled.has_value(), "a row of logits has another size than the vocabulary");
  scheduler::SampleResult result{.id = sampled->id};
  if (sampled->non_finite) result.flags |= scheduler::kFlagNonFinite;
  if (sampled->empty) result.flags |= scheduler::kFlagEmptyMask;
  if (result.flags != 0) return result;
  sampler.accept(result.id);
  if (work.logprobs >= 0) {
    sampling::logprobs(rows_->raw, result.id, work.logprobs, rows_->logprobs);
    result.logprobs = to_position(rows_->logprobs);
  }
  return result;
}

scheduler::PositionLogprobs RowSamplers::log_probabilities(std::span<const float> logits,
                                                           scheduler::TokenId chosen, int top) {
  sampling::logprobs(logits, chosen, top, rows_->logprobs);
  return to_position(rows_->logprobs);
}

}  // namespace met::engine
