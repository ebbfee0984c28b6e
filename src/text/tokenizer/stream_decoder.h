// Token ids to text, one token at a time.
#pragma once

#include <string>
#include <string_view>

#include "text/tokenizer/tokenizer.h"

namespace met::text {

/// Turns bytes into valid UTF-8: gives what is decided, holds an incomplete sequence (at most 3 bytes), and
/// puts one U+FFFD for each maximal invalid subpart. The result does not depend on how the bytes are cut.
class Utf8Assembler {
 public:
  /// Appends the text that `bytes` decide.
  void push(std::string_view bytes, std::string& out);
  /// Appends U+FFFD when a sequence was left incomplete.
  void flush(std::string& out);

 private:
  std::string held_;
};

/// Incremental detokenizer. The tokenizer must outlive it. Used from one thread at a time.
class StreamDecoder {
 public:
  explicit StreamDecoder(const Tokenizer& tokenizer, bool skip_special = true)
      : tokenizer_(&tokenizer), skip_special_(skip_special) {}

  /// Text decided by one more token. Ids outside the vocabulary give nothing.
  std::string push(TokenId id);
  /// The rest at the end.
  std::string flush();

 private:
  const Tokenizer* tokenizer_;
  bool skip_special_;
  Utf8Assembler assembler_;
};

}  // namespace met::text
