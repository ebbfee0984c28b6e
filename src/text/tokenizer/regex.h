// Split patterns of tokenizers.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "text/tokenizer/scanners.h"
#include "text/tokenizer/tokenizer.h"

namespace met::text {

/// The pattern, written for Oniguruma or Rust's regex, as PCRE2 reads it: \s, \S, \w, \W and \h become the
/// sets that those libraries mean, and an intersection `[A&&[^B]]` becomes a lookahead.
std::string translate_pattern(std::string_view pattern);

/// A compiled pattern; immutable, matched from any thread.
class Regex {
 public:
  /// Errors: kInvalidArgument with PCRE2's message.
  static Result<Regex> compile(std::string_view pattern);
  /// A literal string.
  static Result<Regex> literal(std::string_view text);

  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) noexcept;
  ~Regex();

  /// Appends the matches in order, non-overlapping, without empty ones. `text` is valid UTF-8. A pattern that
  /// exceeds PCRE2's own limits on a text matches no further in it.
  void find_all(std::string_view text, std::vector<ByteRange>& out) const;
  /// The next matches from `at`, as many as `out` holds; `at` moves behind what was looked at, to the text's end when
  /// there are no more. The number written.
  std::size_t find_some(std::string_view text, std::size_t& at, std::span<ByteRange> out) const;
  /// As find_all, by PCRE2 even where a scanner exists: for tests of the scanners.
  void find_all_by_pcre2(std::string_view text, std::vector<ByteRange>& out) const;
  bool has_scanner() const { return scanner_ != nullptr; }

 private:
  struct Code;
  Regex();
  std::size_t find_literal(std::string_view text, std::size_t& at, std::span<ByteRange> out) const;
  std::size_t find_by_pcre2(std::string_view text, std::size_t& at, std::span<ByteRange> out) const;

  std::unique_ptr<Code> code_;
  std::string literal_;
  Scanner scanner_ = nullptr;
};

}  // namespace met::text
