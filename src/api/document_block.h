#pragma once

#include <string>

#include "core/error.h"
#include "core/json.h"

namespace met::api {

/// The text of a `search_result` block, or of a `document` block that is text already; other documents need a reader
/// that we lack. `here` is the block's place in the body's `field`. Errors: kInvalidArgument, kUnsupported.
Result<std::string> document_text(const json::Value& block, const std::string& field,
                                  const std::string& here);

}  // namespace met::api
