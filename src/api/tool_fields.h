// The fields of a chat that are about tools and reasoning.
#pragma once

#include "api/fields.h"

namespace met::api {

/// `tools`: functions with unique names and JSON Schemas as parameters, as far as can be seen without compiling
/// them: types that exist, local references that lead somewhere. Errors name the place in the list.
Result<void> read_tools(const Field& field, const json::Value& value, GenerationRequest& request,
                        const ParseContext& context);
/// `tool_choice`: "none", "auto", "required", one function, or allowed_tools. Names are checked by
/// check_tool_choice.
Result<void> read_tool_choice(const Field& field, const json::Value& value, GenerationRequest& request,
                              const ParseContext& context);
/// OpenAI's older form of tools: `functions` and `function_call`.
Result<void> read_functions(const Field& field, const json::Value& value, GenerationRequest& request,
                            const ParseContext& context);
Result<void> read_function_call(const Field& field, const json::Value& value, GenerationRequest& request,
                                const ParseContext& context);
/// `thinking`: true, false, or {"type": "enabled" | "disabled" | "adaptive", "budget_tokens"}.
Result<void> read_thinking(const Field& field, const json::Value& value, GenerationRequest& request,
                           const ParseContext& context);

/// Whether the choice fits the tools: to be called when all fields are read. Errors: field "tool_choice".
Result<void> check_tool_choice(const GenerationRequest& request);

}  // namespace met::api
