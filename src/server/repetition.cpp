#include "server/repetition.h"

namespace met::server {

bool RepetitionDetector::push(api::TokenId id) {
  if (matched_.empty()) return false;
  const std::size_t largest = first_ + matched_.size() - 1;
  if (tail_.empty()) tail_.resize(largest);
  bool found = false;
  for (std::size_t i = 0; i < matched_.size(); ++i) {
    const std::size_t size = first_ + i;
    const bool same = seen_ >= size && tail_[(seen_ - size) % largest] == id;
    matched_[i] = same ? matched_[i] + 1 : 0;
    found |= matched_[i] >= size * (count_ - 1);
  }
  tail_[seen_++ % largest] = id;
  return found;
}

}  // namespace met::server
