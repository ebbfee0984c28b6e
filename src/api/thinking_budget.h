// A bound on reasoning: the closing marker is forced when it is reached.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sampling/constraint.h"
#include "text/reasoning/reasoning.h"
#include "text/tokenizer/tokenizer.h"

namespace met::api {

/// At most `budget` ids of reasoning, then the ids of the format's closing marker. The answer begins inside the
/// block (`start` kOpen), or its first ids may open it. Everything else is as `inner` says; `inner` may be null.
/// The tokenizer outlives the constraint. For formats with a closing marker and blocks that the prompt has not
/// closed: constraint.h says where reasoning is bounded.
std::shared_ptr<const sampling::Constraint> thinking_budget_constraint(
    std::int64_t budget, text::ReasoningFormat format, text::ReasoningStart start,
    const text::Tokenizer& tokenizer, std::shared_ptr<const sampling::Constraint> inner);

/// What is forced then.
std::vector<text::TokenId> closing_ids(text::ReasoningFormat format, const text::Tokenizer& tokenizer);

}  // namespace met::api
