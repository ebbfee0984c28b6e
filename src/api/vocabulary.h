// A model's tokens as grammars see them.
#pragma once

#include <cstddef>
#include <vector>

#include "grammar/grammar.h"
#include "text/tokenizer/tokenizer.h"

namespace met::api {

/// `width`: logits of a row.
grammar::Vocabulary grammar_vocabulary(const text::Tokenizer& tokenizer,
                                       const std::vector<text::TokenId>& end_ids, std::size_t width);

}  // namespace met::api
