#include "sampling/history.h"

#include <algorithm>

namespace met::sampling {

void History::start(std::span<const std::int32_t> prompt, int vocab_size, std::int64_t tokens_max,
                    bool counts) {
  tokens_.reserve(std::max(prompt.size(), static_cast<std::size_t>(std::max<std::int64_t>(tokens_max, 0))));
  tokens_.assign(prompt.begin(), prompt.end());
  prompt_size_ = prompt.size();
  if (!counts) return;
  counts_.resize(static_cast<std::size_t>(vocab_size));
  listed_.resize(static_cast<std::size_t>(vocab_size));
  distinct_.reserve(std::min(static_cast<std::size_t>(vocab_size), tokens_.capacity()));
  for (const std::int32_t id : prompt) note(id, true);
}

void History::note(std::int32_t id, bool prompt) {
  const auto at = static_cast<std::size_t>(id);
  if (id < 0 || at >= counts_.size()) return;  // ids of media placeholders may lie past the vocabulary
  ++(prompt ? counts_[at].in_prompt : counts_[at].in_output);
  if (listed_[at]) return;
  listed_[at] = true;
  distinct_.push_back(id);
}

void History::append(std::int32_t id) {
  tokens_.push_back(id);
  note(id, false);
}

void History::rewind(std::int64_t count) {
  for (; count > 0 && tokens_.size() > prompt_size_; --count) {
    const auto id = static_cast<std::size_t>(tokens_.back());
    if (tokens_.back() >= 0 && id < counts_.size()) --counts_[id].in_output;
    tokens_.pop_back();
  }
}

}  // namespace met::sampling
