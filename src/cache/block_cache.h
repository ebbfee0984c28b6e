// Pool and index together: what a sequence does with blocks. Rules B2 to B5, B7, B8, P2.
#pragma once

#include <cstdint>
#include <span>

#include "cache/block_pool.h"
#include "cache/prefix_index.h"

namespace met::cache {

/// Not thread-safe; owned by the engine's thread (E1). Nothing allocates after construction.
class BlockCache {
 public:
  explicit BlockCache(std::int32_t blocks_total) : pool_(blocks_total), index_(blocks_total) {}

  const BlockPool& pool() const { return pool_; }
  const PrefixIndex& index() const { return index_; }

  /// One block with one reference; evicts when nothing is free.
  BlockId allocate();
  void share(BlockId block) { pool_.share(block); }
  void release_all(std::span<const BlockId> table) { pool_.release_all(table); }

  /// How many leading identities of `chain` are indexed, and how many of those blocks somebody holds now.
  struct Match {
    std::int64_t blocks = 0;
    std::int64_t referenced = 0;
  };
  Match match(std::span<const Hash128> chain) const;
  /// Shares the first `blocks` matched blocks and appends them to `table` (B8: before anything is evicted).
  template <class Table>
  void take(std::span<const Hash128> chain, std::int64_t blocks, Table& table) {
    for (const Hash128& identity : chain.first(static_cast<std::size_t>(blocks))) {
      const BlockId block = index_.find(identity);
      pool_.share(block);
      table.push_back(block);
    }
  }
  /// A settled full block becomes known under its identity. The first writer wins: when the identity is known
  /// already, `block` is given back and the known one, with a reference of the caller's, is returned (B4).
  BlockId publish(BlockId block, const Hash128& identity);

  /// All counts recounted, and the index agrees with the pool. Aborts on a difference.
  void check() const;

 private:
  BlockPool pool_;
  PrefixIndex index_;
};

/// The longest hit that may be used of `matched` blocks for `len` known ids: at least one position is left to
/// compute (P2), and the hit ends on the grid of chunks (D5).
std::int64_t usable_hit(std::int64_t matched, std::int64_t len, int block_tokens, int grid_tokens);

}  // namespace met::cache
