// Merging neighbours until none may merge, lowest key first, leftmost first among equals.
#pragma once

#include <cstdint>
#include <queue>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace met::text {

/// A stretch of the piece in a doubly linked list; size 0 means merged away.
struct Symbol {
  TokenId id;
  std::uint32_t begin;
  std::uint32_t size;
  std::int32_t previous;
  std::int32_t next;
};

/// `candidate(left, right, key, id)` says whether two neighbours may merge, the key and the id of the result.
/// Cost O(n log n). The survivors are those with size > 0.
template <class Key, class Candidate>
void merge_by_heap(std::vector<Symbol>& symbols, const Candidate& candidate) {
  struct Entry {
    Key key;
    std::int32_t left;
    std::uint32_t size;  // of the union: an entry whose parts have changed since is stale
    TokenId id;
    bool operator>(const Entry& o) const { return key != o.key ? key > o.key : left > o.left; }
  };
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> heap;
  const auto offer = [&](std::int32_t left) {
    if (left < 0 || symbols[static_cast<std::size_t>(left)].next < 0) return;
    const Symbol& a = symbols[static_cast<std::size_t>(left)];
    const Symbol& b = symbols[static_cast<std::size_t>(a.next)];
    Entry entry{{}, left, a.size + b.size, 0};
    if (candidate(a, b, entry.key, entry.id)) heap.push(entry);
  };
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) offer(static_cast<std::int32_t>(i));
  while (!heap.empty()) {
    const Entry top = heap.top();
    heap.pop();
    Symbol& a = symbols[static_cast<std::size_t>(top.left)];
    if (a.size == 0 || a.next < 0) continue;
    Symbol& b = symbols[static_cast<std::size_t>(a.next)];
    if (a.size + b.size != top.size) continue;
    a.id = top.id;
    a.size = top.size;
    a.next = b.next;
    b.size = 0;
    if (a.next >= 0) symbols[static_cast<std::size_t>(a.next)].previous = top.left;
    offer(a.previous);
    offer(top.left);
  }
}

}  // namespace met::text
