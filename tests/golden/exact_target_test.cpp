// The exact target of a model, whose kernels carry its sizes as constants, against its family's target: the
// same bits.
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>

#include "engine/direct_session.h"

namespace met::golden {
namespace {

std::vector<std::vector<float>> logits_of(const std::string& file, const std::string& target) {
  config::Settings settings;
  settings.model = file;
  settings.device = "cpu";
  settings.threads = 2;
  settings.max_seq_len = 512;
  settings.kernel_target = target;
  auto model = engine::load_parts(settings, {});
  EXPECT_TRUE(model) << model.error().message;
  if (!model) return {};
  EXPECT_EQ(model->kernel_target, target);
  engine::DirectSession session(*model);
  std::vector<std::int32_t> ids(300);
  std::iota(ids.begin(), ids.end(), 1000);
  std::vector<std::vector<float>> out;
  for (const auto& [begin, count] : {std::pair{0, 270}, {270, 1}, {271, 1}, {272, 28}}) {
    const engine::DirectSession::Row row{
        1, std::span(ids).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count))};
    const auto done = session.step(std::span(&row, 1));
    EXPECT_TRUE(done) << done.error().message;
    out.emplace_back(session.logits(0).begin(), session.logits(0).end());
  }
  return out;
}

TEST(ExactTarget, GivesTheBitsOfItsFamily) {
  const std::string file = std::string(MET_SOURCE_DIR) + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "the default model is not here";
  const auto exact = logits_of(file, "cpu/smollm2-135m/gguf");
  EXPECT_EQ(exact, logits_of(file, "cpu/llama/gguf"));
  EXPECT_EQ(exact.size(), 4U);
}

}  // namespace
}  // namespace met::golden
