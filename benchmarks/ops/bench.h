// What the op benchmarks share: machine limits measured in the same run, and timing.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "tests/ops/support/isa.h"
#include "tests/ops/support/pool.h"

namespace met::bench {

struct Limits {
  double read_gbs = 0;    ///< all threads, 1 GiB, best of some rounds
  double int8_gmacs = 0;  ///< all threads, vpmaddubsw with 16-bit adds (AVX2); 0 where not measured
};

struct Setup {
  const test::Isa* isa;
  test::Pool* pool;
  Limits limits;
};

/// Median seconds of a call, over at least `seconds_min` of calls; `best` is the fastest.
struct Time {
  double median = 0;
  double best = 0;
};
Time measure(const std::function<void()>& call, double seconds_min = 0.1);

Limits measure_limits(test::Pool& pool);

void bench_linear(const Setup& setup);
void bench_attention(const Setup& setup);

}  // namespace met::bench
