// A text side small enough for a test: one token a byte, three control tokens, ChatML.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/model_text.h"

namespace met::testing {

inline constexpr text::TokenId kImStart = 256;
inline constexpr text::TokenId kImEnd = 257;

/// Ids 0 to 255 are the bytes in the order of the byte-level alphabet; names {"tiny"}.
/// The template shows tools where there are some; the variable enable_thinking opens or closes a think block.
/// `added` are further control tokens, from id 259 on.
std::shared_ptr<const api::ModelText> tiny_text(const api::AnswerHabits& habits = {},
                                                const std::vector<std::string>& added = {});

/// The ids of `text`, as the tokenizer of tiny_text gives them.
std::vector<text::TokenId> tiny_ids(std::string_view text);

}  // namespace met::testing
