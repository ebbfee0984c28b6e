#include "text/tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "text/tokenizer/bpe_merge.h"
#include "text/tokenizer/unicode.h"

namespace met::text {
namespace {

constexpr std::string_view kBlankMark = "\xE2\x96\x81";
// Up to this many symbols a scan for the best pair is cheaper than a heap.
constexpr std::size_t kScanMax = 32;

// Calls `f` for the parts of `text`, cut before each U+2581 that follows another character.
template <class F>
void each_word(std::string_view text, bool cut, const F& f) {
  std::size_t begin = 0;
  if (cut) {
    bool after_other = false;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t mark = std::min(text.find(kBlankMark, at), text.size());
      after_other = after_other || mark > at;
      if (mark == text.size()) break;
      if (after_other) {
        f(text.substr(begin, mark - begin));
        begin = mark;
        after_other = false;
      }
      at = mark + kBlankMark.size();
    }
  }
  f(text.substr(begin));
}

class Bpe final : public Model {
 public:
  Bpe(const PieceTable& pieces, MergeTable merges, BpeOptions options)
      : pieces_(pieces),
        merges_(std::move(merges)),
        options_(std::move(options)),
        fallback_(pieces),
        whole_(std::make_unique<std::atomic<Whole>[]>(pieces.size())) {
    for (std::size_t b = 0; b < 256; ++b) {
      const auto c = static_cast<char>(b);
      byte_symbol_[b] = options_.bytes || b < 0x80 ? pieces_.find({&c, 1}) : PieceTable::kNone;
    }
  }

  void encode(std::string_view piece, const IdSet* banned, std::vector<TokenId>& out) const override {
    each_word(piece, options_.cut_at_blank_mark,
              [&](std::string_view word) { encode_word(word, banned, out); });
  }

 private:
  // Is a vocabulary's piece what its own text merges to? Found out when first asked.
  enum class Whole : std::uint8_t { kUnknown, kYes, kNo };

  void encode_word(std::string_view word, const IdSet* banned, std::vector<TokenId>& out) const {
    const bool plain = options_.suffix.empty() && options_.prefix.empty();
    const TokenId id = word.size() <= pieces_.longest() && (plain || options_.ignore_merges)
                           ? pieces_.find(word)
                           : PieceTable::kNone;
    if (id < 0 || has(banned, id)) return merge(word, banned, out);
    if (options_.ignore_merges) {
      out.push_back(id);
      return;
    }
    std::atomic<Whole>& whole = whole_[static_cast<std::size_t>(id)];
    const Whole known = whole.load(std::memory_order_relaxed);
    if (known == Whole::kYes) {
      out.push_back(id);
      return;
    }
    const std::size_t before = out.size();
    merge(word, banned, out);
    if (known == Whole::kUnknown && banned == nullptr)
      whole.store(out.size() == before + 1 && out.back() == id ? Whole::kYes : Whole::kNo,
                  std::memory_order_relaxed);
  }

  void merge(std::string_view word, const IdSet* banned, std::vector<TokenId>& out) const {
    thread_local std::vector<Symbol> symbols;
    symbols.clear();
    if (options_.bytes && options_.suffix.empty() && options_.prefix.empty())
      byte_symbols(word, banned, symbols);
    else
      text_symbols(word, banned, symbols);
    if (symbols.size() <= kScanMax)
      merge_by_scan(symbols, banned, out);
    else
      merge_long(symbols, banned, out);
  }

  static void add(std::vector<Symbol>& symbols, TokenId id, std::size_t begin, std::size_t size) {
    const auto at = static_cast<std::int32_t>(symbols.size());
    if (!symbols.empty()) symbols.back().next = at;
    symbols.push_back({id, static_cast<std::uint32_t>(begin), static_cast<std::uint32_t>(size), at - 1, -1});
  }

  void byte_symbols(std::string_view word, const IdSet* banned, std::vector<Symbol>& symbols) const {
    for (std::size_t at = 0; at < word.size(); ++at) {
      const TokenId id = byte_symbol_[static_cast<unsigned char>(word[at])];
      if (id >= 0 && !has(banned, id))
        add(symbols, id, at, 1);
      else
        add_unknown(symbols, at, 1);
    }
  }

  void text_symbols(std::string_view word, const IdSet* banned, std::vector<Symbol>& symbols) const {
    std::string decorated;
    for (std::size_t at = 0; at < word.size();) {
      const Point p = first_point(word.substr(at));
      TokenId id = byte_symbol_[0];
      if (options_.prefix.empty() && options_.suffix.empty()) {
        id = p.c < 0x80 ? byte_symbol_[p.c] : pieces_.find(word.substr(at, p.size));
      } else {
        decorated = at == 0 ? std::string() : options_.prefix;
        decorated += word.substr(at, p.size);
        if (at + p.size == word.size()) decorated += options_.suffix;
        id = pieces_.find(decorated);
      }
      if (id >= 0 && !has(banned, id))
        add(symbols, id, at, p.size);
      else if (!(options_.byte_fallback && add_fallback(symbols, word, at, p.size)))
        add_unknown(symbols, at, p.size);
      at += p.size;
    }
  }

  bool add_fallback(std::vector<Symbol>& symbols, std::string_view word, std::size_t at,
                    std::size_t size) const {
    TokenId ids[4];
    for (std::size_t i = 0; i < size; ++i) {
      ids[i] = fallback_.id[static_cast<unsigned char>(word[at + i])];
      if (ids[i] < 0) return false;
    }
    for (std::size_t i = 0; i < size; ++i) add(symbols, ids[i], at + i, 1);
    return true;
  }

  // Without an unknown token the text is dropped, as the reference does.
  void add_unknown(std::vector<Symbol>& symbols, std::size_t at, std::size_t size) const {
    if (options_.unknown < 0) return;
    if (options_.fuse_unknown && !symbols.empty() && symbols.back().id == options_.unknown) {
      symbols.back().size += static_cast<std::uint32_t>(size);
      return;
    }
    add(symbols, options_.unknown, at, size);
  }

  MergeTable::Merge find(TokenId left, TokenId right, const IdSet* banned) const {
    const MergeTable::Merge m = merges_.find(left, right);
    return has(banned, m.id) ? MergeTable::Merge{} : m;
  }

  void merge_by_scan(const std::vector<Symbol>& symbols, const IdSet* banned,
                     std::vector<TokenId>& out) const {
    TokenId ids[kScanMax];
    MergeTable::Merge with_next[kScanMax];
    std::size_t n = symbols.size();
    for (std::size_t i = 0; i < n; ++i) ids[i] = symbols[i].id;
    for (std::size_t i = 0; i + 1 < n; ++i) with_next[i] = find(ids[i], ids[i + 1], banned);
    while (n > 1) {
      std::size_t best = 0;
      for (std::size_t i = 1; i + 1 < n; ++i)
        if (with_next[i].rank < with_next[best].rank) best = i;
      if (with_next[best].id < 0) break;
      ids[best] = with_next[best].id;
      std::copy(ids + best + 2, ids + n, ids + best + 1);
      if (best + 2 < n) std::copy(with_next + best + 2, with_next + n - 1, with_next + best + 1);
      --n;
      if (best > 0) with_next[best - 1] = find(ids[best - 1], ids[best], banned);
      if (best + 1 < n) with_next[best] = find(ids[best], ids[best + 1], banned);
    }
    out.insert(out.end(), ids, ids + n);
  }

  void merge_long(std::vector<Symbol>& symbols, const IdSet* banned, std::vector<TokenId>& out) const {
    merge_by_heap<std::uint32_t>(symbols,
                                 [&](const Symbol& a, const Symbol& b, std::uint32_t& rank, TokenId& id) {
                                   const MergeTable::Merge m = find(a.id, b.id, banned);
                                   rank = m.rank;
                                   id = m.id;
                                   return id >= 0;
                                 });
    for (const Symbol& s : symbols)
      if (s.size > 0) out.push_back(s.id);
  }

  const PieceTable& pieces_;
  MergeTable merges_;
  BpeOptions options_;
  ByteIds fallback_;
  TokenId byte_symbol_[256];
  std::unique_ptr<std::atomic<Whole>[]> whole_;
};

class ScoredBpe final : public Model {
 public:
  ScoredBpe(const PieceTable& pieces, ScoredBpeOptions options)
      : pieces_(pieces), options_(std::move(options)), fallback_(pieces) {}

  void encode(std::string_view piece, const IdSet* banned, std::vector<TokenId>& out) const override {
    each_word(piece, options_.cut_at_blank_mark,
              [&](std::string_view word) { encode_word(word, banned, out); });
  }

 private:
  // Id of a text that a merge may make, or kNone.
  TokenId usable(std::string_view text, const IdSet* banned) const {
    if (text.size() > pieces_.longest()) return PieceTable::kNone;
    const TokenId id = pieces_.find(text);
    return id >= 0 && options_.mergeable[static_cast<std::size_t>(id)] && !has(banned, id)
               ? id
               : PieceTable::kNone;
  }

  void encode_word(std::string_view word, const IdSet* banned, std::vector<TokenId>& out) const {
    thread_local std::vector<Symbol> symbols;
    symbols.clear();
    for (std::size_t at = 0; at < word.size();) {
      const std::size_t size = first_point(word.substr(at)).size;
      const auto i = static_cast<std::int32_t>(symbols.size());
      if (i > 0) symbols.back().next = i;
      symbols.push_back({usable(word.substr(at, size), banned), static_cast<std::uint32_t>(at),
                         static_cast<std::uint32_t>(size), i - 1, -1});
      at += size;
    }
    // Keys ascend, scores descend.
    merge_by_heap<float>(symbols, [&](const Symbol& a, const Symbol& b, float& key, TokenId& id) {
      id = usable(word.substr(a.begin, a.size + b.size), banned);
      if (id < 0) return false;
      key = -options_.scores[static_cast<std::size_t>(id)];
      return true;
    });
    for (const Symbol& s : symbols) {
      if (s.size == 0) continue;
      if (s.id >= 0)
        out.push_back(s.id);
      else if (!fallback_.append(word.substr(s.begin, s.size), out) && options_.unknown >= 0)
        out.push_back(options_.unknown);
    }
  }

  const PieceTable& pieces_;
  ScoredBpeOptions options_;
  ByteIds fallback_;
};

}  // namespace

void MergeTable::reserve(std::size_t merges) {
  const std::size_t slots = std::bit_ceil(merges * 2 + 16);
  if (slots <= slots_.size()) return;
  std::vector<Slot> old(slots);
  old.swap(slots_);
  mask_ = slots - 1;
  shift_ = 64U - static_cast<unsigned>(std::bit_width(mask_));
  for (const Slot& slot : old) {
    if (slot.key == kEmpty) continue;
    std::size_t i = spread(slot.key);
    while (slots_[i].key != kEmpty) i = (i + 1) & mask_;
    slots_[i] = slot;
  }
}

void MergeTable::set(TokenId left, TokenId right, Merge merge) {
  if ((used_ + 1) * 2 > slots_.size()) reserve(std::max<std::size_t>(32, slots_.size()));
  const std::uint64_t key = pack(left, right);
  std::size_t i = spread(key);
  while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask_;
  if (slots_[i].key == kEmpty) ++used_;
  slots_[i] = {key, merge};
}

bool blank_mark_inside(std::string_view piece) {
  bool other = false;
  while (!piece.empty()) {
    if (piece.starts_with(kBlankMark)) {
      if (other) return true;
      piece.remove_prefix(kBlankMark.size());
    } else {
      other = true;
      piece.remove_prefix(1);
    }
  }
  return false;
}

std::unique_ptr<Model> make_bpe(const PieceTable& pieces, MergeTable merges, BpeOptions options) {
  return std::make_unique<Bpe>(pieces, std::move(merges), std::move(options));
}
std::unique_ptr<Model> make_scored_bpe(const PieceTable& pieces, ScoredBpeOptions options) {
  return std::make_unique<ScoredBpe>(pieces, std::move(options));
}

}  // namespace met::text
