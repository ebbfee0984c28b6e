// Harmony, the channels of gpt-oss:
//
//   <|start|>assistant<|channel|>analysis<|message|>…<|end|>          reasoning
//   <|start|>assistant<|channel|>final<|message|>…<|return|>          content
//   <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>
//
// The recipient may precede the channel; commentary without one is content.
#pragma once

#include <memory>
#include <string_view>

#include "text/reasoning/reasoning.h"

namespace met::text {

inline constexpr std::string_view kHarmonyMarkers[] = {
    "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>", "<|end|>", "<|return|>", "<|call|>"};

/// An unfinished head is dropped. Two analysis messages are parted by a line break. Without tools in the request
/// a call's arguments are content.
std::unique_ptr<ChannelParser> make_harmony_parser(const ChannelOptions& options);

/// The part of a message's head that stands at the end of a prompt, for ChannelOptions::harmony_header.
std::string_view harmony_header(std::string_view prompt);

}  // namespace met::text
