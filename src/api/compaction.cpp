#include "api/compaction.h"

#include <algorithm>
#include <cstddef>
#include <string_view>
#include <utility>

#include "core/concat.h"

namespace met::api {
namespace {

constexpr std::size_t kLastKept = 6;  // behind the middle
constexpr std::size_t kLongBytes = 500;
constexpr std::size_t kEndLines = 3;
constexpr std::size_t kMarkerBytes = 200;
constexpr std::size_t kSystemBytes = 4000;
constexpr std::size_t kSystemHead = 2000;
constexpr std::size_t kSystemTail = 1000;

std::string_view role_of(const json::Value& message) { return message.find("role")->as_string(); }
std::string& content_of(json::Value& message) { return message.as_object().find("content")->as_string(); }

/// The first and last lines; nothing when the text is short or has few lines.
std::string ends_of(const std::string& text) {
  const auto lines = static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1;
  if (text.size() <= kLongBytes || lines <= 2 * kEndLines) return {};
  std::size_t head = 0;
  for (std::size_t i = 0; i < kEndLines; ++i) head = text.find('\n', head) + 1;
  std::size_t tail = text.size();
  for (std::size_t i = 0; i < kEndLines; ++i) tail = text.rfind('\n', tail - 1);
  return concat(text.substr(0, head), "[", lines - 2 * kEndLines, " lines left out]", text.substr(tail));
}

/// Where the last `count` messages begin, a little earlier where the cut would part a call from its results or
/// an answer from its question.
std::size_t begin_of_last(const json::Array& messages, std::size_t count) {
  std::size_t begin = messages.size() - std::min(count, messages.size());
  while (begin > 0 && role_of(messages[begin]) == "tool") --begin;
  const bool answers = begin > 0 && role_of(messages[begin]) == "assistant";
  if (answers && role_of(messages[begin - 1]) == "user") --begin;
  return begin;
}

/// The first message (with `keeps_first`, or a system prompt) and the last `count`. When those hold no user's
/// turn, the last one before them stays too: templates and models need a question.
json::Array only_last(const json::Array& messages, std::size_t count, bool keeps_first, Cuts& cuts) {
  const std::size_t begin = begin_of_last(messages, count);
  json::Array out;
  const bool first =
      keeps_first ? messages[0].find("tool_calls") == nullptr : role_of(messages[0]) == "system";
  if (begin > 0 && first) out.push_back(messages[0]);
  const auto is_user = [](const json::Value& message) { return role_of(message) == "user"; };
  const auto from = messages.begin() + static_cast<std::ptrdiff_t>(begin);
  if (std::none_of(from, messages.end(), is_user) && std::ranges::none_of(out, is_user)) {
    for (std::size_t i = begin; i-- > 1;) {
      if (!is_user(messages[i])) continue;
      out.push_back(messages[i]);
      break;
    }
  }
  out.insert(out.end(), from, messages.end());
  cuts.dropped += static_cast<int>(messages.size() - out.size());
  return out;
}

/// Bytes [0, n) without half a code point at the end.
std::string_view head_of(std::string_view text, std::size_t n) {
  while (n > 0 && (static_cast<unsigned char>(text[n]) & 0xC0U) == 0x80U) --n;
  return text.substr(0, n);
}

std::string_view tail_of(std::string_view text, std::size_t n) {
  std::size_t begin = text.size() - n;
  while (begin < text.size() && (static_cast<unsigned char>(text[begin]) & 0xC0U) == 0x80U) ++begin;
  return text.substr(begin);
}

}  // namespace

std::string Cuts::text() const {
  std::string out;
  for (const auto& [name, count] : {std::pair{"shortened", shortened},
                                    {"markers", markers},
                                    {"dropped", dropped},
                                    {"system", system ? 1 : 0}})
    if (count > 0) out += concat(out.empty() ? "" : ", ", name, "=", count);
  return out;
}

CompactionStage compaction_stage(double fill) {
  if (fill < 0.80) return CompactionStage::kEnds;
  if (fill < 0.85) return CompactionStage::kMarkers;
  return fill < 0.95 ? CompactionStage::kLastSix : CompactionStage::kLastFour;
}

json::Array compacted(const json::Array& messages, CompactionStage stage, Cuts& cuts) {
  if (stage == CompactionStage::kLastSix) return only_last(messages, 6, /*keeps_first=*/true, cuts);
  if (stage == CompactionStage::kLastFour) {
    json::Array out = only_last(messages, 4, /*keeps_first=*/false, cuts);
    std::string& text = content_of(out[0]);
    if (role_of(out[0]) == "system" && text.size() > kSystemBytes) {
      text = concat(head_of(text, kSystemHead), "\n[", text.size() - kSystemHead - kSystemTail,
                    " bytes left out]\n", tail_of(text, kSystemTail));
      cuts.system = true;
    }
    return out;
  }
  json::Array out = messages;
  const std::size_t end = messages.size() - std::min(kLastKept, messages.size());
  for (std::size_t i = 1; i < end; ++i) {
    std::string& text = content_of(out[i]);
    const bool markable = role_of(out[i]) == "tool" || role_of(out[i]) == "user";
    if (stage == CompactionStage::kMarkers && markable && text.size() > kMarkerBytes) {
      text = concat("[", text.size(), " bytes left out]");
      ++cuts.markers;
    } else if (std::string ends = ends_of(text); stage == CompactionStage::kEnds && !ends.empty()) {
      text = std::move(ends);
      ++cuts.shortened;
    }
  }
  return out;
}

}  // namespace met::api
