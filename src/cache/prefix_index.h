// Which full block holds which prefix: keyed 128-bit chain hashes → one block each. Rules B3, B4.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cache/block_pool.h"
#include "core/siphash.h"

namespace met::cache {

/// Identities of a sequence's full blocks: h_0 = root, h_i = H(h_{i-1} ‖ ids of block i). Pure, any thread.
class ChainHasher {
 public:
  /// Blocks of at most kBlockTokensMax ids.
  static constexpr int kBlockTokensMax = 256;

  ChainHasher(const SipKey& key, std::string_view identity) : key_(key), identity_(identity) {}
  /// `identity` names model and KV format; `tenant` comes from authentication, `salt` adds to it.
  Hash128 root(std::uint64_t tenant, std::string_view salt) const;
  /// Same for two prompts that begin with the same 1,024 ids under one root (H9).
  std::uint64_t session(const Hash128& root, std::span<const std::int32_t> prompt) const;
  Hash128 next(const Hash128& parent, std::span<const std::int32_t> ids) const;
  /// Appends the identities of the whole blocks of `ids` behind those that `chain` has.
  void extend(const Hash128& root, std::span<const std::int32_t> ids, int block_tokens,
              std::vector<Hash128>& chain) const;

 private:
  SipKey key_;
  std::string identity_;
};

/// A hash table of fixed size: open addressing, at most half full, no allocation after construction.
class PrefixIndex {
 public:
  explicit PrefixIndex(std::int32_t blocks_total);

  /// The block that holds this prefix, or kNullBlock.
  BlockId find(const Hash128& identity) const;
  /// Neither the identity nor the block may be in the index.
  void insert(const Hash128& identity, BlockId block);
  /// The block must be in the index.
  void erase(BlockId block);
  bool contains(BlockId block) const { return present_[static_cast<std::size_t>(block)] != 0; }
  const Hash128& identity(BlockId block) const { return identities_[static_cast<std::size_t>(block)]; }
  std::int32_t size() const { return size_; }

 private:
  std::size_t home(const Hash128& identity) const { return static_cast<std::size_t>(identity.low) & mask_; }

  std::vector<BlockId> slots_;  ///< kNullBlock: empty
  std::vector<Hash128> identities_;
  std::vector<std::uint8_t> present_;
  std::size_t mask_ = 0;
  std::int32_t size_ = 0;
};

}  // namespace met::cache
