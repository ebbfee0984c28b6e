// A text whose bytes remember whether a user wrote them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace met::text {

/// `marks` is empty when nobody asks, else one byte for each byte of `text`: 1 where a user wrote it.
struct MarkedText {
  std::string text;
  std::vector<std::uint8_t> marks;
  bool marked() const { return !marks.empty(); }
};

/// Writes the successor of a marked text from left to right.
class MarkedWriter {
 public:
  explicit MarkedWriter(const MarkedText& from) : from_(from) {
    out_.text.reserve(from.text.size() + from.text.size() / 4);
  }
  /// Copies bytes [begin, end) of the source.
  void copy(std::size_t begin, std::size_t end) {
    out_.text.append(from_.text, begin, end - begin);
    if (from_.marked())
      out_.marks.insert(out_.marks.end(), from_.marks.begin() + static_cast<std::ptrdiff_t>(begin),
                        from_.marks.begin() + static_cast<std::ptrdiff_t>(end));
  }
  /// Puts `text` in the place of bytes [begin, end): a user's if one of them was.
  void put(std::string_view text, std::size_t begin, std::size_t end) {
    out_.text.append(text);
    if (!from_.marked()) return;
    std::uint8_t mark = 0;
    for (std::size_t i = begin; i < end; ++i) mark |= from_.marks[i];
    out_.marks.insert(out_.marks.end(), text.size(), mark);
  }
  MarkedText take() { return std::move(out_); }

 private:
  const MarkedText& from_;
  MarkedText out_;
};

}  // namespace met::text
