// What the device's sampling kernel is told of a sequence, and which requests it can serve.
#pragma once

#include <span>
#include <vector>

#include "met/cuda_ops.h"
#include "sampling/params.h"

namespace met::engine {

/// Whether the device samples a sequence with these parameters. The others need their logits on the host: they use
/// typical_p, top_n_sigma, XTC, mirostat, dynamic temperature, DRY, lz_penalty or bad_words, or longer lists than a
/// device row has room for (kSampleEndMax end ids, kSampleBiasMax biases, kSampleTopMax log-probabilities). Greedy
/// sampling has no use for what thins a distribution out, so those fields do not count then.
bool on_device(const sampling::SamplingParams& params, std::size_t end_ids);

/// The parameters of a device row. `prompt`: how many tokens it has; `end_ids` as RowAdded has them, eos and stop ids.
SampleParams sample_params(const sampling::SamplingParams& params, std::size_t prompt, std::size_t end_ids);

/// A bit for each allowed id; ids outside the vocabulary are skipped.
void set_allowed(std::span<const std::int32_t> ids, std::int64_t vocabulary, std::span<std::uint32_t> words);

}  // namespace met::engine
