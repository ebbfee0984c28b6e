// Tokens that are looked for in the text itself, before the model.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/tokenizer.h"

namespace met::text {

struct AddedToken {
  TokenId id = 0;
  std::string content;
  bool single_word = false;  ///< not next to a word character
  bool lstrip = false;       ///< swallows blanks to its left
  bool rstrip = false;       ///< swallows blanks to its right
  bool normalized = false;   ///< looked for in the normalised text, in its normalised form
  bool special = false;
};

/// May a token match here?
enum class Verdict {
  kTake,
  kSkip,    ///< no, and nothing else begins within it
  kResume,  ///< no, but a shorter token here or one beginning within it may
};

/// A stretch of a text: a token, or text between tokens.
struct AddedSpan {
  std::size_t begin;
  std::size_t end;
  TokenId id;  ///< PieceTable::kNone: text
};

/// Finds tokens in a text: leftmost first, of those the longest. Immutable after the last `add`.
class AddedMatcher {
 public:
  /// `needle` is what is looked for; an equal needle added before stays. Empty needles are ignored.
  void add(const AddedToken& token, std::string_view needle);
  bool empty() const { return tokens_.empty(); }
  bool any_special() const { return any_special_; }

  using Judge = std::function<Verdict(const AddedToken& token, std::size_t begin, std::size_t end)>;
  /// Appends spans that cover `text` (valid UTF-8). Cost O(n) times the longest token in the worst case.
  void split(std::string_view text, const Judge& judge, std::vector<AddedSpan>& out) const;

 private:
  struct Found {
    const AddedToken* token = nullptr;
    std::size_t end = 0;
  };
  bool passes_word_rule(const AddedToken& token, std::string_view text, std::size_t begin,
                        std::size_t end) const;

  std::vector<AddedToken> tokens_;
  std::vector<std::int32_t> token_at_{-1};  // trie node → index into tokens_
  std::int32_t root_[256] = {};
  MergeTable edges_;  // (node, byte) → node
  bool any_special_ = false;
};

}  // namespace met::text
