// Nested literals that are not JSON, on their way to JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace met::text {

/// Turns one literal into JSON as its bytes come: strings go out byte by byte, numbers and words when they end.
/// Lists, tuples and objects nest; words may be true, True, null, None and so on; any other bare word is a
/// string. Syntax that it cannot follow breaks it.
class LiteralPasser {
 public:
  struct Dialect {
    std::string_view quote;      ///< a marker around strings without escapes; empty: none
    bool bare_keys = false;      ///< keys of objects may be bare words
    bool single_quotes = false;  ///< '…' is a string too
  };

  explicit LiteralPasser(const Dialect& dialect) : dialect_(dialect) {}

  /// Takes bytes of the literal and appends JSON to `out`; returns their number. A scalar ends before the comma
  /// or bracket that follows it.
  std::size_t push(std::string_view text, bool ended, std::string& out);

  bool done() const { return state_ == State::kDone; }
  bool broken() const { return state_ == State::kBroken; }
  bool begun() const { return begun_; }
  /// The output has ended: a scalar at the top is whole.
  bool finish(std::string& out);

 private:
  enum class State { kValue, kString, kScalar, kKey, kBareKey, kColon, kAfter, kDone, kBroken };
  std::size_t step(std::string_view text, bool ended, std::string& out);
  std::size_t string_bytes(std::string_view text, std::string& out);
  void begin_string(char quote, bool key, std::string& out);
  void escape(char c, std::string& out);
  void end_scalar(std::string& out);
  void end_value();

  Dialect dialect_;
  State state_ = State::kValue;
  std::vector<char> open_;  // closing brackets to come
  bool begun_ = false;
  bool first_ = true;    // no member of the innermost bracket yet
  bool is_key_ = false;  // the string is one
  char quote_ = '\0';    // '\0': dialect_.quote
  std::string escape_;   // of a quoted string, not whole yet
  std::string word_;
};

}  // namespace met::text
