// Blocks and their index against a plain model of the rules: random sequences that grow, share, publish and
// end.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <random>

#include "cache/block_cache.h"

namespace met::cache {
namespace {

const SipKey kKey = {1, 2, 3};

TEST(BlockPool, TakesFreeBlocksFirstAndThenTheFrontOfTheList) {  // B1, B2, B7
  BlockPool pool(5);
  std::vector<BlockId> table;
  for (int i = 0; i < 3; ++i) table.push_back(pool.allocate().block);
  EXPECT_EQ(table, (std::vector<BlockId>{1, 2, 3}));
  for (const BlockId block : table) pool.mark_indexed(block);
  pool.release_all(table);
  EXPECT_EQ(pool.evictable(), 3);
  EXPECT_EQ(pool.free(), 1);
  EXPECT_EQ(pool.allocate().block, 4);
  const BlockPool::Allocation evicted = pool.allocate();
  EXPECT_EQ(evicted.block, 3) << "the last block of a table goes first";
  EXPECT_TRUE(evicted.evicted);
  pool.share(1);
  EXPECT_EQ(pool.evictable(), 1);
  pool.check();
}

TEST(BlockPoolDeath, AbortsOnAReleaseTooMany) {  // B2
  BlockPool pool(3);
  const BlockId block = pool.allocate().block;
  pool.release(block);
  EXPECT_DEATH(pool.release(block), "released once too often");
  EXPECT_DEATH(pool.share(block), "free block");
}

TEST(ChainHasher, SeparatesModelsTenantsAndSalts) {  // B3
  const ChainHasher hasher(kKey, "model");
  const std::vector<Hash128> roots = {hasher.root(0, ""),
                                      hasher.root(1, ""),
                                      hasher.root(0, "a"),
                                      hasher.root(0, "b"),
                                      ChainHasher(kKey, "other").root(0, ""),
                                      ChainHasher({9}, "model").root(0, ""),
                                      ChainHasher(kKey, "modela").root(0, "")};
  for (std::size_t i = 0; i < roots.size(); ++i)
    for (std::size_t j = i + 1; j < roots.size(); ++j) EXPECT_NE(roots[i], roots[j]) << i << " " << j;
  const std::vector<std::int32_t> ids = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<Hash128> chain;
  hasher.extend(roots[0], ids, 4, chain);
  ASSERT_EQ(chain.size(), 2U) << "whole blocks only";
  EXPECT_EQ(chain[1], hasher.next(chain[0], std::span(ids).subspan(4, 4)));
  std::vector<Hash128> longer = chain;
  hasher.extend(roots[0], ids, 4, longer);
  EXPECT_EQ(longer, chain);
}

TEST(PrefixIndex, AgreesWithAMapThroughCollisionsAndErasures) {
  constexpr std::int32_t kBlocks = 64;
  PrefixIndex index(kBlocks);
  std::map<BlockId, Hash128> model;
  std::mt19937_64 random(3);
  for (int step = 0; step < 200'000; ++step) {
    const auto block = static_cast<BlockId>(1 + random() % (kBlocks - 1));
    if (model.contains(block)) {
      index.erase(block);
      model.erase(block);
    } else {
      // Low words from a small set: entries share their home, the table has to probe and to close holes.
      const Hash128 identity{.low = random() % 24, .high = static_cast<std::uint64_t>(step)};
      index.insert(identity, block);
      model[block] = identity;
    }
    if (step % 50 != 0) continue;
    ASSERT_EQ(static_cast<std::size_t>(index.size()), model.size());
    for (const auto& [held, identity] : model) ASSERT_EQ(index.find(identity), held);
    ASSERT_EQ(index.find({.low = 1, .high = ~0ULL}), kNullBlock);
  }
}

TEST(UsableHit, LeavesAPositionToComputeAndEndsOnTheGrid) {  // P2, D5
  struct Case {
    std::int64_t matched, len;
    int grid;
    std::int64_t usable;
  };
  for (const Case& c : {Case{0, 5, 16, 0}, Case{2, 40, 16, 32}, Case{2, 32, 16, 16}, Case{2, 33, 16, 32},
                        Case{1, 1, 16, 0}, Case{9, 200, 64, 128}, Case{8, 128, 64, 64}, Case{3, 0, 16, 0}})
    EXPECT_EQ(usable_hit(c.matched, c.len, 16, c.grid), c.usable) << c.matched << " " << c.len;
}

/// Sequences over few texts, so that prefixes meet; each holds its table as the engine would.
class RandomSequences {
 public:
  RandomSequences(std::uint64_t seed, std::int32_t blocks)
      : random_(seed), cache_(blocks), hasher_(kKey, "m") {}

  void step() {
    const int action = between(0, 9);
    if (action < 4) begin();
    if (action < 8 && !live_.empty()) grow(live_[pick()]);
    if (action >= 8 && !live_.empty()) end(pick());
    check();
  }
  void end_all() {
    while (!live_.empty()) end(live_.size() - 1);
    check();
    EXPECT_EQ(cache_.pool().referenced(), 0);
  }
  std::int64_t hits() const { return hits_; }

 private:
  static constexpr int kTokens = 2;
  struct Sequence {
    std::vector<std::int32_t> ids;
    std::vector<Hash128> chain;
    std::vector<BlockId> table;
    std::size_t published = 0;
  };

  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  std::size_t pick() { return static_cast<std::size_t>(between(0, static_cast<int>(live_.size()) - 1)); }
  std::int32_t available() const { return cache_.pool().free() + cache_.pool().evictable(); }

  void begin() {
    Sequence s;
    const int blocks = between(1, 6);
    for (int i = 0; i < blocks * kTokens; ++i) s.ids.push_back(i < 6 ? 0 : between(0, 1));
    hasher_.extend(hasher_.root(0, ""), s.ids, kTokens, s.chain);
    const BlockCache::Match match = cache_.match(s.chain);
    const std::int64_t take = usable_hit(match.blocks, std::ssize(s.ids), kTokens, kTokens) / kTokens;
    if (available() - (take - std::min(take, match.referenced)) < blocks - take) return;
    cache_.take(s.chain, take, s.table);
    s.published = static_cast<std::size_t>(take);
    hits_ += take;
    while (std::ssize(s.table) < blocks) s.table.push_back(cache_.allocate());
    live_.push_back(std::move(s));
  }
  void grow(Sequence& s) {  // one more block is settled
    if (s.published < s.table.size()) {
      s.table[s.published] = cache_.publish(s.table[s.published], s.chain[s.published]);
      ++s.published;
    }
  }
  void end(std::size_t i) {
    cache_.release_all(live_[i].table);
    live_.erase(live_.begin() + static_cast<std::ptrdiff_t>(i));
  }

  void check() {
    cache_.check();
    std::vector<std::int32_t> refs(static_cast<std::size_t>(cache_.pool().total()), 0);
    for (const Sequence& s : live_)
      for (const BlockId block : s.table) ++refs[static_cast<std::size_t>(block)];
    ASSERT_TRUE(std::equal(refs.begin(), refs.end(), cache_.pool().all_refs().begin()));  // B2
    // B7: whatever is indexed has its parent indexed, and an evictable parent goes after its evictable child.
    for (const Sequence& s : live_)
      for (std::size_t i = 0; i < s.chain.size(); ++i)
        parents_[s.chain[i]] = i == 0 ? Hash128{} : s.chain[i - 1];
    std::map<BlockId, int> place;
    int at = 0;
    for (BlockId block = cache_.pool().lru_front(); block != kNullBlock;
         block = cache_.pool().lru_next(block))
      place[block] = at++;
    for (BlockId block = 1; block < cache_.pool().total(); ++block) {
      if (!cache_.index().contains(block)) continue;
      const Hash128 parent = parents_.at(cache_.index().identity(block));
      if (parent == Hash128{}) continue;
      const BlockId above = cache_.index().find(parent);
      ASSERT_NE(above, kNullBlock) << "a child outlived its parent";
      if (place.contains(block) && place.contains(above)) {
        ASSERT_GT(place[above], place[block]);
      }
    }
  }

  std::mt19937_64 random_;
  BlockCache cache_;
  ChainHasher hasher_;
  std::vector<Sequence> live_;
  std::map<Hash128, Hash128> parents_;
  std::int64_t hits_ = 0;
};

TEST(BlockCache, KeepsItsInvariantsUnderRandomSequences) {  // B1, B2, B4, B7
  std::int64_t hits = 0;
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    RandomSequences sequences(seed, 4 + static_cast<std::int32_t>(seed % 30));
    for (int i = 0; i < 300; ++i) {
      sequences.step();
      ASSERT_FALSE(HasFailure()) << "seed " << seed << " step " << i;
    }
    sequences.end_all();
    hits += sequences.hits();
  }
  EXPECT_GT(hits, 1000);
}

}  // namespace
}  // namespace met::cache
