#include "cache/block_cache.h"

#include <algorithm>

#include "core/error.h"

namespace met::cache {

BlockId BlockCache::allocate() {
  const BlockPool::Allocation allocation = pool_.allocate();
  if (allocation.evicted) index_.erase(allocation.block);
  return allocation.block;
}

BlockCache::Match BlockCache::match(std::span<const Hash128> chain) const {
  Match result;
  for (const Hash128& identity : chain) {
    const BlockId block = index_.find(identity);
    if (block == kNullBlock) break;
    ++result.blocks;
    result.referenced += pool_.refs(block) > 0 ? 1 : 0;
  }
  return result;
}

BlockId BlockCache::publish(BlockId block, const Hash128& identity) {
  const BlockId known = index_.find(identity);
  if (known == block) return block;
  if (known != kNullBlock) {
    pool_.share(known);
    pool_.release(block);
    return known;
  }
  index_.insert(identity, block);
  pool_.mark_indexed(block);
  return block;
}

void BlockCache::check() const {
  pool_.check();
  std::int32_t indexed = 0;
  for (BlockId block = 1; block < pool_.total(); ++block) {
    MET_CHECK(pool_.indexed(block) == index_.contains(block), "index and pool differ");
    if (!index_.contains(block)) continue;
    ++indexed;
    MET_CHECK(index_.find(index_.identity(block)) == block, "an indexed block is not found");
  }
  MET_CHECK(indexed == index_.size(), "index size");
}

std::int64_t usable_hit(std::int64_t matched, std::int64_t len, int block_tokens, int grid_tokens) {
  const std::int64_t tokens = std::min(matched * block_tokens, std::max<std::int64_t>(len - 1, 0));
  return tokens / grid_tokens * grid_tokens;
}

}  // namespace met::cache
