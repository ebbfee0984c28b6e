#include "api/refusal.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <utility>

namespace met::api {
namespace {

using Words = std::span<const std::string_view>;

constexpr std::string_view kApologies[] = {"i'm sorry", "i am sorry",  "i'm really sorry", "i'm very sorry",
                                           "sorry",     "i apologize", "my apologies",     "unfortunately"};
constexpr std::string_view kJoints[] = {" ", ", ", ", but ", " but ", ". ", "; "};
constexpr std::string_view kInabilities[] = {"i can't ",
                                             "i cannot ",
                                             "i can not ",
                                             "i won't ",
                                             "i will not ",
                                             "i'm unable to ",
                                             "i am unable to ",
                                             "i'm not able to ",
                                             "i am not able to ",
                                             "i won't be able to ",
                                             "i will not be able to "};
constexpr std::string_view kActions[] = {
    "help with ",   "help you with ", "assist with ",     "assist you with ",
    "assist in ",   "comply with ",   "fulfill ",         "fulfil ",
    "help you to ", "engage in ",     "participate in ",  "support that",
    "support this", "do that",        "help you do that", "help you do this"};
constexpr std::string_view kDeclines[] = {"i must decline", "i have to decline", "i decline to "};

/// Lower case, one blank for several, straight apostrophes, nothing in front.
std::string plain(std::string_view text) {
  constexpr std::string_view kApostrophe = "\u2019";
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (text.substr(i).starts_with(kApostrophe)) {
      c = '\'';
      i += kApostrophe.size() - 1;
    }
    if (c == '\n' || c == '\t' || c == '\r') c = ' ';
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c + ('a' - 'A'));
    const bool mark = c == '*' || c == '_' || c == '"' || c == '>' || c == '#';
    if (out.empty() && (c == ' ' || mark)) continue;
    if (c == ' ' && out.ends_with(' ')) continue;
    out += c;
  }
  return out;
}

/// `text` against one word of each list, one behind the other.
Opening match(std::string_view text, std::span<const Words> lists) {
  if (lists.empty()) return Opening::kWhole;
  Opening best = Opening::kNone;
  for (const std::string_view word : lists.front()) {
    Opening found = Opening::kNone;
    if (text.starts_with(word)) {
      found = match(text.substr(word.size()), lists.subspan(1));
    } else if (word.starts_with(text)) {
      found = Opening::kMaybe;
    }
    best = std::max(best, found);
  }
  return best;
}

/// Half of an apostrophe of three bytes is not seen as one yet.
std::string_view whole_characters(std::string_view text) {
  for (const std::string_view part : {"\xE2\x80", "\xE2"})
    if (text.ends_with(part)) return text.substr(0, text.size() - part.size());
  return text;
}

}  // namespace

Opening refusal_opening(std::string_view text) {
  const std::string words = plain(whole_characters(text.substr(0, kRefusalBytes)));
  const Words sorry[] = {kApologies, kJoints, kInabilities, kActions};
  const Words unable[] = {kInabilities, kActions};
  const Words sorry_to_decline[] = {kApologies, kJoints, kDeclines};
  const Words declining[] = {kDeclines};
  return std::max(
      {match(words, sorry), match(words, unable), match(words, sorry_to_decline), match(words, declining)});
}

std::vector<AnswerPart> RefusalFilter::push(std::vector<AnswerPart> parts) {
  if (decided_) return parts;
  std::vector<AnswerPart> out;
  const auto let_go = [&](bool refusal) {
    decided_ = true;
    if (!held_) return;
    held_->refusal = refusal;
    out.push_back(*std::exchange(held_, std::nullopt));
  };
  for (AnswerPart& part : parts) {
    if (!decided_ && part.kind == AnswerPart::Kind::kContent) {
      if (!held_) {
        held_ = std::move(part);
      } else {
        held_->text += part.text;
        std::ranges::move(part.ids, std::back_inserter(held_->ids));
        std::ranges::move(part.entries, std::back_inserter(held_->entries));
        held_->logprob_sum += part.logprob_sum;
        held_->finish = std::move(part.finish);
      }
      const Opening opening = refusal_opening(held_->text);
      if (held_->finish || opening == Opening::kNone || held_->text.size() > kRefusalBytes)
        let_go(opening == Opening::kWhole && held_->text.size() <= kRefusalBytes);
      continue;
    }
    if (held_ || part.kind != AnswerPart::Kind::kReasoning) let_go(/*refusal=*/false);
    out.push_back(std::move(part));
  }
  return out;
}

}  // namespace met::api
