// `met benchmark simulate` and `met benchmark trace`: policies compared on a virtual clock, and a maker of
// traces to compare them on. docs/simulation.md.
#pragma once

#include <string>
#include <vector>

#include "config/settings.h"

namespace met::bench {

inline constexpr const char* kSimulateUsage =
    "usage: met benchmark simulate TRACE [flags]\n"
    "  --policies LIST         one run each: fifo,slai (that of --scheduler)\n"
    "  --replicas N            serving processes behind a router (1)\n"
    "  --router NAME           round-robin, least-loaded or prefix (least-loaded)\n"
    "  --hardware NAME         whose serving defaults hold (hopper, else the first of this build)\n"
    "  --kv-blocks N           blocks of each replica's KV pool (48811)\n"
    "  --recurrent NAME        off; on: the model has recurrent state (H1 to H9); midchunk: and kernels "
    "that\n"
    "                          capture it inside a chunk (off)\n"
    "  --swap-blocks N         places of each replica's swap pool in host memory (0)\n"
    "  --swap-block-ns N       a block takes this there, and as much back (43000)\n"
    "  --rate-scale X          arrivals come X times as fast (1)\n"
    "  --step-us N             a step takes this, (4000)\n"
    "  --token-ns N            for each token this, (20000)\n"
    "  --context-ns N          for each position that a row finds in the cache this, (32)\n"
    "  --pair-ps N             for each position that a prefill token attends to this (1200)\n"
    "  --host-us N             from a plan to its step (50)\n"
    "  --json FILE             write the rows\n"
    "and of the flags of met serve those of the engine:";

inline constexpr const char* kTraceUsage =
    "usage: met benchmark trace [flags]        writes a trace of conversations to the standard output\n"
    "  --requests N            (1000)\n"
    "  --per-second X          arrivals (10)\n"
    "  --seed N                (1)\n"
    "  --system-prompts N      texts that conversations begin with (4)\n"
    "  --system-tokens N       of each of them (256)\n"
    "  --follow-up X           chance that a turn is followed by another (0.6)\n"
    "  --think-seconds X       mean time before it (10)\n"
    "  --context N             tokens that no conversation exceeds (32768)\n"
    "  --tenants N             (1)\n";

/// The subcommands: each returns the process's exit code.
int simulate_main(std::vector<std::string> arguments, const config::EnvironmentReader& environment);
int trace_main(const std::vector<std::string>& arguments);

}  // namespace met::bench
