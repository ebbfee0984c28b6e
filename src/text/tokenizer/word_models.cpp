// WordPiece, WordLevel and Unigram.
#include <algorithm>
#include <limits>

#include "text/tokenizer/model.h"
#include "text/tokenizer/unicode.h"

namespace met::text {

int byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return -1;
  int value = 0;
  for (const char c : piece.substr(3, 2)) {
    const int digit = c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
    if (digit < 0) return -1;
    value = value * 16 + digit;
  }
  return value;
}

ByteIds::ByteIds(const PieceTable& pieces) {
  constexpr std::string_view kHex = "0123456789ABCDEF";
  std::string name = "<0x00>";
  for (std::size_t b = 0; b < 256; ++b) {
    name[3] = kHex[b >> 4U];
    name[4] = kHex[b & 15U];
    id[b] = pieces.find(name);
  }
}

bool ByteIds::append(std::string_view bytes, std::vector<TokenId>& out) const {
  const std::size_t before = out.size();
  for (const char c : bytes) {
    const TokenId one = id[static_cast<unsigned char>(c)];
    if (one < 0) {
      out.resize(before);
      return false;
    }
    out.push_back(one);
  }
  return true;
}

namespace {

class WordPiece final : public Model {
 public:
  WordPiece(const PieceTable& pieces, WordPieceOptions options)
      : pieces_(pieces), options_(std::move(options)) {}

  void encode(std::string_view piece, const IdSet* banned, std::vector<TokenId>& out) const override {
    const std::size_t before = out.size();
    if (!too_long(piece) && match(piece, banned, out)) return;
    out.resize(before);
    if (options_.unknown >= 0) out.push_back(options_.unknown);
  }

 private:
  bool too_long(std::string_view piece) const {
    if (options_.chars_max == 0) return false;
    return piece.size() > options_.chars_max &&
           static_cast<std::size_t>(std::ranges::count_if(piece, [](char c) {
             return (static_cast<unsigned char>(c) & 0xC0U) != 0x80;
           })) > options_.chars_max;
  }
  bool match(std::string_view piece, const IdSet* banned, std::vector<TokenId>& out) const {
    std::string candidate;
    for (std::size_t at = 0; at < piece.size();) {
      const std::string_view prefix = options_.phantom_space ? (at == 0 ? "\xE2\x96\x81" : "")
                                      : at == 0              ? std::string_view()
                                                             : std::string_view(options_.prefix);
      std::size_t end = std::min(piece.size(), at + pieces_.longest());
      TokenId id = PieceTable::kNone;
      for (; end > at; --end) {
        if (end < piece.size() && (static_cast<unsigned char>(piece[end]) & 0xC0U) == 0x80) continue;
        candidate = prefix;
        candidate += piece.substr(at, end - at);
        id = pieces_.find(candidate);
        if (id >= 0 && !has(banned, id)) break;
        id = PieceTable::kNone;
      }
      if (id < 0) return false;
      out.push_back(id);
      at = end;
    }
    return true;
  }

  const PieceTable& pieces_;
  WordPieceOptions options_;
};

class WordLevel final : public Model {
 public:
  WordLevel(const PieceTable& pieces, TokenId unknown) : pieces_(pieces), unknown_(unknown) {}
  void encode(std::string_view piece, const IdSet* banned, std::vector<TokenId>& out) const override {
    const TokenId id = pieces_.find(piece);
    if (id >= 0 && !has(banned, id))
      out.push_back(id);
    else if (unknown_ >= 0)
      out.push_back(unknown_);
  }

 private:
  const PieceTable& pieces_;
  TokenId unknown_;
};

class Unigram final : public Model {
 public:
  Unigram(const PieceTable& pieces, UnigramOptions options)
      : pieces_(pieces), options_(std::move(options)), fallback_(pieces), children_(1) {
    double lowest = 0;
    for (std::size_t i = 0; i < pieces_.size(); ++i) {
      const auto id = static_cast<TokenId>(i);
      if (!pieces_.contains(id)) continue;
      lowest = std::min(lowest, options_.scores[i]);
      if (!options_.excluded.empty() && options_.excluded[i]) continue;
      insert(pieces_.at(id), id);
    }
    unknown_score_ = lowest - 10.0;  // SentencePiece's penalty
  }

  void encode(std::string_view piece, const IdSet* banned, std::vector<TokenId>& out) const override {
    std::vector<Best> best(piece.size() + 1);
    best[0].score = 0;
    for (std::size_t at = 0; at < piece.size();) {
      const std::size_t one = first_point(piece.substr(at)).size;
      bool has_single = false;
      std::uint32_t node = 0;
      for (std::size_t end = at; end < piece.size();) {
        node = child(node, piece[end]);
        if (node == 0) break;
        ++end;
        const TokenId id = children_[node].id;
        if (id < 0 || has(banned, id)) continue;
        offer(best[end], best[at].score + options_.scores[static_cast<std::size_t>(id)], at, id);
        has_single = has_single || end - at == one;
      }
      if (!has_single) offer(best[at + one], best[at].score + unknown_score_, at, options_.unknown);
      at += one;
    }
    trace(piece, best, banned, out);
  }

 private:
  static constexpr std::size_t kUnset = std::numeric_limits<std::size_t>::max();
  struct Best {
    double score = 0;
    std::size_t begin = kUnset;
    TokenId id = PieceTable::kNone;
  };
  // A trie over bytes: the children of a node are a sorted list.
  struct Node {
    std::vector<std::pair<unsigned char, std::uint32_t>> next;
    TokenId id = PieceTable::kNone;
  };

  static void offer(Best& target, double score, std::size_t begin, TokenId id) {
    if (target.begin == kUnset || score > target.score) target = {score, begin, id};
  }
  std::uint32_t child(std::uint32_t node, char c) const {
    const auto& next = children_[node].next;
    const auto it = std::ranges::lower_bound(next, static_cast<unsigned char>(c), {},
                                             &std::pair<unsigned char, std::uint32_t>::first);
    return it != next.end() && it->first == static_cast<unsigned char>(c) ? it->second : 0;
  }
  void insert(std::string_view piece, TokenId id) {
    std::uint32_t node = 0;
    for (const char c : piece) {
      std::uint32_t next = child(node, c);
      if (next == 0) {
        next = static_cast<std::uint32_t>(children_.size());
        auto& list = children_[node].next;
        const auto byte = static_cast<unsigned char>(c);
        list.insert(std::ranges::lower_bound(list, byte, {}, &std::pair<unsigned char, std::uint32_t>::first),
                    {byte, next});
        children_.emplace_back();
      }
      node = next;
    }
    if (node != 0 && children_[node].id < 0) children_[node].id = id;
  }

  // Neighbouring unknown stretches are one.
  void trace(std::string_view piece, const std::vector<Best>& best, const IdSet* banned,
             std::vector<TokenId>& out) const {
    std::vector<std::string_view> parts;
    bool last_unknown = false;
    for (std::size_t end = piece.size(); end > 0;) {
      const Best& b = best[end];
      const bool unknown = b.id == options_.unknown;
      if (unknown && last_unknown)
        parts.back() = std::string_view(piece.data() + b.begin, parts.back().size() + end - b.begin);
      else
        parts.push_back(piece.substr(b.begin, end - b.begin));
      last_unknown = unknown;
      end = b.begin;
    }
    for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
      const TokenId id = pieces_.find(*part);
      if (id >= 0 && !has(banned, id))
        out.push_back(id);
      else if (!(options_.byte_fallback && fallback_.append(*part, out)) && options_.unknown >= 0)
        out.push_back(options_.unknown);
    }
  }

  const PieceTable& pieces_;
  UnigramOptions options_;
  ByteIds fallback_;
  std::vector<Node> children_;
  double unknown_score_ = 0;
};

}  // namespace

std::unique_ptr<Model> make_word_piece(const PieceTable& pieces, WordPieceOptions options) {
  return std::make_unique<WordPiece>(pieces, std::move(options));
}
std::unique_ptr<Model> make_word_level(const PieceTable& pieces, TokenId unknown) {
  return std::make_unique<WordLevel>(pieces, unknown);
}
std::unique_ptr<Model> make_unigram(const PieceTable& pieces, UnigramOptions options) {
  return std::make_unique<Unigram>(pieces, std::move(options));
}

}  // namespace met::text
