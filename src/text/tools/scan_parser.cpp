#include "text/tools/scan_parser.h"

#include <algorithm>

namespace met::text {

void ScanParser::push(std::string_view bytes, AnswerSink& out) {
  buffer_ += bytes;
  while (step(out)) {
  }
  buffer_.erase(0, position_);
  position_ = 0;
}

void ScanParser::finish(bool cut, AnswerSink& out) {
  ended_ = true;
  push({}, out);
  close(cut, out);
}

ScanParser::Match ScanParser::match(std::string_view marker, std::size_t at) const {
  const std::string_view text = rest().substr(at);
  if (text.starts_with(marker)) return Match::kYes;
  return !ended_ && marker.starts_with(text) ? Match::kMaybe : Match::kNo;
}

std::size_t find_marker(std::string_view text, std::span<const std::string_view> markers, bool ended,
                        int& which) {
  which = -1;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const std::string_view tail = text.substr(at);
    for (std::size_t i = 0; i < markers.size(); ++i) {
      if (tail[0] != markers[i][0]) continue;
      if (tail.starts_with(markers[i])) {
        which = static_cast<int>(i);
        return at;
      }
      if (!ended && markers[i].starts_with(tail)) return at;
    }
  }
  return text.size();
}

ScanParser::Found ScanParser::find(std::span<const std::string_view> markers) const {
  Found found{};
  found.at = find_marker(rest(), markers, ended_, found.which);
  return found;
}

int ScanParser::text_until(std::span<const std::string_view> markers, AnswerSink& out) {
  const Found found = find(markers);
  out.content(rest().substr(0, found.at));
  skip(found.at);
  return found.which;
}

std::size_t ScanParser::blanks(std::size_t at) const {
  const std::string_view text = rest().substr(at);
  return std::min({text.find_first_not_of(kBlanks), text.size(), kBlanksMax});
}

void ScanParser::skip_blanks() { skip(std::min(rest().find_first_not_of(kBlanks), rest().size())); }

bool ScanParser::is_tail(std::string_view marker, std::size_t at) const {
  const std::string_view text = rest().substr(at);
  return ended_ && !text.empty() && marker.starts_with(text);
}

bool is_name_byte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         std::string_view("_.-:/").find(c) != std::string_view::npos;
}

bool is_name(std::string_view text) { return !text.empty() && std::ranges::all_of(text, is_name_byte); }

}  // namespace met::text
