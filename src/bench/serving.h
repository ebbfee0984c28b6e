// Waves of requests through the whole engine (scheduler, executor, device), as a server would submit them: the
// serving ladder of `met benchmark`.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "engine/model_host.h"

namespace met::bench {

/// Prompts of a "bulk" wave.
inline constexpr int kBulkRequests = 16;

struct ServingOptions {
  std::vector<int> concurrency;  ///< requests of a wave, all sent at once
  std::vector<int> ttft;         ///< lengths of single prompts, one token wanted
  std::vector<int> bulk;         ///< lengths of prompts sent 16 at once, one token wanted of each
  int prompt_tokens = 128;
  int output_tokens = 256;
  int repeats = 5;
};

/// One cell: medians over the repeats.
struct ServingRow {
  std::string test;  ///< "serve", "ttft" or "bulk"
  int concurrency = 1;
  int prompt_tokens = 0;
  double step_ms = 0;  ///< between two tokens of a request, while all decode: median
  double step_p99_ms = 0;
  double decode_per_second = 0;  ///< tokens made while all decode, over that time
  double total_per_second = 0;   ///< all output tokens ("bulk": prompt tokens) over the whole wave
  double total_min = 0;  ///< least and most over the repeats, of decode_per_second or what the test is about
  double total_max = 0;
  double first_token_ms = 0;  ///< mean over the wave
};

/// Prompts are random ids, sampling is greedy, nothing ends before its length. `report` sees each row as it is done.
Result<std::vector<ServingRow>> run_serving(engine::ModelHost& host, const ServingOptions& options,
                                            const std::function<void(const ServingRow&)>& report);

}  // namespace met::bench
