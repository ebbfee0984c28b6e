// The forms in which messages may suit a template, from nearest to what was given to most adapted.
#pragma once

#include <vector>

#include "core/json.h"

namespace met::text {

/// Copies a message's reasoning to the field names that templates read, as transformers does.
void alias_reasoning(json::Array& messages);

/// The forms to try in order; at least one. `takes_parts`: the template can take content as parts.
std::vector<json::Array> message_forms(const json::Array& messages, bool takes_parts);

}  // namespace met::text
