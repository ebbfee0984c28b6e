// `met benchmark`: prefill and decode of one model by length, batch and depth, as tokens a second, bytes, and
// share of the read bandwidth measured in the same run.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "bench/serving.h"
#include "config/settings.h"
#include "core/error.h"
#include "core/json.h"
#include "engine/loaded_model.h"

namespace met::bench {

struct BenchmarkOptions {
  std::vector<int> prefill = {128, 512, 2048};  ///< tokens of one prompt
  std::vector<int> batch = {1, 4, 16};          ///< sequences that decode at once
  int batch_depth = 16;                         ///< tokens in the cache of each of them
  std::vector<int> depth = {1024};              ///< tokens in the cache of one decoding sequence
  int decode_tokens = 32;                       ///< steps of one repeat
  std::vector<int> kernels;                     ///< sequences whose common step is timed kernel by kernel
  int repeats = 5;
  ServingOptions serving;  ///< nothing, unless asked for
  std::string json_file;   ///< empty: none
};

/// One measured cell. Medians over the repeats; min and max are the spread.
struct BenchmarkRow {
  std::string test;  ///< "prefill" or "decode"
  int tokens = 0;    ///< of the prompt; for decode: of the depth
  int batch = 1;
  double tokens_per_second = 0;
  double tokens_per_second_min = 0;
  double tokens_per_second_max = 0;
  double bytes_per_step = 0;  ///< weights and cache that a step reads at least
  double bandwidth = 0;       ///< bytes a second of that
};

/// All launches of one operation on matrices of one size, in the steps of one batch.
struct KernelRow {
  std::string name;
  int batch = 1;
  double launches_per_step = 0;
  double microseconds = 0;      ///< of one launch, on average; between events, so nothing overlaps
  double share_of_step = 0;     ///< of the sum over all launches
  double bytes_per_launch = 0;  ///< that it must read at least; 0: not known
};

/// The flags that are the benchmark's own, for its help.
inline constexpr const char* kBenchmarkUsage =
    "usage: met benchmark MODEL [flags]\n"
    "  --prefill LIST|none     prompt lengths to measure (128,512,2048)\n"
    "  --batch LIST|none       sequences that decode at once (1,4,16)\n"
    "  --batch-depth N         tokens in the cache of each of them (16)\n"
    "  --depth LIST|none       tokens in the cache of one decoding sequence (1024)\n"
    "  --kernels LIST|none     sequences whose common step is timed kernel by kernel, at --batch-depth "
    "(none)\n"
    "  --decode-tokens N       steps of one repeat (32)\n"
    "  --serve LIST|none       requests sent at once through the engine (none)\n"
    "  --serve-prompt N        prompt tokens of each of them (128)\n"
    "  --serve-output N        output tokens of each of them (256)\n"
    "  --ttft LIST|none        prompt lengths whose first token is timed through the engine (none)\n"
    "  --bulk LIST|none        prompt lengths sent 16 at once through the engine (none)\n"
    "  --repeats N             measured repeats after one that warms up (5)\n"
    "  --json FILE             write the rows\n"
    "and the flags of met serve:";

/// Splits the flags of `met benchmark` from those of the settings table. Errors name the flag.
Result<BenchmarkOptions> parse_benchmark_options(std::vector<std::string>& arguments);

/// Runs every cell on a loaded model; `report` sees each as it is done.
Result<std::vector<BenchmarkRow>> run_benchmark(engine::LoadedModel& model, const BenchmarkOptions& options,
                                                const std::function<void(const BenchmarkRow&)>& report);

/// Times every launch of decode steps on a model that was loaded without graphs.
Result<> run_kernel_table(engine::LoadedModel& model, const BenchmarkOptions& options,
                          const std::function<void(const KernelRow&)>& report);

/// The subcommand: returns the process's exit code. `environment` as for config::read_settings.
int benchmark_main(std::vector<std::string> arguments, const config::EnvironmentReader& environment);

}  // namespace met::bench
