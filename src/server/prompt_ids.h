// The ids of a body's prompt, as /tokenize gives them.
#pragma once

#include <vector>

#include "api/request.h"
#include "core/json.h"
#include "server/services.h"

namespace met::server {

/// Of `messages`, with the tools and variables of a chat's body; of `prompt`; or of llama.cpp's `content`.
Result<std::vector<api::TokenId>> ids_of_body(const json::Value& body, const Services& met);

}  // namespace met::server
