// Stored checkpoints with the reference's results, and a model of ours that runs them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/direct_session.h"

namespace met::golden {

using Ids = std::vector<std::int32_t>;

/// The whole set where it is mounted, else the small one of the tree.
std::filesystem::path golden_root();
std::string checkpoint_path(const std::string& name);

struct Prompt {
  Ids ids;
  Ids greedy;
  std::vector<double> margins;
  std::vector<double> last_logits;
};
std::vector<Prompt> read_prompts(const std::string& name);

double max_error(const std::vector<float>& got, const std::vector<double>& want);
/// Root mean square of the difference over the standard deviation of `want`.
double relative_rms(const std::vector<float>& got, const std::vector<double>& want);
std::int32_t argmax(const std::vector<float>& logits);

/// A loaded checkpoint and a session on it; throws where it cannot be loaded.
class TestModel {
 public:
  explicit TestModel(const config::Settings& settings);

  struct Feed {
    int sequence = 0;
    Ids ids;
  };
  /// Runs one step; the logits of each row's last token.
  std::vector<std::vector<float>> step(const std::vector<Feed>& feeds);
  /// Feeds `ids` alone, `chunk` a step; the last token's logits.
  std::vector<float> step_in_chunks(int sequence, const Ids& ids, std::size_t chunk);
  engine::DirectSession* operator->() { return &*session_; }

 private:
  engine::LoadedModel model_;
  std::optional<engine::DirectSession> session_;
};

}  // namespace met::golden
