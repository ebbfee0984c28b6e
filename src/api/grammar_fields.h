// What a request says about its text's form, in all the ways that clients say it.
#pragma once

#include <optional>
#include <string_view>

#include "api/request.h"
#include "core/error.h"
#include "core/json.h"
#include "grammar/spec.h"

namespace met::api {

/// OpenAI's response_format: text, json_object and json_schema; also vLLM's structural_tag and llama.cpp's `schema`
/// beside json_object. Nothing for text. Errors name `field`.
Result<std::optional<grammar::Spec>> read_response_format(std::string_view field, const json::Value& value);

/// vLLM's structured_outputs: exactly one of json, json_object, regex, choice, grammar, structural_tag. An empty
/// object says nothing.
Result<std::optional<grammar::Spec>> read_structured_outputs(std::string_view field,
                                                             const json::Value& value);

/// Fields that hold one notation: guided_json, guided_regex, guided_choice, guided_grammar, grammar, json_schema.
/// Empty values say nothing.
Result<std::optional<grammar::Spec>> read_notation(std::string_view field, grammar::Kind kind,
                                                   const json::Value& value);

/// Gives the request its grammar. Errors: it has one already, from another field.
Result<void> set_grammar(GenerationRequest& request, std::optional<grammar::Spec> spec);

}  // namespace met::api
