// The six steps of encoding.
#include <algorithm>
#include <string>

#include "core/utf8.h"
#include "text/tokenizer/state.h"

namespace met::text {
namespace {

// Which bytes of a text a user wrote.
class Untrusted {
 public:
  explicit Untrusted(std::span<const ByteRange> ranges) : ranges_(ranges) {}
  bool none() const { return ranges_.empty(); }
  bool any(std::size_t begin, std::size_t end) const {
    const auto it = first_ending_after(begin);
    return it != ranges_.end() && it->begin < end;
  }
  bool all(std::size_t begin, std::size_t end) const {
    for (auto it = first_ending_after(begin); begin < end && it != ranges_.end() && it->begin <= begin; ++it)
      begin = std::max(begin, it->end);
    return begin >= end;
  }

 private:
  std::span<const ByteRange>::iterator first_ending_after(std::size_t at) const {
    return std::ranges::upper_bound(ranges_, at, {}, &ByteRange::end);
  }
  std::span<const ByteRange> ranges_;
};

// Valid UTF-8 with one U+FFFD for each maximal invalid subpart, and the ranges moved along.
void repair(std::string_view text, std::span<const ByteRange> ranges, std::string& out,
            std::vector<ByteRange>& moved) {
  moved.assign(ranges.begin(), ranges.end());
  std::size_t begins = 0;  // ranges whose begin has been moved
  std::size_t ends = 0;
  const auto move_to = [&](std::size_t at) {
    for (; begins < moved.size() && ranges[begins].begin <= at; ++begins) moved[begins].begin = out.size();
    for (; ends < moved.size() && ranges[ends].end <= at; ++ends) moved[ends].end = out.size();
  };
  for (std::size_t at = 0; at < text.size();) {
    move_to(at);
    const utf8::Decoded d = utf8::decode(text.substr(at));
    if (d.valid)
      out.append(text.substr(at, d.length));
    else
      utf8::append(utf8::kReplacement, out);
    at += d.length;
  }
  for (; begins < moved.size(); ++begins) moved[begins].begin = out.size();
  for (; ends < moved.size(); ++ends) moved[ends].end = out.size();
}

}  // namespace

class Encoding {
 public:
  Encoding(const TokenizerState& state, std::string_view text, const EncodeOptions& options,
           std::span<const ByteRange> untrusted, std::vector<TokenId>& out)
      : state_(state), text_(text), options_(options), untrusted_(untrusted), out_(out) {}

  void run() {
    if (options_.added == AddedTokens::kNone || state_.raw_matcher.empty()) {
      segment(0, text_.size());
      return;
    }
    std::vector<AddedSpan> spans;
    const auto judge = [this](const AddedToken& token, std::size_t begin, std::size_t end) {
      if (!token.special) return Verdict::kTake;
      if (options_.added == AddedTokens::kUnflagged) return Verdict::kSkip;
      if (untrusted_.none() || !untrusted_.any(begin, end)) return Verdict::kTake;
      return untrusted_.all(begin, end) ? Verdict::kSkip : Verdict::kResume;
    };
    state_.raw_matcher.split(text_, judge, spans);
    for (const AddedSpan& span : spans) {
      if (span.id >= 0)
        out_.push_back(span.id);
      else
        segment(span.begin, span.end);
    }
  }

 private:
  // A stretch between the tokens of the raw text.
  void segment(std::size_t begin, std::size_t end) {
    const std::string_view raw = text_.substr(begin, end - begin);
    if (raw.empty()) return;
    if (!state_.normalizer) {
      normalized(raw, {}, begin, begin == 0);
      return;
    }
    MarkedText text{std::string(raw), {}};
    if (!untrusted_.none() && state_.normalized_matcher.any_special()) {
      text.marks.resize(raw.size());
      for (std::size_t i = 0; i < raw.size(); ++i)
        text.marks[i] = untrusted_.any(begin + i, begin + i + 1) ? 1 : 0;
    }
    state_.normalizer->apply(text);
    normalized(text.text, text.marks, begin, begin == 0);
  }

  // `marks` are those of the text when it was rewritten; otherwise byte i of it is byte begin + i of the
  // whole.
  void normalized(std::string_view text, std::span<const std::uint8_t> marks, std::size_t begin, bool first) {
    if (options_.added == AddedTokens::kNone || state_.normalized_matcher.empty()) {
      pieces(text, first);
      return;
    }
    std::vector<AddedSpan> spans;
    const auto judge = [&](const AddedToken& token, std::size_t from, std::size_t to) {
      if (!token.special) return Verdict::kTake;
      if (options_.added == AddedTokens::kUnflagged) return Verdict::kSkip;
      if (untrusted_.none()) return Verdict::kTake;
      bool any = false;
      bool all = true;
      if (state_.normalizer) {
        for (std::size_t i = from; i < to; ++i) {
          any = any || marks[i] != 0;
          all = all && marks[i] != 0;
        }
      } else {
        any = untrusted_.any(begin + from, begin + to);
        all = untrusted_.all(begin + from, begin + to);
      }
      return !any ? Verdict::kTake : all ? Verdict::kSkip : Verdict::kResume;
    };
    state_.normalized_matcher.split(text, judge, spans);
    for (const AddedSpan& span : spans) {
      if (span.id >= 0)
        out_.push_back(span.id);
      else
        pieces(text.substr(span.begin, span.end - span.begin), first && span.begin == 0);
    }
  }

  void pieces(std::string_view text, bool first) {
    if (text.empty()) return;
    if (!state_.pre_tokenizer) {
      model(text);
      return;
    }
    ToModel sink(*this);
    state_.pre_tokenizer->stream({text, first}, sink);
  }

  class ToModel final : public PieceSink {
   public:
    explicit ToModel(Encoding& encoding) : encoding_(encoding) {}
    void take(const PreToken& piece) override { encoding_.model(piece.text); }

   private:
    Encoding& encoding_;
  };

  // The template's special tokens have been found before. One that the model itself makes of the text would
  // be a user's: the piece is encoded again without them.
  void model(std::string_view piece) {
    const std::size_t before = out_.size();
    state_.model->encode(piece, nullptr, out_);
    if (untrusted_.none()) return;
    const auto forbidden = [this](TokenId id) { return state_.is_special(id) && id != state_.unknown; };
    if (std::none_of(out_.begin() + static_cast<std::ptrdiff_t>(before), out_.end(), forbidden)) return;
    out_.resize(before);
    state_.model->encode(piece, &state_.special_, out_);
  }

  const TokenizerState& state_;
  std::string_view text_;
  const EncodeOptions& options_;
  Untrusted untrusted_;
  std::vector<TokenId>& out_;
};

std::vector<TokenId> TokenizerState::encode(std::string_view text, const EncodeOptions& options) const {
  std::vector<TokenId> out;
  out.reserve(text.size() / 3 + 8);
  if (options.add_special) out = prefix;
  if (utf8::valid(text)) {
    Encoding(*this, text, options, options.untrusted, out).run();
  } else {
    std::string repaired;
    std::vector<ByteRange> moved;
    repair(text, options.untrusted, repaired, moved);
    Encoding(*this, repaired, options, moved, out).run();
  }
  if (options.add_special) out.insert(out.end(), suffix.begin(), suffix.end());
  return out;
}

}  // namespace met::text
