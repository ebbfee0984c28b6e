// Text in a form that a client keeps and gives back without reading it: `encrypted_content` of reasoning items. It hides
// nothing: the same text stands in the item's content.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace met::api {

std::string sealed(std::string_view text);

/// The text of what `sealed` gave; nothing for anything else.
std::optional<std::string> unsealed(std::string_view content);

}  // namespace met::api
