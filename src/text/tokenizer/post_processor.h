// What a post-processor adds around a text.
#pragma once

#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "text/tokenizer/tokenizer.h"

namespace met::text {

struct PostProcessor {
  std::vector<TokenId> prefix;
  std::vector<TokenId> suffix;
};

/// From the member "post_processor", for a single text. Errors: kUnsupported or kInvalidArgument naming the
/// member.
Result<PostProcessor> read_post_processor(const json::Value& declaration);

}  // namespace met::text
