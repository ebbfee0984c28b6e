// Ownership of the blocks of one KV pool: references, the free list and the LRU list of blocks that nobody
// holds but the prefix index knows. Model-free, no device. Rules B1, B2, B7, B9.
//
//   free ──allocate──► referenced ──last release──► free            (not indexed)
//                          ▲    └───last release──► evictable       (indexed; back of the LRU list)
//                          └──────share─────────────────┘
//   evictable ──allocate, from the front of the LRU list──► referenced, no longer indexed
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace met::cache {

using BlockId = std::int32_t;

/// Never owned; padding rows write to it (B1).
inline constexpr BlockId kNullBlock = 0;

/// Not thread-safe. Nothing allocates after construction. Misuse (a release too many, an allocation from an
/// empty pool) is a defect and aborts.
class BlockPool {
 public:
  /// Blocks 1 … total - 1 start free; the lowest is taken first.
  explicit BlockPool(std::int32_t total);

  std::int32_t total() const { return static_cast<std::int32_t>(refs_.size()); }
  std::int32_t free() const { return static_cast<std::int32_t>(free_.size()); }
  std::int32_t evictable() const { return evictable_; }
  std::int32_t referenced() const { return total() - 1 - free() - evictable_; }
  std::int32_t refs(BlockId block) const { return refs_[index(block)]; }
  std::span<const std::int32_t> all_refs() const { return refs_; }
  bool indexed(BlockId block) const { return indexed_[index(block)] != 0; }

  struct Allocation {
    BlockId block = kNullBlock;
    bool evicted = false;  ///< the block was indexed until now; the caller erases its entry
  };
  /// A block with one reference: a free one, else the front of the LRU list. Needs free() + evictable() > 0.
  Allocation allocate();
  /// One more reference to a referenced or evictable block.
  void share(BlockId block);
  /// One reference less.
  void release(BlockId block);
  /// Releases a sequence's table last to first, so that a child is evicted before its parent (B7).
  void release_all(std::span<const BlockId> table);
  /// Marks a referenced block as known to the prefix index; it becomes evictable instead of free.
  void mark_indexed(BlockId block);

  /// The block that is evicted next, or kNullBlock; and the one after `block`.
  BlockId lru_front() const { return next_[kNullBlock]; }
  BlockId lru_next(BlockId block) const { return next_[index(block)]; }

  /// Recounts everything (B1, B2): aborts on a difference. Cost: linear in the pool.
  void check() const;

 private:
  std::size_t index(BlockId block) const;
  void lru_push_back(BlockId block);
  void lru_remove(BlockId block);

  std::vector<std::int32_t> refs_;
  std::vector<std::uint8_t> indexed_;
  std::vector<BlockId> free_;  ///< a stack
  std::vector<BlockId> next_;  ///< ring of evictable blocks, closed at the null block
  std::vector<BlockId> prev_;
  std::int32_t evictable_ = 0;
};

}  // namespace met::cache
