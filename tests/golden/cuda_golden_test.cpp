// Checkpoints of the CUDA families on the device, of floats and of E4M3: against the reference's logits and greedy texts,
// prefill against decode, alone against in a batch. Skipped where there is no device.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/json.h"
#include "gpu/device.h"
#include "tests/golden/fp8_mixture.h"
#include "tests/golden/mixed_checkpoint.h"
#include "tests/golden/support.h"

namespace met::golden {
namespace {

constexpr const char* kNames[] = {
    "gemma3-a",          "gemma3-b",        "llama-a",           "llama-b",          "llama-c",
    "mistral-a",         "mistral-b",       "qwen2-a",           "qwen2-b",          "qwen3-a",
    "qwen3-b",           "qwen3-c",         "qwen3_moe-a",       "qwen3_moe-b",      "smollm3-a",
    "smollm3-b",         "llama-fp8-block", "llama-fp8-channel", "llama-fp8-tensor", "qwen3-fp8-block",
    "qwen3-fp8-channel", "qwen3-fp8-tensor"};

std::vector<std::string> names() {
  std::vector<std::string> out;
  for (const char* name : kNames)
    if (std::filesystem::exists(golden_root() / name)) out.emplace_back(name);
  return out;
}

// Products of a checkpoint of E4M3 matrices round the rows that they read to E4M3, with a scale for 128 values: a float32
// model with that rounding alone is 0.05 to 0.125 off the reference's logits on these prompts.
constexpr double kE4m3Rows = 0.2;
bool is_fp8(const std::string& name) { return name.find("-fp8-") != std::string::npos; }

// However the rows of a prompt are spread over steps.
double agreement(const std::string& name) { return is_fp8(name) ? kE4m3Rows : 0.1; }

config::Settings cuda_settings(const std::string& name) {
  config::Settings settings;
  settings.model = checkpoint_path(name);
  settings.device = "cuda";
  settings.max_seq_len = 512;
  settings.max_batch_size = 40;
  settings.max_prefill_tokens = 1024;
  settings.kv_cache_gb = 0.25;
  return settings;
}

// What BF16 does to the reference itself: the measure of our own error.
struct Noise {
  std::vector<double> relative_rms;  // by prompt
  double max_abs = 0;                // of a logit
};
Noise bf16_noise(const std::string& name) {
  std::ifstream in(golden_root() / name / "golden.json");
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  const auto golden = json::parse(text);
  Noise noise;
  const json::Value* row = golden ? &*golden : nullptr;
  for (const char* key : {"noise", "bf16"})
    if (row != nullptr) row = row->find(key);
  if (row == nullptr) return noise;
  for (const json::Value& value : row->find("rel_rms")->as_array())
    noise.relative_rms.push_back(value.as_number());
  noise.max_abs = row->find("max_abs")->as_number();
  return noise;
}

class CudaGoldenMixed : public testing::Test {
 protected:
  void SetUp() override {
    const auto hardware = gpu::hardware_of({.kind = gpu::DeviceKind::kCuda});
    if (!hardware) GTEST_SKIP() << hardware.error().message;
  }
};
class CudaGolden : public CudaGoldenMixed, public testing::WithParamInterface<std::string> {};

TEST_P(CudaGolden, MeetsTheReference) {
  TestModel model(cuda_settings(GetParam()));
  int sequence = 0;
  const std::vector<Prompt> prompts = read_prompts(GetParam());
  const Noise reference = bf16_noise(GetParam());
  for (std::size_t p = 0; p < prompts.size(); ++p) {
    const Prompt& prompt = prompts[p];
    const double bound = is_fp8(GetParam()) ? kE4m3Rows : std::max(0.03, 3 * reference.relative_rms.at(p));
    std::vector<float> now = model.step({{.sequence = ++sequence, .ids = prompt.ids}})[0];
    const double error = relative_rms(now, prompt.last_logits);
    EXPECT_LE(error, bound) << prompt.ids.size() << " tokens";
    RecordProperty("relative_rms_" + std::to_string(p), std::to_string(error));
    const double noise = std::max(reference.max_abs, max_error(now, prompt.last_logits));
    for (std::size_t i = 0; i < prompt.greedy.size(); ++i) {
      if (prompt.margins[i] >= 2 * noise) {
        ASSERT_EQ(argmax(now), prompt.greedy[i]) << "step " << i << ", margin " << prompt.margins[i];
      }
      now = model.step({{.sequence = sequence, .ids = {prompt.greedy[i]}}})[0];
    }
  }
}

TEST_P(CudaGolden, ChunksAndCachedPrefixesAgree) {
  TestModel model(cuda_settings(GetParam()));
  int sequence = 0;
  for (const Prompt& prompt : read_prompts(GetParam())) {
    for (const std::size_t chunk : {std::size_t{1}, std::size_t{7}, std::size_t{16}, std::size_t{64}}) {
      const std::vector<float> last = model.step_in_chunks(++sequence, prompt.ids, chunk);
      EXPECT_LE(relative_rms(last, prompt.last_logits), agreement(GetParam())) << "chunks of " << chunk;
    }
  }
}

// Decode rows beside prefill rows in one step, and many decode rows at once.
TEST_P(CudaGolden, MixedStepsAndBatchesAgree) {
  TestModel model(cuda_settings(GetParam()));
  const std::vector<Prompt> prompts = read_prompts(GetParam());
  const Prompt& longest =
      *std::ranges::max_element(prompts, {}, [](const Prompt& p) { return p.ids.size(); });
  constexpr int kRows = 33;
  std::vector<TestModel::Feed> decode;
  for (int i = 0; i < kRows; ++i) {
    const Ids head(longest.ids.begin(), longest.ids.end() - 1);
    model.step({{.sequence = i, .ids = head}});
    decode.push_back({.sequence = i, .ids = {longest.ids.back()}});
  }
  decode.push_back({.sequence = kRows, .ids = longest.ids});
  const auto mixed = model.step(decode);
  for (std::size_t i = 0; i < mixed.size(); ++i)
    EXPECT_LE(relative_rms(mixed[i], longest.last_logits), agreement(GetParam())) << "row " << i;
  std::vector<TestModel::Feed> next;
  for (int i = 0; i < kRows; ++i) next.push_back({.sequence = i, .ids = {longest.greedy.at(0)}});
  const auto batch = model.step(next);
  for (const auto& row : batch) EXPECT_EQ(row, batch[0]) << "rows of one step with equal inputs";
}

// Decode steps of more rows than the projections are for, whose products are those of prefill with their norms split.
TEST_P(CudaGolden, LargeDecodeStepsMeetTheReference) {
  for (const bool codes : {false, true}) {
    config::Settings settings = cuda_settings(GetParam());
    settings.max_batch_size = 160;
    if (codes) settings.quantization = "fp8";
    const auto planned = engine::dry_run(settings);
    if (!planned && planned.error().field == "--quantization") continue;  // rows of this model are too short
    TestModel model(settings);
    const Prompt prompt = read_prompts(GetParam()).front();
    const Ids head(prompt.ids.begin(), prompt.ids.end() - 1);
    if (head.empty()) continue;
    int sequence = 0;
    for (const int rows : {70, 150}) {
      std::vector<TestModel::Feed> decode;
      for (int i = 0; i < rows; ++i) {
        model.step({{.sequence = ++sequence, .ids = head}});
        decode.push_back({.sequence = sequence, .ids = {prompt.ids.back()}});
      }
      const auto logits = model.step(decode);
      EXPECT_LE(relative_rms(logits[0], prompt.last_logits), codes ? 0.3 : agreement(GetParam())) << rows;
      for (const auto& row : logits) ASSERT_EQ(row, logits[0]) << "rows of one step with equal inputs";
    }
  }
}

// Matrices rounded to E4M3 while loading (those that are E4M3 stay as they are), and a cache of E4M3: near the reference, in prefill and in decode.
TEST_P(CudaGolden, Fp8StaysInsideItsNoise) {
  for (const bool weights : {true, false}) {
    config::Settings settings = cuda_settings(GetParam());
    (weights ? settings.quantization : settings.kv_cache_dtype) = "fp8";
    const auto planned = engine::dry_run(settings);
    if (!planned && planned.error().field == "--quantization") continue;  // rows of this model are too short
    TestModel model(settings);
    int sequence = 0;
    for (const Prompt& prompt : read_prompts(GetParam())) {
      std::vector<float> now = model.step({{.sequence = ++sequence, .ids = prompt.ids}})[0];
      EXPECT_LE(relative_rms(now, prompt.last_logits), 0.3)
          << (weights ? "weights, " : "cache, ") << prompt.ids.size() << " tokens";
      const std::vector<double> prefilled(now.begin(), now.end());
      const Ids all_but_last(prompt.ids.begin(), prompt.ids.end() - 1);
      if (all_but_last.empty()) continue;
      model.step({{.sequence = ++sequence, .ids = all_but_last}});
      now = model.step({{.sequence = sequence, .ids = {prompt.ids.back()}}})[0];
      EXPECT_LE(relative_rms(now, prompt.last_logits), 0.3)
          << (weights ? "weights, " : "cache, ") << "decode behind " << all_but_last.size();
      // Both round rows to E4M3, by scales for 32 of k and for 128: less apart than two independent roundings.
      if (weights) {
        EXPECT_LE(relative_rms(now, prefilled), 0.2)
            << "decode against prefill behind " << all_but_last.size();
      }
    }
  }
}

// K and V that E4M3 cannot hold as they are, and the same checkpoint as calibration leaves it: scales that are powers of two
// change no rounding, and queries stay inside F16, in which decode takes them. Prefill and decode.
TEST_F(CudaGoldenMixed, AnFp8CacheIsScaledAsTheCheckpointSays) {  // M8
  const std::string name = "llama-fp8-tensor";
  if (!std::filesystem::exists(golden_root() / name)) GTEST_SKIP() << "no golden " << name;
  const Prompt prompt = read_prompts(name).back();
  const Ids head(prompt.ids.begin(), prompt.ids.end() - 1);
  const auto logits = [&](const std::string& folder) {
    config::Settings settings = cuda_settings(name);
    settings.model = folder;
    settings.kv_cache_dtype = "fp8";
    TestModel model(settings);
    model.step({{.sequence = 1, .ids = head}});
    return std::pair{model.step({{.sequence = 2, .ids = prompt.ids}})[0],
                     model.step({{.sequence = 1, .ids = {prompt.ids.back()}}})[0]};
  };
  const auto plain = logits(checkpoint_path(name));
  for (const ops::KvScales scales : {ops::KvScales{0x1p-9F, 0x1p-10F}, ops::KvScales{0x1p9F, 0x1p10F}}) {
    const auto told = logits(ScaledCacheCheckpoint(name, scales, true).folder());
    const auto untold = logits(ScaledCacheCheckpoint(name, scales, false).folder());
    const auto apart = [](const std::vector<float>& a, const std::vector<float>& b) {
      return relative_rms(a, std::vector<double>(b.begin(), b.end()));
    };
    EXPECT_LE(apart(told.first, plain.first), 1e-3) << "prefill, " << scales.k;
    EXPECT_LE(apart(told.second, plain.second), 2e-3) << "decode, " << scales.k;
    EXPECT_GT(apart(untold.first, plain.first), 0.1) << "numbers beyond what E4M3 holds";
    EXPECT_GT(apart(untold.second, plain.second), 0.1) << "numbers beyond what E4M3 holds";
  }
}

// D5: with --batch-invariant a row's bits are its own, whatever else is in the step.
TEST_P(CudaGolden, BatchInvariantRowsKeepTheirBits) {
  config::Settings settings = cuda_settings(GetParam());
  settings.batch_invariant = true;
  TestModel model(settings);
  const std::vector<Prompt> prompts = read_prompts(GetParam());
  int sequence = 0;
  for (const Prompt& prompt : prompts) {
    const int alone = ++sequence;
    std::vector<std::vector<float>> want = {model.step({{.sequence = alone, .ids = prompt.ids}})[0]};
    for (std::size_t i = 0; i < 4; ++i)
      want.push_back(model.step({{.sequence = alone, .ids = {prompt.greedy.at(i)}}})[0]);
    // The same beside every other prompt, then beside 32 rows that decode.
    std::vector<TestModel::Feed> crowd;
    const int first = sequence + 1;
    for (const Prompt& other : prompts) crowd.push_back({.sequence = ++sequence, .ids = other.ids});
    while (crowd.size() < 32) crowd.push_back({.sequence = ++sequence, .ids = prompts.front().ids});
    const int row = ++sequence;
    crowd.push_back({.sequence = row, .ids = prompt.ids});
    ASSERT_EQ(model.step(crowd).back(), want[0]) << prompt.ids.size() << " tokens beside others";
    for (std::size_t i = 0; i < 4; ++i) {
      std::vector<TestModel::Feed> step;
      for (int s = first; s < row; ++s)
        step.push_back({.sequence = s, .ids = {static_cast<std::int32_t>(s + 1)}});
      step.push_back({.sequence = row, .ids = {prompt.greedy.at(i)}});
      ASSERT_EQ(model.step(step).back(), want[i + 1]) << "decode step " << i;
    }
    // Computed again behind a preemption: what was decoded comes as part of a prompt, whole or in chunks, beside few or many.
    Ids whole = prompt.ids;
    for (std::size_t i = 0; i < 4; ++i) {
      whole.push_back(prompt.greedy.at(i));
      ASSERT_EQ(model.step({{.sequence = ++sequence, .ids = whole}})[0], want[i + 1])
          << whole.size() << " tokens again";
    }
    ASSERT_EQ(model.step_in_chunks(++sequence, whole, 16), want[4]) << "in chunks of 16";
    const auto longest = std::ranges::max_element(prompts, {}, [](const Prompt& p) { return p.ids.size(); });
    std::vector<TestModel::Feed> many;
    for (std::size_t tokens = 0; tokens <= 512; tokens += longest->ids.size())
      many.push_back({.sequence = ++sequence, .ids = longest->ids});
    many.push_back({.sequence = ++sequence, .ids = whole});
    ASSERT_EQ(model.step(many).back(), want[4])
        << "beside " << (many.size() - 1) * longest->ids.size() << " tokens";
  }
}

// Matrix by matrix: layers that are stored in different ways, and query and value that are E4M3 beside a key that is not.
TEST_F(CudaGoldenMixed, FloatsBesideFp8MeetTheReference) {
  const MixedCheckpoint mixed("llama-fp8-block", kFloatsBesideFp8);
  config::Settings settings = cuda_settings("llama-fp8-block");
  settings.model = mixed.folder();
  TestModel model(settings);
  int sequence = 0;
  for (const Prompt& prompt : read_prompts("llama-fp8-block")) {
    const std::vector<float> whole = model.step({{.sequence = ++sequence, .ids = prompt.ids}})[0];
    EXPECT_LE(relative_rms(whole, prompt.last_logits), kE4m3Rows) << prompt.ids.size() << " tokens";
    EXPECT_LE(relative_rms(model.step_in_chunks(++sequence, prompt.ids, 1), prompt.last_logits), kE4m3Rows)
        << "decoded";
  }
}

// The reference is the host's float32 model of the same numbers times scales. Prefill, decode of few rows, whose experts read
// BF16 rows, and of many, whose experts read E4M3 ones.
TEST_F(CudaGoldenMixed, Fp8MixturesMeetTheirFloats) {
  if (!std::filesystem::exists(golden_root() / "qwen3_moe-a")) GTEST_SKIP() << "no golden qwen3_moe-a";
  // Rounded rows alone, in float64, are 0.04 to 0.05 off; 0.2 where they turn a near tie of a router around; none is near for
  // the last of these tokens.
  constexpr double kBound = 0.1;
  const Ids ids = {11, 50, 93, 130, 7, 255, 301, 18};
  for (const auto granularity : kGranularities) {
    const Fp8Mixture mixture(granularity);
    config::Settings host = cuda_settings("qwen3_moe-a");
    host.device = "cpu";
    host.cpu_activations = "f32";
    host.model = mixture.floats();
    const std::vector<float> floats = TestModel(host).step({{.sequence = 1, .ids = ids}})[0];
    const std::vector<double> want(floats.begin(), floats.end());
    const auto what = [&](const char* step) {
      return std::string(step) + std::to_string(static_cast<int>(granularity));
    };
    config::Settings settings = cuda_settings("qwen3_moe-a");
    settings.model = mixture.fp8();
    TestModel model(settings);
    int sequence = 0;
    EXPECT_LE(relative_rms(model.step({{.sequence = ++sequence, .ids = ids}})[0], want), kBound)
        << what("prefill, granularity ");
    EXPECT_LE(relative_rms(model.step_in_chunks(++sequence, ids, 1), want), kBound)
        << what("decode, granularity ");
    std::vector<TestModel::Feed> decode;
    for (int i = 0; i < 40; ++i) {
      model.step({{.sequence = ++sequence, .ids = Ids(ids.begin(), ids.end() - 1)}});
      decode.push_back({.sequence = sequence, .ids = {ids.back()}});
    }
    const auto rows = model.step(decode);
    EXPECT_LE(relative_rms(rows[0], want), kBound) << what("40 rows, granularity ");
    for (const auto& row : rows) ASSERT_EQ(row, rows[0]) << "rows of one step with equal inputs";
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(CudaGolden);
INSTANTIATE_TEST_SUITE_P(All, CudaGolden, testing::ValuesIn(names()), [](const auto& param) {
  std::string name = param.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace met::golden
