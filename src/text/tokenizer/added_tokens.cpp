#include "text/tokenizer/added_tokens.h"

#include <algorithm>

#include "text/tokenizer/unicode.h"

namespace met::text {
namespace {

// The last code point of valid, non-empty UTF-8.
Point last_point(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80) --at;
  return first_point(text.substr(at));
}

std::size_t blanks_begin(std::string_view text, std::size_t end) {
  while (end > 0) {
    const Point p = last_point(text.substr(0, end));
    if (!is_space(p.c)) break;
    end -= p.size;
  }
  return end;
}
std::size_t blanks_end(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const Point p = first_point(text.substr(at));
    if (!is_space(p.c)) break;
    at += p.size;
  }
  return at;
}

}  // namespace

void AddedMatcher::add(const AddedToken& token, std::string_view needle) {
  if (needle.empty()) return;
  std::int32_t node = 0;
  for (std::size_t i = 0; i < needle.size(); ++i) {
    const auto byte = static_cast<unsigned char>(needle[i]);
    std::int32_t next = i == 0 ? root_[byte] : edges_.find(node, byte).id;
    if (next <= 0) {
      next = static_cast<std::int32_t>(token_at_.size());
      token_at_.push_back(-1);
      if (i == 0)
        root_[byte] = next;
      else
        edges_.set(node, byte, {0, next});
    }
    node = next;
  }
  std::int32_t& slot = token_at_[static_cast<std::size_t>(node)];
  if (slot >= 0) return;
  slot = static_cast<std::int32_t>(tokens_.size());
  tokens_.push_back(token);
  any_special_ = any_special_ || token.special;
}

bool AddedMatcher::passes_word_rule(const AddedToken& token, std::string_view text, std::size_t begin,
                                    std::size_t end) const {
  if (!token.single_word) return true;
  return (begin == 0 || !is_word(last_point(text.substr(0, begin)).c)) &&
         (end == text.size() || !is_word(first_point(text.substr(end)).c));
}

void AddedMatcher::split(std::string_view text, const Judge& judge, std::vector<AddedSpan>& out) const {
  std::size_t given = 0;  // text up to here is in `out`
  std::vector<Found> found;
  for (std::size_t at = 0; at < text.size();) {
    std::int32_t node = root_[static_cast<unsigned char>(text[at])];
    if (node == 0) {
      ++at;
      continue;
    }
    found.clear();
    for (std::size_t end = at + 1;; ++end) {
      const std::int32_t token = token_at_[static_cast<std::size_t>(node)];
      if (token >= 0) found.push_back({&tokens_[static_cast<std::size_t>(token)], end});
      if (end == text.size()) break;
      node = edges_.find(node, static_cast<unsigned char>(text[end])).id;
      if (node < 0) break;
    }
    std::size_t next = at + 1;
    for (; !found.empty(); found.pop_back()) {
      const AddedToken& token = *found.back().token;
      const std::size_t end = found.back().end;
      const Verdict verdict = judge(token, at, end);
      if (verdict == Verdict::kResume) continue;
      next = end;
      if (verdict == Verdict::kSkip || !passes_word_rule(token, text, at, end)) break;
      const std::size_t begin = token.lstrip ? std::max(blanks_begin(text, at), given) : at;
      const std::size_t stop = token.rstrip ? blanks_end(text, end) : end;
      if (given < begin) out.push_back({given, begin, PieceTable::kNone});
      out.push_back({begin, stop, token.id});
      given = stop;
      break;
    }
    at = next;
  }
  if (given < text.size()) out.push_back({given, text.size(), PieceTable::kNone});
}

}  // namespace met::text
