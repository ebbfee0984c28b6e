// The templates of jinja-templates/, embedded at build time.
#pragma once

#include <span>

#include "core/embedded_file.h"

namespace met::text {

/// Named by model_type, or "chatml".
std::span<const EmbeddedFile> embedded_templates();

}  // namespace met::text
