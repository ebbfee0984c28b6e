// Anthropic's tools as functions: a client's own by their schema, those that Anthropic defines and the client runs by theirs.
#pragma once

#include "core/error.h"
#include "core/json.h"

namespace met::api {

/// Adds `tools` to a chat body. Errors: kInvalidArgument or kUnsupported, field "tools", naming the place.
Result<void> lower_tools(const json::Value& body, json::Object& chat);

}  // namespace met::api
