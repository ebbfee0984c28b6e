// The templates of jinja-templates/, embedded at build time.
#pragma once

#include <span>
#include <string_view>

namespace met::text {

struct EmbeddedTemplate {
  std::string_view name;  ///< file name without ".jinja": a model_type, or "chatml"
  std::string_view source;
};

std::span<const EmbeddedTemplate> embedded_templates();

}  // namespace met::text
