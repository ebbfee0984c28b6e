// Hand-written equals of the most used split patterns.
#pragma once

#include <string_view>
#include <vector>

#include "text/tokenizer/tokenizer.h"

namespace met::text {

/// Appends the matches of the pattern in valid UTF-8.
using Scanner = void (*)(std::string_view text, std::vector<ByteRange>& out);

/// The scanner for exactly this pattern, or nullptr.
Scanner scanner_for(std::string_view pattern);

inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace met::text
