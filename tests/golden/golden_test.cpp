// Every checkpoint of the supported families against the reference's logits and greedy texts, and against
// itself: whole, chunked, batched with others and continued from the cache give the same bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "engine/direct_session.h"
#include "tests/golden/npz.h"

namespace met::golden {
namespace {

namespace fs = std::filesystem;
using Ids = std::vector<std::int32_t>;

// The whole set where it is mounted, else the small one of the tree.
fs::path golden_root() {
  const fs::path shared = fs::path(MET_SOURCE_DIR).parent_path() / "shared" / "goldens";
  return fs::exists(shared) ? shared : fs::path(MET_SOURCE_DIR) / "tests" / "golden" / "data";
}

std::vector<std::string> golden_names() {
  const std::vector<std::string> families = {"gemma3-a",  "gemma3-b",  "llama-a",   "llama-b",  "llama-c",
                                             "mistral-a", "mistral-b", "qwen2-a",   "qwen2-b",  "qwen3-a",
                                             "qwen3-b",   "qwen3-c",   "smollm3-a", "smollm3-b"};
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(golden_root())) {
    const std::string name = entry.path().filename();
    if (name.starts_with("gguf-") || std::ranges::find(families, name) != families.end())
      names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

std::string checkpoint_path(const std::string& name) {
  const fs::path folder = golden_root() / name;
  return name.starts_with("gguf-") ? folder / "model.gguf" : folder;
}

struct Prompt {
  Ids ids;
  Ids greedy;
  std::vector<double> margins;
  std::vector<double> last_logits;
};

std::vector<Prompt> read_prompts(const std::string& name) {
  const auto arrays = read_npz(golden_root() / name / "golden.npz");
  std::vector<Prompt> prompts;
  const auto ids = [&](const std::string& key) {
    const auto& values = arrays.at(key).values;
    return Ids(values.begin(), values.end());
  };
  for (int i = 0; arrays.contains("p" + std::to_string(i) + "_ids"); ++i) {
    const std::string p = "p" + std::to_string(i);
    Prompt prompt{ids(p + "_ids"), {}, {}, arrays.at(p + "_last_logits").values};
    if (arrays.contains(p + "_greedy_ids")) {
      prompt.greedy = ids(p + "_greedy_ids");
      prompt.margins = arrays.at(p + "_greedy_margins").values;
    }
    prompts.push_back(std::move(prompt));
  }
  return prompts;
}

double max_error(const std::vector<float>& got, const std::vector<double>& want) {
  EXPECT_EQ(got.size(), want.size());
  double worst = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    const double error = std::fabs(static_cast<double>(got[i]) - want[i]);
    worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
  }
  return worst;
}

double relative_rms(const std::vector<float>& got, const std::vector<double>& want) {
  double mean = 0;
  for (const double w : want) mean += w / static_cast<double>(want.size());
  double error = 0;
  double spread = 0;
  for (std::size_t i = 0; i < want.size(); ++i) {
    error += (static_cast<double>(got[i]) - want[i]) * (static_cast<double>(got[i]) - want[i]);
    spread += (want[i] - mean) * (want[i] - mean);
  }
  return std::sqrt(error / spread);
}

std::int32_t argmax(const std::vector<float>& logits) {
  return static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
}

// A loaded checkpoint and a session on it.
class TestModel {
 public:
  TestModel(const std::string& path, const std::string& activations) {
    config::Settings settings;
    settings.model = path;
    settings.device = "cpu";
    settings.cpu_activations = activations;
    settings.threads = 2;
    settings.max_seq_len = 512;
    settings.max_batch_size = 8;
    settings.max_prefill_tokens = 1024;
    settings.kv_cache_gb = 0.25;
    auto loaded = engine::load_parts(settings, {});
    if (!loaded) throw std::runtime_error(loaded.error().field + ": " + loaded.error().message);
    model_ = std::move(*loaded);
    session_.emplace(model_);
  }
  struct Feed {
    int sequence = 0;
    Ids ids;
  };
  std::vector<std::vector<float>> step(const std::vector<Feed>& feeds) {
    std::vector<engine::DirectSession::Row> rows;
    for (const Feed& feed : feeds) rows.push_back({feed.sequence, feed.ids});
    if (auto done = session_->step(rows); !done) throw std::runtime_error(done.error().message);
    std::vector<std::vector<float>> logits;
    for (std::size_t i = 0; i < rows.size(); ++i)
      logits.emplace_back(session_->logits(i).begin(), session_->logits(i).end());
    return logits;
  }
  engine::DirectSession* operator->() { return &*session_; }

 private:
  engine::LoadedModel model_;
  std::optional<engine::DirectSession> session_;
};

class Golden : public testing::TestWithParam<std::string> {};

TEST_P(Golden, FloatActivationsMeetTheReference) {
  TestModel model(checkpoint_path(GetParam()), "f32");
  int sequence = 0;
  for (const Prompt& prompt : read_prompts(GetParam())) {
    const auto logits = model.step({{.sequence = ++sequence, .ids = prompt.ids}});
    EXPECT_LE(max_error(logits[0], prompt.last_logits), 1e-3) << prompt.ids.size() << " tokens";
    std::vector<float> now = logits[0];
    for (std::size_t i = 0; i < prompt.greedy.size(); ++i) {
      ASSERT_EQ(argmax(now), prompt.greedy[i]) << "step " << i << ", margin " << prompt.margins[i];
      now = model.step({{.sequence = sequence, .ids = {prompt.greedy[i]}}})[0];
    }
  }
}

TEST_P(Golden, IntegerActivationsStayInsideTheirNoise) {
  TestModel model(checkpoint_path(GetParam()), "int8");
  int sequence = 0;
  for (const Prompt& prompt : read_prompts(GetParam())) {
    std::vector<float> now = model.step({{.sequence = ++sequence, .ids = prompt.ids}})[0];
    EXPECT_LE(relative_rms(now, prompt.last_logits), 0.06) << prompt.ids.size() << " tokens";
    const double noise = max_error(now, prompt.last_logits);
    for (std::size_t i = 0; i < prompt.greedy.size(); ++i) {
      if (prompt.margins[i] >= 2 * noise) {
        ASSERT_EQ(argmax(now), prompt.greedy[i])
            << "step " << i << ", margin " << prompt.margins[i] << ", noise " << noise;
      }
      now = model.step({{.sequence = sequence, .ids = {prompt.greedy[i]}}})[0];
    }
  }
}

TEST_P(Golden, ChunksBatchesAndCachedPrefixesGiveTheSameBits) {
  TestModel model(checkpoint_path(GetParam()), "int8");
  std::vector<Prompt> prompts = read_prompts(GetParam());
  int sequence = 0;
  for (const Prompt& prompt : prompts) {
    const auto whole = model.step({{.sequence = ++sequence, .ids = prompt.ids}})[0];
    const int first = sequence;
    for (const std::size_t chunk : {std::size_t{1}, std::size_t{7}, std::size_t{16}, std::size_t{64}}) {
      ++sequence;
      std::vector<float> last;
      for (std::size_t at = 0; at < prompt.ids.size(); at += chunk) {
        const std::size_t end = std::min(at + chunk, prompt.ids.size());
        last = model.step({{.sequence = sequence,
                            .ids = Ids(prompt.ids.begin() + static_cast<std::ptrdiff_t>(at),
                                       prompt.ids.begin() + static_cast<std::ptrdiff_t>(end))}})[0];
      }
      ASSERT_EQ(last, whole) << "chunks of " << chunk;
    }
    if (const std::size_t cached = (prompt.ids.size() - 1) / 16 * 16; cached > 0) {
      model->share(first, ++sequence, static_cast<std::int64_t>(cached));
      const Ids rest(prompt.ids.begin() + static_cast<std::ptrdiff_t>(cached), prompt.ids.end());
      ASSERT_EQ(model.step({{.sequence = sequence, .ids = rest}})[0], whole) << "continued from " << cached;
    }
    std::vector<TestModel::Feed> batch;
    for (const Prompt& other : prompts) batch.push_back({.sequence = ++sequence, .ids = other.ids});
    batch.push_back({.sequence = ++sequence, .ids = prompt.ids});
    ASSERT_EQ(model.step(batch).back(), whole) << "batched";
  }
}

INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(golden_names()), [](const auto& param) {
  std::string name = param.param;
  std::ranges::replace(name, '-', '_');
  return name;
});

}  // namespace
}  // namespace met::golden
