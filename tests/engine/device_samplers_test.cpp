// Bookkeeping of device sampling, through a device that records: what is uploaded, what is launched, who samples.
#include "engine/device_samplers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <numeric>

#include "engine/sample_params.h"
#include "gpu/mock/mock_backend.h"
#include "sampling/sampler.h"

namespace met::engine {
namespace {

using gpu::mock::LaunchRecord;
using gpu::mock::MockBackend;
using sampling::SamplingParams;

constexpr int kVocabulary = 70;
constexpr int kRows = 4;
constexpr std::size_t kMaskWords = 3;

SamplingParams seeded() {
  SamplingParams params;
  params.seed = 7;
  return params;
}

TEST(OnDevice, KnowsWhatTheKernelDoes) {
  struct Case {
    const char* name;
    void (*change)(SamplingParams&);
    bool want;
    std::size_t end_ids = 1;
  };
  const Case cases[] = {
      {"plain", [](SamplingParams&) {}, true},
      {"filters", [](SamplingParams& p) { p.top_k = 5, p.top_p = 0.5, p.min_p = 0.1; }, true},
      {"penalties", [](SamplingParams& p) { p.repetition_penalty = 1.1, p.frequency_penalty = 1; }, true},
      {"allowed", [](SamplingParams& p) { p.allowed_token_ids = {1, 2}; }, true},
      {"bias", [](SamplingParams& p) { p.logit_bias = {{1, 2.0F}, {2, 1.0F}}; }, true},
      {"a bias twice", [](SamplingParams& p) { p.logit_bias = {{1, 2.0F}, {2, 1.0F}, {1, 1.0F}}; }, false},
      {"too many biases",
       [](SamplingParams& p) {
         for (int i = 0; i <= kSampleBiasMax; ++i) p.logit_bias.emplace_back(i, 1.0F);
       },
       false},
      {"min_tokens", [](SamplingParams& p) { p.min_tokens = 3; }, true, 64},
      {"too many end ids", [](SamplingParams& p) { p.min_tokens = 3; }, false, 65},
      {"end ids without min_tokens", [](SamplingParams&) {}, true, 65},
      {"20 logprobs", [](SamplingParams& p) { p.logprobs = 20; }, true},
      {"21 logprobs", [](SamplingParams& p) { p.logprobs = 21; }, false},
      {"typical", [](SamplingParams& p) { p.typical_p = 0.5; }, false},
      {"greedy typical", [](SamplingParams& p) { p.typical_p = 0.5, p.temperature = 0; }, true},
      {"top n sigma", [](SamplingParams& p) { p.top_n_sigma = 1; }, false},
      {"xtc", [](SamplingParams& p) { p.xtc_probability = 0.1; }, false},
      {"mirostat", [](SamplingParams& p) { p.mirostat = 2; }, false},
      {"mirostat with top_k 1", [](SamplingParams& p) { p.mirostat = 2, p.top_k = 1; }, false},
      {"dynamic temperature", [](SamplingParams& p) { p.dynatemp_range = 0.1; }, false},
      {"greedy dry", [](SamplingParams& p) { p.dry_multiplier = 1, p.temperature = 0; }, false},
      {"lz", [](SamplingParams& p) { p.lz_penalty = 1; }, false},
      {"bad words", [](SamplingParams& p) { p.bad_words = {{1, 2}}; }, false},
  };
  for (const Case& c : cases) {
    SamplingParams params = seeded();
    c.change(params);
    EXPECT_EQ(on_device(params, c.end_ids), c.want) << c.name;
  }
}

TEST(SampleParams, AreTheReferencesNumbers) {
  SamplingParams params = seeded();
  params.temperature = 0.6;
  params.min_p = 0.1;
  params.top_k = -1;
  params.min_tokens = std::numeric_limits<int>::max();
  const SampleParams out = sample_params(params, 10, 2);
  EXPECT_EQ(out.inverse_temperature, static_cast<float>(1.0 / 0.6));
  EXPECT_EQ(out.min_p_offset, std::log(0.1) / (1.0 / 0.6));
  EXPECT_EQ(out.top_k, 0);
  EXPECT_EQ(out.end_position, std::numeric_limits<std::int32_t>::max());
  EXPECT_EQ(out.end_ids, 2);
  EXPECT_EQ(out.modes, kSampleMinP);
  EXPECT_EQ(sample_params(seeded(), 10, 2).end_ids, 0) << "without min_tokens nothing is masked";
}

/// A device, its samplers and a batch to fill.
class DeviceSamplersTest : public testing::Test {
 protected:
  void SetUp() override {
    logits_ = *gpu_.allocate(kRows * kVocabulary * sizeof(float), "logits");
    auto made = DeviceSamplers::make(
        gpu_, {.rows = kRows, .scores = 6, .vocabulary = kVocabulary, .positions = 100}, logits_);
    ASSERT_TRUE(made) << made.error().message;
    samplers_ = std::move(*made);
  }
  void TearDown() override {
    samplers_.reset();
    gpu_.free(logits_);
  }

  /// A batch whose rows all begin, one sample each.
  scheduler::StepBatch batch_of(const std::vector<SamplingParams>& params, std::int32_t position = 3) {
    scheduler::StepBatch batch;
    for (std::size_t i = 0; i < params.size(); ++i) {
      const auto row = static_cast<std::int32_t>(params.size() - 1 - i);
      batch.added.push_back({.device_row = row,
                             .sampling = &params[i],
                             .prompt = kPrompt,
                             .output = kOutput,
                             .eos_ids = kEos,
                             .stop_ids = kStop});
      batch.samples.push_back({.row = static_cast<std::int32_t>(i),
                               .device_row = row,
                               .logits = static_cast<std::int32_t>(i),
                               .position = position,
                               .logprobs = params[i].logprobs});
    }
    return batch;
  }
  /// The same rows in the next step.
  scheduler::StepBatch next_of(const scheduler::StepBatch& batch) {
    scheduler::StepBatch next;
    next.samples = batch.samples;
    for (auto& work : next.samples) ++work.position;
    return next;
  }

  SampleArgs args_of(const LaunchRecord& launch) const {
    SampleArgs args{};
    EXPECT_EQ(launch.arguments.size(), 1U);
    std::memcpy(&args, launch.arguments[0].bytes.data(), sizeof args);
    return args;
  }
  /// Launches the sampling of the step that was prepared.
  SampleArgs sample() {
    EXPECT_TRUE(samplers_->sample(kRows, stream()));
    EXPECT_TRUE(gpu_.synchronize(stream()));
    return args_of(gpu_.launches().back());
  }
  template <class T>
  std::vector<T> read(const T* at, std::size_t count) {
    std::vector<T> out(count);
    EXPECT_TRUE(gpu_.copy_to_host(out.data(), {reinterpret_cast<std::uint64_t>(at)}, count * sizeof(T)));
    return out;
  }
  template <class T>
  void write(const T* at, const std::vector<T>& values) {
    EXPECT_TRUE(
        gpu_.copy_to_device({reinterpret_cast<std::uint64_t>(at)}, values.data(), values.size() * sizeof(T)));
  }
  scheduler::StepResults settle(const scheduler::StepBatch& batch) {
    scheduler::StepResults results;
    results.samples.resize(batch.samples.size());
    results.prompt_logprobs.resize(batch.prompt_logprobs.size());
    const auto settled = samplers_->settle(batch, results);
    EXPECT_TRUE(settled) << settled.error().message;
    return results;
  }
  gpu::Stream stream() { return gpu_.default_stream(); }

  const std::vector<scheduler::TokenId> kPrompt{5, 6, 5};
  const std::vector<scheduler::TokenId> kOutput{9};
  const std::vector<scheduler::TokenId> kEos{1};
  const std::vector<scheduler::TokenId> kStop{2, 3};
  MockBackend gpu_;
  gpu::DevicePtr logits_;
  std::unique_ptr<DeviceSamplers> samplers_;
};

TEST_F(DeviceSamplersTest, AStepSaysWhatItSamples) {
  std::vector<SamplingParams> params(3, seeded());
  params[1].temperature = 0;
  params[2].logprobs = 4;
  const auto batch = batch_of(params, 17);
  ASSERT_TRUE(samplers_->prepare(batch, stream()));
  const SampleArgs args = sample();
  EXPECT_EQ(args.vocabulary, kVocabulary);
  EXPECT_EQ(read(args.step, 1)[0].rows, 3);
  const auto rows = read(args.rows, 3);
  EXPECT_EQ(rows[0].device_row, 2);
  EXPECT_EQ(rows[0].position, 17);
  EXPECT_EQ(rows[1].logits, 1);
  EXPECT_EQ(rows[1].logprobs, -1);
  EXPECT_EQ(rows[2].logprobs, 4);
  EXPECT_EQ(rows[2].mask, -1);
  EXPECT_EQ(rows[2].given, -1);
  const auto known = read(args.params, kRows);
  EXPECT_EQ(known[2].modes, 0U);
  EXPECT_EQ(known[1].modes, kSampleGreedy);
  EXPECT_EQ(known[0].seed, 7U);
  settle(batch);
}

TEST_F(DeviceSamplersTest, ArgumentsNeverChange) {  // G4
  const std::vector<SamplingParams> params(2, seeded());
  const auto first = batch_of(params);
  ASSERT_TRUE(samplers_->prepare(first, stream()));
  const SampleArgs one = sample();
  const auto second = next_of(first);
  ASSERT_TRUE(samplers_->prepare(second, stream()));
  const SampleArgs two = sample();
  EXPECT_EQ(std::memcmp(&one, &two, sizeof one), 0);
  EXPECT_EQ(reinterpret_cast<std::uint64_t>(one.fed), samplers_->fed().value);
}

TEST_F(DeviceSamplersTest, StepsInFlightHaveTheirOwnOutcomes) {  // X2
  std::vector<SamplingParams> params(2, seeded());
  params[1].logprobs = 2;
  const auto first = batch_of(params);
  ASSERT_TRUE(samplers_->prepare(first, stream()));
  const SampleArgs args = sample();
  const auto first_begin = read(args.step, 1)[0].outcomes_begin;
  const auto second = next_of(first);
  ASSERT_TRUE(samplers_->prepare(second, stream()));
  sample();
  const auto second_begin = read(args.step, 1)[0].outcomes_begin;
  ASSERT_NE(first_begin, second_begin);
  // What the kernels would have written.
  write(args.outcomes + first_begin, std::vector<SampleOutcome>{{11, 0}, {12, 0}});
  write(args.outcomes + second_begin, std::vector<SampleOutcome>{{21, kSampleNonFinite}, {22, kSampleEmpty}});
  write(args.logprobs + first_begin + 1, std::vector<SampleLogprobs>{{-0.5F, {-0.25F, -2.0F}}});
  write(args.top_ids + first_begin + 1, std::vector<SampleTopIds>{{2, {40, 41}, 777}});
  const auto results = settle(first);
  EXPECT_EQ(results.samples[0].id, 11);
  EXPECT_EQ(results.samples[1].id, 12);
  EXPECT_EQ(results.samples[1].logprobs.chosen, -0.5F);
  EXPECT_EQ(results.samples[1].logprobs.rank, 777);
  ASSERT_EQ(results.samples[1].logprobs.top.size(), 2U);
  EXPECT_EQ(results.samples[1].logprobs.top[1].id, 41);
  EXPECT_EQ(results.samples[1].logprobs.top[1].logprob, -2.0F);
  const auto later = settle(second);
  EXPECT_EQ(later.samples[0].flags, scheduler::kFlagNonFinite);
  EXPECT_EQ(later.samples[1].flags, scheduler::kFlagEmptyMask);
  EXPECT_TRUE(later.samples[1].logprobs.top.empty()) << "a flagged row has none";
}

TEST_F(DeviceSamplersTest, ListsOfARowAreUploadedWhenItBegins) {
  std::vector<SamplingParams> params(1, seeded());
  params[0].min_tokens = 5;
  params[0].logit_bias = {{8, 1.5F}, {9, -2.0F}};
  params[0].allowed_token_ids = {0, 33, 69};
  const auto batch = batch_of(params);
  ASSERT_TRUE(samplers_->prepare(batch, stream()));
  const SampleArgs args = sample();
  EXPECT_THAT(read(args.end_ids, 3), testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(read(args.biases, 2)[1].id, 9);
  EXPECT_EQ(read(args.biases, 2)[1].bias, -2.0F);
  EXPECT_THAT(read(args.allowed, kMaskWords), testing::ElementsAre(1U, 2U, 32U));
  const auto known = read(args.params, 1)[0];
  EXPECT_EQ(known.modes, kSampleAllowed);
  EXPECT_EQ(known.end_ids, 3);
  EXPECT_EQ(known.biases, 2);
  EXPECT_EQ(known.end_position, 8);
}

TEST_F(DeviceSamplersTest, CountsBeginWithPromptAndOutput) {  // S19
  std::vector<SamplingParams> params(2, seeded());
  params[1].presence_penalty = 1;
  const auto batch = batch_of(params);
  ASSERT_TRUE(samplers_->prepare(batch, stream()));
  ASSERT_TRUE(gpu_.synchronize(stream()));
  ASSERT_EQ(gpu_.launches().size(), 1U) << "only the row with penalties";
  const LaunchRecord& launch = gpu_.launches()[0];
  EXPECT_EQ(launch.function, "sample_begin");
  EXPECT_EQ(launch.grid.x, 1U);
  SampleBeginArgs args{};
  std::memcpy(&args, launch.arguments[0].bytes.data(), sizeof args);
  const SampleBegin begin = read(args.rows, 1)[0];
  EXPECT_EQ(begin.device_row, 0);
  EXPECT_EQ(begin.prompt, 3);
  EXPECT_EQ(begin.output, 1);
  EXPECT_THAT(read(args.ids + begin.ids_begin, 4), testing::ElementsAre(5, 6, 5, 9));
}

TEST_F(DeviceSamplersTest, CountsOfManyLongPromptsComeInParts) {
  const std::vector<scheduler::TokenId> prompt(40'000, 4);
  std::vector<SamplingParams> params(3, seeded());
  for (auto& p : params) p.repetition_penalty = 1.5;
  auto batch = batch_of(params);
  for (auto& added : batch.added) added.prompt = prompt;
  ASSERT_TRUE(samplers_->prepare(batch, stream()));
  ASSERT_EQ(gpu_.launches().size(), 3U);
  EXPECT_EQ(gpu_.counts(stream()).synchronizes, 3U)
      << "one when made, and before the ids' memory is used again";
}

TEST_F(DeviceSamplersTest, ARowWithoutAMaskMayTakeEveryId) {
  const std::vector<SamplingParams> params(3, seeded());
  const auto batch = batch_of(params);
  const std::vector<std::uint32_t> one{1, 2, 3};
  const std::vector<std::uint32_t> two{4, 5, 6};
  const std::vector<std::span<const std::uint32_t>> masks{one, {}, two};
  ASSERT_TRUE(samplers_->prepare(batch, stream(), /*masked=*/true));
  ASSERT_TRUE(samplers_->mask(masks, stream()));
  const SampleArgs args = sample();
  const auto rows = read(args.rows, 3);
  EXPECT_EQ(rows[0].mask, 0);
  EXPECT_EQ(rows[1].mask, 1);
  EXPECT_EQ(rows[2].mask, 2);
  EXPECT_THAT(read(args.masks, 3 * kMaskWords), testing::ElementsAre(1U, 2U, 3U, ~0U, ~0U, ~0U, 4U, 5U, 6U));
}

/// Rows that the device does not know are sampled by the reference.
class HostRowTest : public DeviceSamplersTest {
 protected:
  void SetUp() override {
    DeviceSamplersTest::SetUp();
    params_ = {seeded(), seeded()};
    params_[1].typical_p = 0.9;
    row_.resize(kVocabulary);
    for (std::size_t i = 0; i < row_.size(); ++i) row_[i] = static_cast<float>((i * 37) % 19) / 4;
    write(reinterpret_cast<const float*>(logits_.value) + kVocabulary, row_);
  }
  std::int32_t reference(std::int32_t position, std::span<const std::uint32_t> mask = {}) {
    std::vector<float> logits = row_;
    return sampler_->sample(logits, position, mask)->id;
  }

  std::vector<SamplingParams> params_;
  std::vector<float> row_;
  std::optional<sampling::Sampler> sampler_;
};

TEST_F(HostRowTest, FeedsItsIdBeforeTheNextStep) {  // E6
  sampler_ = *sampling::Sampler::create(params_[1], {.vocab_size = kVocabulary, .prompt = kPrompt});
  const auto batch = batch_of(params_);
  ASSERT_TRUE(samplers_->prepare(batch, stream()));
  const SampleArgs args = sample();
  EXPECT_EQ(read(args.params, 1)[0].modes, kSampleOnHost) << "device row 0 is the batch's second";
  EXPECT_EQ(read(args.params, 2)[1].modes, 0U);
  const auto next = next_of(batch);
  ASSERT_TRUE(samplers_->prepare(next, stream()));
  EXPECT_EQ(read(args.fed, 1)[0], reference(3));
  const auto results = settle(batch);
  EXPECT_EQ(results.samples[1].id, reference(3));
  EXPECT_EQ(settle(next).samples[1].id, reference(4))
      << "a step that nothing follows is sampled when it settles";
}

TEST_F(HostRowTest, KeepsToItsMask) {
  sampler_ = *sampling::Sampler::create(params_[1], {.vocab_size = kVocabulary, .prompt = kPrompt});
  const auto batch = batch_of(params_);
  const std::vector<std::uint32_t> mask{0, 1U << 5, 0};
  const std::vector<std::span<const std::uint32_t>> masks{{}, mask};
  ASSERT_TRUE(samplers_->prepare(batch, stream(), /*masked=*/true));
  ASSERT_TRUE(samplers_->mask(masks, stream()));
  EXPECT_EQ(settle(batch).samples[1].id, 37);
}

TEST_F(HostRowTest, EndsWithItsSequence) {
  const auto batch = batch_of(params_);
  ASSERT_TRUE(samplers_->prepare(batch, stream()));
  settle(batch);
  // The row goes to a sequence that the device samples.
  const std::vector<SamplingParams> plain(1, seeded());
  auto next = batch_of(plain);
  next.removed = {0};
  ASSERT_TRUE(samplers_->prepare(next, stream()));
  const SampleArgs args = sample();
  EXPECT_EQ(read(args.params, 1)[0].modes, 0U);
  const auto begin = read(args.step, 1)[0].outcomes_begin;
  write(args.outcomes + begin, std::vector<SampleOutcome>{{33, 0}});
  EXPECT_EQ(settle(next).samples[0].id, 33);
}

TEST_F(DeviceSamplersTest, PromptLogprobsAreScored) {  // P9
  scheduler::StepBatch batch;
  batch.prompt_logprobs = {{.logits = 0, .id = 4, .top = 1}, {.logits = 2, .id = 5, .top = 0}};
  ASSERT_TRUE(samplers_->prepare(batch, stream()));
  ASSERT_TRUE(samplers_->score(batch, stream()));
  ASSERT_TRUE(gpu_.synchronize(stream()));
  const SampleArgs args = args_of(gpu_.launches().back());
  const auto step = read(args.step, 1)[0];
  EXPECT_EQ(step.rows, 2);
  const auto rows = read(args.rows, 2);
  EXPECT_EQ(rows[0].given, 4);
  EXPECT_EQ(rows[0].logprobs, 1);
  EXPECT_EQ(rows[1].logits, 2);
  write(args.logprobs + step.outcomes_begin, std::vector<SampleLogprobs>{{-1.0F, {-0.5F}}, {-3.0F, {}}});
  write(args.top_ids + step.outcomes_begin, std::vector<SampleTopIds>{{1, {6}, 3}, {0, {}, 50'000}});
  const auto results = settle(batch);
  EXPECT_EQ(results.prompt_logprobs[0].chosen, -1.0F);
  EXPECT_EQ(results.prompt_logprobs[0].top[0].id, 6);
  EXPECT_EQ(results.prompt_logprobs[1].chosen, -3.0F);
  EXPECT_TRUE(results.prompt_logprobs[1].top.empty());
  EXPECT_EQ(results.prompt_logprobs[0].rank, 3);
  EXPECT_EQ(results.prompt_logprobs[1].rank, 50'000);
}

TEST_F(DeviceSamplersTest, AllocatesWhatItSays) {
  std::size_t bytes = 0;
  for (const gpu::SiteUse& use : gpu_.allocations())
    if (use.site == "samplers") bytes = use.live_bytes;
  EXPECT_EQ(bytes, DeviceSamplers::device_bytes(
                       {.rows = kRows, .scores = 6, .vocabulary = kVocabulary, .positions = 100}));
}

TEST(DeviceSamplers, AVocabularyThatDoesNotFitIsRefused) {
  MockBackend gpu;
  const auto made = DeviceSamplers::make(gpu, {.rows = 1, .vocabulary = 1'000'000, .positions = 10}, {});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().field, "vocab_size");
}

}  // namespace
}  // namespace met::engine
