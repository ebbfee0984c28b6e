#include "cache/prefix_index.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>

#include "core/error.h"

namespace met::cache {

Hash128 ChainHasher::root(std::uint64_t tenant, std::string_view salt) const {
  // Lengths first, so that no two different triples give the same bytes.
  std::string data;
  const auto put = [&](std::uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) data.push_back(static_cast<char>(value >> (8 * byte)));
  };
  put(identity_.size());
  put(salt.size());
  put(tenant);
  data.append(identity_).append(salt);
  return siphash128(key_, std::as_bytes(std::span(data)));
}

Hash128 ChainHasher::next(const Hash128& parent, std::span<const std::int32_t> ids) const {
  MET_CHECK(ids.size() <= kBlockTokensMax, "a block is too long to hash");
  std::array<std::byte, 16 + 4 * kBlockTokensMax> data;
  std::memcpy(data.data(), &parent.low, 8);
  std::memcpy(data.data() + 8, &parent.high, 8);
  std::memcpy(data.data() + 16, ids.data(), ids.size_bytes());
  return siphash128(key_, std::span(data).first(16 + ids.size_bytes()));
}

std::uint64_t ChainHasher::session(const Hash128& root, std::span<const std::int32_t> prompt) const {
  constexpr std::size_t kSessionIds = 1024;
  const std::span<const std::int32_t> ids = prompt.first(std::min(prompt.size(), kSessionIds));
  Hash128 hash = root;
  for (std::size_t at = 0; at < ids.size(); at += kBlockTokensMax)
    hash = next(hash, ids.subspan(at, std::min<std::size_t>(kBlockTokensMax, ids.size() - at)));
  return hash.low;
}

void ChainHasher::extend(const Hash128& root, std::span<const std::int32_t> ids, int block_tokens,
                         std::vector<Hash128>& chain) const {
  const auto width = static_cast<std::size_t>(block_tokens);
  while ((chain.size() + 1) * width <= ids.size()) {
    const Hash128 parent = chain.empty() ? root : chain.back();
    chain.push_back(next(parent, ids.subspan(chain.size() * width, width)));
  }
}

PrefixIndex::PrefixIndex(std::int32_t blocks_total) {
  const auto total = static_cast<std::size_t>(blocks_total);
  const std::size_t capacity = std::bit_ceil(2 * total + 2);
  slots_.assign(capacity, kNullBlock);
  mask_ = capacity - 1;
  identities_.resize(total);
  present_.assign(total, 0);
}

BlockId PrefixIndex::find(const Hash128& identity) const {
  for (std::size_t slot = home(identity); slots_[slot] != kNullBlock; slot = (slot + 1) & mask_) {
    if (identities_[static_cast<std::size_t>(slots_[slot])] == identity) return slots_[slot];
  }
  return kNullBlock;
}

void PrefixIndex::insert(const Hash128& identity, BlockId block) {
  const auto i = static_cast<std::size_t>(block);
  MET_CHECK(block != kNullBlock && i < present_.size() && present_[i] == 0, "block is indexed already");
  std::size_t slot = home(identity);
  while (slots_[slot] != kNullBlock) {
    MET_CHECK(identities_[static_cast<std::size_t>(slots_[slot])] != identity, "prefix is indexed already");
    slot = (slot + 1) & mask_;
  }
  slots_[slot] = block;
  identities_[i] = identity;
  present_[i] = 1;
  ++size_;
}

void PrefixIndex::erase(BlockId block) {
  const auto i = static_cast<std::size_t>(block);
  MET_CHECK(i < present_.size() && present_[i] != 0, "block is not indexed");
  std::size_t hole = home(identities_[i]);
  while (slots_[hole] != block) hole = (hole + 1) & mask_;
  // Entries behind the hole move up while that brings them nearer to their home.
  for (std::size_t slot = (hole + 1) & mask_; slots_[slot] != kNullBlock; slot = (slot + 1) & mask_) {
    const std::size_t wanted = home(identities_[static_cast<std::size_t>(slots_[slot])]);
    if (((slot - wanted) & mask_) >= ((slot - hole) & mask_)) {
      slots_[hole] = slots_[slot];
      hole = slot;
    }
  }
  slots_[hole] = kNullBlock;
  present_[i] = 0;
  --size_;
}

}  // namespace met::cache
