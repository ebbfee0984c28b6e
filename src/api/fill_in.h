// Completions with a suffix, fill-in-the-middle (FIM): the prompt by which a model writes what stands between two texts.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "api/request.h"
#include "text/tokenizer/tokenizer.h"

namespace met::api {

/// What a vocabulary has for filling in, found by the tokens' texts.
struct FillIn {
  TokenId prefix = -1;  ///< stands before the prefix
  TokenId suffix = -1;  ///< before the suffix
  std::optional<TokenId>
      middle;                 ///< before the answer; none: the prefix comes last and the answer continues it
  std::vector<TokenId> ends;  ///< end a middle, besides what ends any answer; sorted
};

/// Nothing: the vocabulary has no such tokens.
std::optional<FillIn> find_fill_in(const text::Tokenizer& tokenizer);

/// A prompt for the middle, and where in it the ids of the prefix stand.
struct FillInPrompt {
  std::vector<TokenId> ids;
  std::size_t prefix_begin = 0;
  std::size_t prefix_count = 0;
};

/// `before` is text, or ids as they are, which may begin with BOS. No text becomes a control token, whatever it spells.
FillInPrompt fill_in_prompt(const FillIn& tokens, const PromptInput& before, const std::string& behind,
                            bool add_special, const text::Tokenizer& tokenizer);

}  // namespace met::api
