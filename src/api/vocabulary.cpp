#include "api/vocabulary.h"

#include <algorithm>

namespace met::api {

grammar::Vocabulary grammar_vocabulary(const text::Tokenizer& tokenizer,
                                       const std::vector<text::TokenId>& end_ids, std::size_t width) {
  grammar::Vocabulary out;
  out.width = width;
  const std::size_t size = std::min(tokenizer.vocabulary_size(), width);
  out.tokens.reserve(size);
  for (std::size_t id = 0; id < size; ++id) {
    const auto token = static_cast<text::TokenId>(id);
    out.tokens.emplace_back(tokenizer.token_bytes(token));
    if (tokenizer.is_special(token)) out.special.push_back(token);
  }
  for (const text::TokenId id : end_ids)
    if (id >= 0 && static_cast<std::size_t>(id) < size) out.end_ids.push_back(id);
  return out;
}

}  // namespace met::api
