// The tokens of a sequence and how often each occurred.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace met::sampling {

class History {
 public:
  /// `counts`: whether per-token counts are needed (penalties).
  void start(std::span<const std::int32_t> prompt, int vocab_size, std::int64_t tokens_max, bool counts);
  void append(std::int32_t id);
  void rewind(std::int64_t count);

  std::span<const std::int32_t> tokens() const { return tokens_; }
  std::span<const std::int32_t> output() const { return std::span(tokens_).subspan(prompt_size_); }

  struct Count {
    std::int32_t in_prompt = 0;
    std::int32_t in_output = 0;
  };
  /// Each token that ever occurred, once; its counts may be back at zero after a rewind.
  std::span<const std::int32_t> distinct() const { return distinct_; }
  const Count& count(std::int32_t id) const { return counts_[static_cast<std::size_t>(id)]; }

 private:
  void note(std::int32_t id, bool prompt);

  std::vector<std::int32_t> tokens_;
  std::size_t prompt_size_ = 0;
  std::vector<Count> counts_;
  std::vector<bool> listed_;
  std::vector<std::int32_t> distinct_;
};

}  // namespace met::sampling
