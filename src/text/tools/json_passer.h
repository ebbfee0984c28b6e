// One JSON value on its way through, byte by byte.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace met::text {

/// Finds the end of a JSON value by its quotes and brackets alone and passes its bytes on as they come. It
/// checks no syntax: malformed text passes too. Only control characters inside strings, which JSON forbids and
/// models write, are escaped.
class JsonPasser {
 public:
  /// Takes the bytes of `text` that belong to the value and appends them to `out`; returns their number. A
  /// scalar ends before the blank, comma or bracket that follows it. Stops before `stop` outside of strings,
  /// where it is not 0, so that the caller can look for markup there.
  std::size_t push(std::string_view text, std::string& out, char stop = '\0');
  /// Takes one byte even if it is the one to stop at.
  void take(char c, std::string& out);

  bool begun() const { return state_ != State::kBefore; }
  bool done() const { return state_ == State::kDone; }
  bool in_string() const { return quoted_; }
  /// The text has ended: a scalar is done then, and so is a value that is done.
  bool ends_here() const { return done() || state_ == State::kScalar; }

 private:
  enum class State { kBefore, kScalar, kString, kNested, kDone };
  State state_ = State::kBefore;
  std::size_t depth_ = 0;
  bool quoted_ = false;   // inside a string
  bool escaped_ = false;  // after a backslash
};

}  // namespace met::text
