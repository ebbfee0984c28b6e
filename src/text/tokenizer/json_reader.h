// A pull reader of JSON for documents too big to become values: tokenizer.json's vocabulary and merges.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/error.h"

namespace met::text {

/// Reads one value after another from a text that must outlive it. Every error names the byte offset.
class JsonReader {
 public:
  explicit JsonReader(std::string_view text) : text_(text) {}

  std::size_t offset() const { return at_; }
  /// The next byte after blanks, 0 at the end.
  char peek();
  /// Takes `c` after blanks.
  Result<> expect(char c);
  /// Takes `c` after blanks when it is next.
  bool accept(char c);
  /// A string. The view points into the text, or into `buffer` where escapes had to be replaced.
  Result<std::string_view> string(std::string& buffer);
  Result<std::int64_t> integer();
  Result<double> number();
  /// Passes one value without looking at more than its strings and brackets; returns its bytes.
  Result<std::string_view> skip();

 private:
  std::unexpected<Error> problem(std::string_view what) const;
  Result<> unescape(std::string& buffer);
  Result<std::uint32_t> hex4();

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace met::text
