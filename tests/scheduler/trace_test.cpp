// Golden traces: each scenario pins what the scheduler does, tick by tick (T4, T5).
#include <gtest/gtest.h>

#include "tests/scheduler/simulation.h"

namespace met::scheduler::testing {
namespace {

TEST(Trace, PlainDecode) {
  Simulation met(small_options(/*blocks=*/12));
  met.submit("A", {.prompt = 5, .max_tokens = 6});
  expect_trace("plain_decode", met.run());
  EXPECT_EQ(met.got("A").ids, met.solo("A"));
}

TEST(Trace, ChunkedPrefill) {  // P1: 40 tokens in steps of 16
  Simulation met(small_options(/*blocks=*/16));
  met.submit("A", {.prompt = 40, .max_tokens = 2});
  expect_trace("chunked_prefill", met.run());
}

}  // namespace
}  // namespace met::scheduler::testing
