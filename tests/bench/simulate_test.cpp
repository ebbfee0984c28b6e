// Traces in, latencies out: the reader's errors, times against arithmetic, and that equal input gives equal output.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <random>

#include "bench/simulator.h"

namespace met::bench {
namespace {

scheduler::EngineConfig engine_config() {
  scheduler::EngineConfig config;
  config.plan = {.blocks_total = 2000,
                 .max_batch_size = 32,
                 .max_seq_len = 8192,
                 .max_prefill_tokens = 2048,
                 .mixed_prefill_tokens = 256};
  config.max_num_seqs = 1000;
  return config;
}

SimulationOptions options_of(scheduler::EngineConfig engine = engine_config()) {
  return {.engine = std::move(engine)};
}

TracedRequest request(std::int64_t at_us, std::vector<TextPiece> prompt, std::uint64_t output,
                      std::int64_t tokens) {
  TracedRequest out{
      .at_us = at_us, .prompt = std::move(prompt), .output_text = output, .output_tokens = tokens};
  for (const TextPiece& piece : out.prompt) out.prompt_tokens += piece.tokens;
  return out;
}

Simulated run(const std::vector<TracedRequest>& trace, const SimulationOptions& options) {
  auto done = simulate(trace, options);
  EXPECT_TRUE(done) << done.error().message;
  return done ? std::move(*done) : Simulated{};
}

std::vector<TracedRequest> conversations(std::int64_t requests, double per_second, int tenants = 1) {
  return make_conversations(
      {.requests = requests, .per_second = per_second, .context = 8000, .tenants = tenants});
}

TEST(RequestTrace, ReadsItsOwnLinesAndThoseOfMooncake) {
  const auto trace = read_trace(
      "{\"timestamp\": 20, \"input_length\": 1100, \"output_length\": 7, \"hash_ids\": [5, 6]}\n\n"
      "{\"timestamp\": 1.5, \"input_length\": 9, \"output_length\": 3, \"prompt\": [[4, 5], [8, 4]], "
      "\"output_text\": 77, \"priority\": -1, \"tenant\": 3, \"cancel_after\": 250}\n");
  ASSERT_TRUE(trace) << trace.error().message;
  ASSERT_EQ(trace->size(), 2U);
  const TracedRequest& own = trace->front();  // by arrival
  EXPECT_EQ(own.at_us, 1500);
  ASSERT_EQ(own.prompt.size(), 2U);
  EXPECT_EQ(own.prompt[1].text, 8U);
  EXPECT_EQ(own.output_text, 77U);
  EXPECT_EQ(own.priority, -1);
  EXPECT_EQ(own.tenant, 3U);
  EXPECT_EQ(own.leaves_after_us, 250'000);
  const TracedRequest& hashed = trace->back();
  ASSERT_EQ(hashed.prompt.size(), 3U) << "two blocks of 512, and 76 tokens of its own";
  EXPECT_EQ(hashed.prompt[1].tokens, 512);
  EXPECT_EQ(hashed.prompt[2].tokens, 76);
  const auto again = read_trace(write_line(own));
  ASSERT_TRUE(again);
  EXPECT_EQ(write_line(again->front()), write_line(own));
}

TEST(RequestTrace, ErrorsNameTheLineAndTheField) {
  const struct {
    std::string_view line;
    std::string_view field;
  } kCases[] = {
      {"{\"timestamp\":0,\"input_length\":1}", "output_length"},
      {"{\"timestamp\":-1,\"input_length\":1,\"output_length\":1}", "timestamp"},
      {"{\"timestamp\":0,\"input_length\":0,\"output_length\":1}", "input_length"},
      {"{\"timestamp\":0,\"input_length\":1e9,\"output_length\":1}", "input_length"},
      {"{\"timestamp\":0,\"input_length\":1,\"output_length\":-3}", "output_length"},
      {"{\"timestamp\":0,\"input_length\":3,\"output_length\":1,\"prompt\":[[1,2],[2,2]]}", "prompt"},
      {"{\"timestamp\":0,\"input_length\":3,\"output_length\":1,\"prompt\":[[1]]}", "prompt"},
      {"{\"timestamp\":0,\"input_length\":3,\"output_length\":1,\"hash_ids\":[\"x\"]}", "hash_ids"},
      {"{\"timestamp\":0,\"input_length\":3,\"output_length\":1,\"tenant\":\"x\"}", "tenant"},
      {"[]", ""},
      {"{", ""},
  };
  for (const auto& one : kCases) {
    const std::string text = "\n" + std::string(one.line) + "\n";
    const auto trace = read_trace(text);
    ASSERT_FALSE(trace) << one.line;
    EXPECT_EQ(trace.error().field, one.field) << one.line;
    EXPECT_NE(trace.error().message.find("line 2: "), std::string::npos) << trace.error().message;
  }
}

TEST(FineHistogram, PercentilesAreWithinOnePartIn128) {
  std::mt19937_64 random(3);
  FineHistogram histogram;
  std::vector<std::int64_t> values;
  for (int i = 0; i < 20'000; ++i) {
    values.push_back(static_cast<std::int64_t>(random() >> (20 + random() % 40)));
    histogram.add(values.back());
  }
  std::ranges::sort(values);
  for (const double share : {0.001, 0.25, 0.5, 0.9, 0.99, 1.0}) {
    const auto rank = static_cast<std::size_t>(share * static_cast<double>(values.size()) + 0.999999) - 1;
    const std::int64_t got = histogram.percentile(share);
    EXPECT_GE(got, values[rank]) << share;
    EXPECT_LE(got, values[rank] + values[rank] / 128) << share;
  }
  EXPECT_EQ(histogram.most(), values.back());
}

TEST(Simulate, TimesAreThoseOfTheStepModel) {
  SimulationOptions options = options_of();
  options.time = {.step_us = 1000, .token_ns = 2000, .context_ns = 100, .pair_ps = 1'000'000, .host_us = 30};
  const Simulated done = run({request(5000, {{1, 100}}, 2, 4)}, options);
  EXPECT_EQ(done.finished, 1);
  EXPECT_EQ(done.steps, 4);
  // 30 of host, 1000 of the step, 100 tokens of 2 us, 5050 pairs of 1 us.
  EXPECT_EQ(done.all.first_token.most(), 30 + 1000 + 200 + 5050);
  // 30, 1000, 2, and 100 to 102 positions of 0.1 us.
  EXPECT_EQ(done.all.between_tokens.count(), 3);
  EXPECT_EQ(done.all.between_tokens.most(), 30 + 1000 + (2000 + 102 * 100) / 1000);
  EXPECT_EQ(done.output_tokens, 4);
  EXPECT_EQ(done.duration_us, done.all.whole.most());
}

TEST(Simulate, AtDepthTwoTheHostsWorkIsHidden) {  // E6
  SimulationOptions options = options_of();
  options.time = {.step_us = 1000, .token_ns = 0, .context_ns = 0, .pair_ps = 0, .host_us = 300};
  const std::vector<TracedRequest> trace = {request(0, {{1, 10}}, 2, 40)};
  EXPECT_EQ(run(trace, options).all.between_tokens.percentile(0.5), 1300);
  options.engine.plan.depth = 2;
  EXPECT_EQ(run(trace, options).all.between_tokens.percentile(0.5), 1000);
}

TEST(Simulate, ASecondTurnFindsQuestionAndAnswer) {  // B5, P2
  const std::vector<TracedRequest> trace = {request(0, {{1, 100}}, 2, 60),
                                            request(60'000'000, {{1, 100}, {2, 60}, {3, 20}}, 4, 5)};
  const Simulated done = run(trace, options_of());
  EXPECT_EQ(done.prompt_tokens, 280);
  EXPECT_EQ(done.hit_tokens, 144) << "159 positions were computed, in whole blocks of 16";
  SimulationOptions off = options_of();
  off.engine.prefix_caching = false;
  EXPECT_EQ(run(trace, off).hit_tokens, 0);
}

TEST(Simulate, ABurstWithOneSystemPromptComputesItOnce) {  // P10
  std::vector<TracedRequest> trace;
  for (std::uint64_t i = 0; i < 8; ++i) trace.push_back(request(0, {{1, 2000}, {10 + i, 40}}, 100 + i, 8));
  SimulationOptions options = options_of();
  options.engine.plan.producer_tokens = 0;
  const Simulated each = run(trace, options);
  options.engine.plan.producer_tokens = 512;
  const Simulated once = run(trace, options);
  EXPECT_EQ(once.hit_tokens, 7 * 2000);
  EXPECT_LT(each.hit_tokens, once.hit_tokens);
  EXPECT_LT(once.all.first_token.most(), each.all.first_token.most() / 2);
  EXPECT_LT(once.all.first_token.percentile(0.5), each.all.first_token.percentile(0.5));
}

TEST(Simulate, EqualInputGivesEqualOutput) {
  const std::vector<TracedRequest> trace = conversations(600, 20, 3);
  SimulationOptions options = options_of();
  options.replicas = 3;
  const Simulated first = run(trace, options);
  EXPECT_EQ(first.finished, 600);
  EXPECT_EQ(first.tenants.size(), 3U);
  EXPECT_EQ(first, run(trace, options));
  options.time.token_ns += 1;
  EXPECT_NE(first, run(trace, options));
}

TEST(Simulate, ARouterThatKnowsPrefixesFindsMoreOfThem) {
  const std::vector<TracedRequest> trace = make_conversations(
      {.requests = 300, .per_second = 10, .system_prompts = 0, .think_seconds = 1, .context = 8000});
  SimulationOptions options = options_of();
  options.replicas = 8;
  options.router = Router::kRoundRobin;
  const Simulated blind = run(trace, options);
  options.router = Router::kPrefix;
  const Simulated seeing = run(trace, options);
  EXPECT_EQ(blind.finished, 300);
  EXPECT_EQ(seeing.finished, 300);
  EXPECT_GT(seeing.hit_tokens, 2 * blind.hit_tokens);
}

TEST(Simulate, ATightPoolPreemptsAndEveryRequestEnds) {  // S14, S18
  SimulationOptions options = options_of();
  options.engine.plan.blocks_total = 600;
  options.engine.plan.kv_admit_watermark = 16;
  const Simulated done = run(conversations(300, 12), options);
  EXPECT_EQ(done.finished, 300);
  EXPECT_GT(done.preemptions, 0);
  EXPECT_GT(done.recomputed_tokens, 0);
}

/// Streams that come together and want more than the pool has for one and a half of them.
std::vector<TracedRequest> crowd(std::int64_t streams, std::int64_t tokens) {
  std::vector<TracedRequest> trace;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(streams); ++i)
    trace.push_back(request(0, {{1 + i, 15}}, 1000 + i, tokens));
  return trace;
}
SimulationOptions crowded(std::int64_t tokens, std::int64_t watermark) {
  SimulationOptions options = options_of();
  options.engine.plan.blocks_total = static_cast<int>(3 * (tokens + 32) / 32) + 1;
  options.engine.plan.max_batch_size = 8;
  options.engine.plan.max_seq_len = tokens + 80;
  options.engine.plan.kv_admit_watermark = watermark;
  return options;
}
double recomputed_share(const Simulated& done) {
  return static_cast<double>(done.recomputed_tokens) / static_cast<double>(done.computed_tokens);
}

TEST(Simulate, LongStreamsAreNotComputedAgainForEver) {  // S26: the bar is 15 %
  const Simulated one = run(crowd(8, 400), crowded(400, 128));
  EXPECT_GT(one.preemptions, 0);
  EXPECT_LE(recomputed_share(one), 0.15);
  EXPECT_LE(one.steps, 2000) << "a stream begins when what it will use until the others end is there";
  const Simulated queue = run(crowd(24, 400), crowded(400, 64));
  EXPECT_GT(queue.preemptions, 0);
  EXPECT_LE(recomputed_share(queue), 0.15);
  EXPECT_LE(queue.steps, 5200);
  SimulationOptions options = crowded(400, 32);
  options.engine.plan.blocks_total = 701;
  options.engine.plan.max_batch_size = 64;
  const Simulated many = run(crowd(150, 400), options);
  EXPECT_EQ(many.finished, 150);
  EXPECT_GT(many.preemptions, 0);
  EXPECT_LE(recomputed_share(many), 0.15);
}

TEST(Simulate, SwapTakesItsTimeAndIsTakenWhereItIsCheaper) {  // S17
  SimulationOptions options = crowded(400, 32);
  options.engine.plan.swap_blocks = 400;
  options.engine.swap_block_ns = 2 * options.time.swap_block_ns;
  const Simulated cheap = run(crowd(8, 400), options);
  EXPECT_GT(cheap.swaps, 0);
  options.time.swap_block_ns *= 40;
  options.engine.swap_block_ns = 2 * options.time.swap_block_ns;
  const Simulated dear = run(crowd(8, 400), options);
  EXPECT_EQ(dear.swaps, 0);
  EXPECT_LT(cheap.recomputed_tokens, dear.recomputed_tokens);
  // The same schedule with slower copies takes longer.
  options.engine.swap_block_ns = 1;
  options.time.swap_block_ns = 1000;
  const Simulated fast = run(crowd(8, 400), options);
  options.time.swap_block_ns = 100'000;
  EXPECT_GT(run(crowd(8, 400), options).duration_us, fast.duration_us);
}

TEST(Simulate, CheckpointsDecideWhatAModelWithRecurrentStateHits) {  // H2, H4, H6, H7, H9
  std::vector<TracedRequest> trace = {request(0, {{1, 1000}}, 2, 5),
                                      request(10'000'000, {{1, 1000}, {2, 5}, {3, 60}}, 4, 5),
                                      request(20'000'000, {{1, 900}, {5, 60}}, 6, 5)};
  struct Case {
    const char* name;
    scheduler::RecurrentConfig state;
    std::int64_t hits;
  };
  for (const Case& c :
       {Case{"no state: blocks are enough", {}, 992 + 896},
        Case{"the first prompt's tail", {.on = true}, 992},
        Case{"no tail", {.on = true, .tail = scheduler::TailCapture::kOff}, 0},
        Case{"captured inside the chunk", {.on = true, .tail = scheduler::TailCapture::kMidchunk}, 992},
        Case{"no slot", {.on = true, .slots = 0}, 0},
        Case{"a checkpoint each 128 tokens at the end of a chunk of 256",
             {.on = true, .tail = scheduler::TailCapture::kOff, .interval_blocks = 8},
             768 + 768},
        Case{"of no use below 993 tokens", {.on = true, .least_tokens = 993}, 0},
        Case{"another session", {.on = true, .hermetic = true}, 0}}) {
    SimulationOptions options = options_of();
    options.engine.plan.max_prefill_tokens = 256;
    options.engine.plan.recurrent = c.state;
    const Simulated done = run(trace, options);
    EXPECT_EQ(done.hit_tokens, c.hits) << c.name;
    EXPECT_EQ(done.states_restored > 0, c.state.on && c.hits > 0) << c.name;
  }
}

TEST(Simulate, SlaiHoldsGapsAndItsSkipsAreBounded) {  // S10, S11: the bound holds over a whole load
  const std::vector<TracedRequest> trace = conversations(500, 14);
  SimulationOptions options = options_of();
  options.engine.plan.mixed_prefill_tokens = 2048;
  const Simulated fifo = run(trace, options);
  options.engine.plan.policy = scheduler::Policy::kSlai;
  options.engine.plan.tbt_deadline_us = 10'000;
  const Simulated slai = run(trace, options);
  EXPECT_EQ(fifo.skips_most, 0);
  EXPECT_GT(slai.skips_most, 0);
  EXPECT_LE(slai.skips_most, options.engine.plan.slai_skips_max);
  EXPECT_EQ(slai.finished, 500);
  // Percentiles are exact to one part in 128.
  EXPECT_LE(slai.all.between_tokens.percentile(0.99), fifo.all.between_tokens.percentile(0.99) * 129 / 128);
}

// S5: chats that arrive faster than chunks of the least length let in, on a device where a mixed step takes more than both its
// parts. No step is of decode rows alone then.
TEST(Simulate, ALoadThatAlwaysHasPromptsWaitingIsNotHeldToShortChunks) {
  std::mt19937_64 random(1);
  std::lognormal_distribution<double> prompt(5, 1);
  std::lognormal_distribution<double> output(5, 0.8);
  std::exponential_distribution<double> pause(50e-6);
  std::vector<TracedRequest> trace;
  double at_us = 0;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    at_us += pause(random);
    trace.push_back(request(static_cast<std::int64_t>(at_us),
                            {{2 * i, std::clamp<std::int64_t>(std::lround(prompt(random)), 4, 2048)}},
                            2 * i + 1, std::clamp<std::int64_t>(std::lround(output(random)), 4, 1024)));
  }
  SimulationOptions options = options_of();
  options.engine.plan.blocks_total = 40'000;
  options.engine.plan.max_batch_size = 256;
  options.engine.plan.mixed_prefill_tokens = 512;
  const Simulated done = run(trace, options);
  EXPECT_EQ(done.finished, 1000);
  EXPECT_LE(static_cast<double>(done.duration_us), at_us + 5e6) << "what the last ones take to write";
  EXPECT_LE(done.all.first_token.percentile(0.99), 1'000'000);
  EXPECT_LE(done.all.between_tokens.percentile(0.99), 2 * done.all.between_tokens.percentile(0.5));
}

TEST(Simulate, WhoLeavesWhoIsTooLongAndWhoFindsTheDoorShut) {  // R1, R6, E12
  std::vector<TracedRequest> trace = {request(0, {{1, 100}}, 2, 500), request(0, {{3, 100}}, 4, 5),
                                      request(0, {{5, 9000}}, 6, 5), request(10, {{7, 100}}, 8, 5)};
  trace[0].leaves_after_us = 100'000;
  SimulationOptions options = options_of();
  options.engine.max_num_seqs = 2;
  const Simulated done = run(trace, options);
  EXPECT_EQ(done.left, 1);
  EXPECT_EQ(done.finished, 1);
  EXPECT_EQ(done.too_long, 1);
  EXPECT_EQ(done.refused, 1);
  EXPECT_LT(done.output_tokens, 200);
}

TEST(Conversations, HaveTheRateAndTheTextsThatTheyPromise) {
  const std::vector<TracedRequest> trace = make_conversations({.requests = 20'000, .per_second = 100});
  ASSERT_EQ(trace.size(), 20'000U);
  EXPECT_TRUE(std::ranges::is_sorted(trace, {}, &TracedRequest::at_us));
  EXPECT_NEAR(static_cast<double>(trace.back().at_us) * 1e-6, 200, 10);
  std::int64_t follow_ups = 0;
  for (const TracedRequest& one : trace) follow_ups += one.prompt.size() > 2 ? 1 : 0;
  EXPECT_NEAR(static_cast<double>(follow_ups) / 20'000, 0.6, 0.03);
}

TEST(Conversations, TheSmallTraceIsTheOneThatItsSeedGives) {
  const std::string path = MET_SOURCE_DIR "/benchmarks/traces/conversations_200.jsonl";
  std::ifstream file(path, std::ios::binary);
  ASSERT_TRUE(file) << path;
  std::string made;
  for (const TracedRequest& one : make_conversations({.requests = 200})) made += write_line(one);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), made);
}

}  // namespace
}  // namespace met::bench
