// A paged cache with shuffled blocks, filled with NaN where nothing was written, and the sequences that live
// in it.
#pragma once

#include <algorithm>
#include <numeric>

#include "core/dtype.h"
#include "met/step.h"
#include "ops/attention/attention.h"
#include "tests/ops/support/random.h"

namespace met::test {

class PagedCache {
 public:
  PagedCache(Random& random, int kv_heads, int head_dim, const std::vector<int>& lengths_max)
      : kv_heads_(kv_heads), head_dim_(head_dim) {
    std::size_t blocks = 1;  // block 0 belongs to nobody
    for (const int length : lengths_max) blocks += static_cast<std::size_t>((length + 15) / 16);
    std::vector<std::int32_t> order(blocks - 1);
    std::iota(order.begin(), order.end(), 1);
    std::shuffle(order.begin(), order.end(), random);
    table_ = order;
    std::int32_t begin = 0;
    for (const int length : lengths_max) {
      table_begin_.push_back(begin);
      begin += (length + 15) / 16;
    }
    k_.assign(ops::kv_elements(blocks, kv_heads, head_dim), 0x7E00);
    v_ = k_;
  }

  const std::int32_t* table() const { return table_.data(); }
  std::int32_t table_begin(std::size_t sequence) const { return table_begin_[sequence]; }
  std::vector<std::uint16_t>& k() { return k_; }
  std::vector<std::uint16_t>& v() { return v_; }

  std::size_t k_at(std::size_t sequence, int position, int head, int d) const {
    return base(sequence, position) +
           static_cast<std::size_t>((head * head_dim_ + d) * ops::kKvBlockTokens + position % 16);
  }
  std::size_t v_at(std::size_t sequence, int position, int head, int d) const {
    return base(sequence, position) +
           static_cast<std::size_t>((head * ops::kKvBlockTokens + position % 16) * head_dim_ + d);
  }

 private:
  std::size_t base(std::size_t sequence, int position) const {
    const std::int32_t block = table_[static_cast<std::size_t>(table_begin_[sequence] + position / 16)];
    return ops::kv_elements(static_cast<std::size_t>(block), kv_heads_, head_dim_);
  }

  int kv_heads_;
  int head_dim_;
  std::vector<std::int32_t> table_;
  std::vector<std::int32_t> table_begin_;
  std::vector<std::uint16_t> k_;
  std::vector<std::uint16_t> v_;
};

}  // namespace met::test
