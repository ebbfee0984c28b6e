// Hand-written equals of the most used split patterns.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "text/tokenizer/tokenizer.h"

namespace met::text {

/// Writes the pattern's next matches in valid UTF-8, as many as `out` holds, and moves `at` behind them, to the text's end
/// when there are no more. The number written.
using Scanner = std::size_t (*)(std::string_view text, std::size_t& at, std::span<ByteRange> out);

/// The scanner for exactly this pattern, or nullptr.
Scanner scanner_for(std::string_view pattern);

inline constexpr std::string_view kNumberPattern = R"(\p{N})";
inline constexpr std::string_view kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
inline constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

}  // namespace met::text
