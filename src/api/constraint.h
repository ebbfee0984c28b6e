// What an answer is held to while it is generated: the form that was asked for, calls that must be, reasoning that
// must end.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "api/model_text.h"
#include "api/request.h"
#include "grammar/spec.h"
#include "sampling/constraint.h"
#include "text/machine/answer_parser.h"

namespace met::api {

/// The request's grammar, or that of its tools where they must be called, or where one is strict; an answer that may
/// call and has a form is either. Errors: kUnsupported, field "tool_choice", for a model whose way of writing calls
/// no grammar holds; the form's field for one that cannot stand beside calls.
Result<std::optional<grammar::Spec>> output_grammar(const GenerationRequest& request, const ModelText& model);

/// Grammar and budget of reasoning, compiled: work of a text thread. nullptr: the answer is free. Errors: those of
/// output_grammar and of grammar::Compiler.
Result<std::shared_ptr<const sampling::Constraint>> output_constraint(const GenerationRequest& request,
                                                                      const ModelText& model,
                                                                      const text::AnswerFormat& format);

/// The budget of reasoning, in tokens, that is part of it; nullopt: none is.
std::optional<std::int64_t> thinking_bound(const GenerationRequest& request, const ModelText& model,
                                           const text::AnswerFormat& format);

}  // namespace met::api
