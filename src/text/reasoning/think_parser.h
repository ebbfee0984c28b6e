// One block of reasoning between two markers, then content.
#pragma once

#include <memory>

#include "text/reasoning/reasoning.h"

namespace met::text {

/// A block opens before any text or not at all, and its first closing marker ends it; a second block is text. In
/// Gemma's format a block may open anywhere, and its first line names the channel. Where a marker is a token of
/// the vocabulary only the token counts; its spelling in other tokens is text. Bytes that were held for a marker
/// are text of the channel that they stand in.
std::unique_ptr<ChannelParser> make_think_parser(const ChannelOptions& options);

}  // namespace met::text
