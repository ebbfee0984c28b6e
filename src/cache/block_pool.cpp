#include "cache/block_pool.h"

#include <string>

#include "core/error.h"

namespace met::cache {

BlockPool::BlockPool(std::int32_t total) {
  MET_CHECK(total >= 1, "a pool has at least its null block");
  const auto size = static_cast<std::size_t>(total);
  refs_.assign(size, 0);
  indexed_.assign(size, 0);
  next_.assign(size, kNullBlock);
  prev_.assign(size, kNullBlock);
  free_.reserve(size);
  for (BlockId block = total - 1; block >= 1; --block) free_.push_back(block);
}

std::size_t BlockPool::index(BlockId block) const {
  MET_CHECK(block >= 0 && block < total(), "block " + std::to_string(block) + " is outside the pool");
  return static_cast<std::size_t>(block);
}

BlockPool::Allocation BlockPool::allocate() {
  Allocation result;
  if (!free_.empty()) {
    result.block = free_.back();
    free_.pop_back();
  } else {
    MET_CHECK(evictable_ > 0, "allocation from an empty pool");
    result.block = lru_front();
    result.evicted = true;
    lru_remove(result.block);
    indexed_[index(result.block)] = 0;
  }
  refs_[index(result.block)] = 1;
  return result;
}

void BlockPool::share(BlockId block) {
  const std::size_t i = index(block);
  MET_CHECK(block != kNullBlock && (refs_[i] > 0 || indexed_[i] != 0), "a free block cannot be shared");
  if (refs_[i]++ == 0) lru_remove(block);
}

void BlockPool::release(BlockId block) {
  const std::size_t i = index(block);
  MET_CHECK(refs_[i] > 0, "block " + std::to_string(block) + " released once too often");
  if (--refs_[i] > 0) return;
  if (indexed_[i] != 0) {
    lru_push_back(block);
  } else {
    free_.push_back(block);
  }
}

void BlockPool::release_all(std::span<const BlockId> table) {
  for (auto block = table.rbegin(); block != table.rend(); ++block) release(*block);
}

void BlockPool::mark_indexed(BlockId block) {
  MET_CHECK(refs(block) > 0, "only a block that is held can be indexed");
  indexed_[index(block)] = 1;
}

void BlockPool::lru_push_back(BlockId block) {
  const BlockId last = prev_[kNullBlock];
  next_[index(last)] = block;
  prev_[index(block)] = last;
  next_[index(block)] = kNullBlock;
  prev_[kNullBlock] = block;
  ++evictable_;
}

void BlockPool::lru_remove(BlockId block) {
  const std::size_t i = index(block);
  next_[index(prev_[i])] = next_[i];
  prev_[index(next_[i])] = prev_[i];
  --evictable_;
}

void BlockPool::check() const {
  std::vector<std::uint8_t> seen(refs_.size(), 0);
  for (const BlockId block : free_) {
    MET_CHECK(block > 0 && refs(block) == 0 && !indexed(block) && seen[index(block)]++ == 0, "free list");
  }
  std::int32_t evictable = 0;
  for (BlockId block = lru_front(); block != kNullBlock; block = lru_next(block), ++evictable) {
    MET_CHECK(refs(block) == 0 && indexed(block) && seen[index(block)]++ == 0, "LRU list");
    MET_CHECK(prev_[index(lru_next(block))] == block, "LRU links");
  }
  std::int32_t held = 0;
  for (const std::int32_t count : refs_) held += count > 0 ? 1 : 0;
  MET_CHECK(refs_[kNullBlock] == 0 && evictable == evictable_ && free() + evictable + held + 1 == total(),
            "free + evictable + referenced + 1 = total");
}

}  // namespace met::cache
