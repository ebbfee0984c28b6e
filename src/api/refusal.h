// Whether an answer declines what was asked: by a small set of English openings and the answer's length.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "api/answer.h"

namespace met::api {

/// What is longer than this answers something, however it begins.
inline constexpr std::size_t kRefusalBytes = 600;

enum class Opening {
  kNone,   ///< whatever follows, it is no refusal
  kMaybe,  ///< the beginning of one
  kWhole,  ///< "I'm sorry, but I can't help with", "I cannot fulfill", …
};

/// Case, kinds of apostrophes and of blanks make no difference; marks of emphasis and quotation in front are skipped.
Opening refusal_opening(std::string_view text);

/// Parts of one choice in order, in and out. Content that begins like a refusal is held until it is clear that it is
/// none, or until the answer ends with it: then it comes out as one part with `refusal`. Reasoning before it passes; a
/// call behind it makes it content.
class RefusalFilter {
 public:
  std::vector<AnswerPart> push(std::vector<AnswerPart> parts);

 private:
  std::optional<AnswerPart> held_;
  bool decided_ = false;
};

}  // namespace met::api
