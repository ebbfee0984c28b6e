#include "tests/golden/support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "tests/golden/npz.h"

namespace met::golden {

namespace fs = std::filesystem;

// The whole set where it is mounted, else the small one of the tree.
fs::path golden_root() {
  const fs::path shared = fs::path(MET_SOURCE_DIR).parent_path() / "shared" / "goldens";
  return fs::exists(shared) ? shared : fs::path(MET_SOURCE_DIR) / "tests" / "golden" / "data";
}

std::string checkpoint_path(const std::string& name) {
  const fs::path folder = golden_root() / name;
  return name.starts_with("gguf-") ? folder / "model.gguf" : folder;
}

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

TestModel::TestModel(const config::Settings& settings) {
  auto loaded = engine::load_parts(settings, {});
  if (!loaded) throw std::runtime_error(loaded.error().field + ": " + loaded.error().message);
  model_ = std::move(*loaded);
  session_.emplace(model_);
}

std::vector<std::vector<float>> TestModel::step(const std::vector<Feed>& feeds) {
  std::vector<engine::DirectSession::Row> rows;
  for (const Feed& feed : feeds) rows.push_back({feed.sequence, feed.ids});
  if (auto done = session_->step(rows); !done) throw std::runtime_error(done.error().message);
  std::vector<std::vector<float>> logits;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto row = session_->logits(i);
    logits.emplace_back(row.begin(), row.end());
  }
  return logits;
}

std::vector<float> TestModel::step_in_chunks(int sequence, const Ids& ids, std::size_t chunk) {
  std::vector<float> last;
  for (std::size_t at = 0; at < ids.size(); at += chunk) {
    const std::size_t end = std::min(at + chunk, ids.size());
    last = step({{.sequence = sequence,
                  .ids = Ids(ids.begin() + static_cast<std::ptrdiff_t>(at),
                             ids.begin() + static_cast<std::ptrdiff_t>(end))}})[0];
  }
  return last;
}

}  // namespace met::golden
