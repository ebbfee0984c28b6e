#include "api/answer.h"

#include <algorithm>

namespace met::api {
namespace {

Segment::Kind segment_kind(AnswerPart::Kind kind) {
  switch (kind) {
    case AnswerPart::Kind::kContent:
      return Segment::Kind::kContent;
    case AnswerPart::Kind::kReasoning:
      return Segment::Kind::kReasoning;
    case AnswerPart::Kind::kCallBegin:
    case AnswerPart::Kind::kCallArguments:
    case AnswerPart::Kind::kCallEnd:
      return Segment::Kind::kCall;
  }
  return Segment::Kind::kContent;
}

}  // namespace

void Answer::add(const AnswerPart& part) {
  ids.insert(ids.end(), part.ids.begin(), part.ids.end());
  entries.insert(entries.end(), part.entries.begin(), part.entries.end());
  logprob_sum += part.logprob_sum;
  if (part.finish) finish = part.finish;
  const Segment::Kind kind = part.refusal ? Segment::Kind::kRefusal : segment_kind(part.kind);
  const bool begins = part.kind == AnswerPart::Kind::kCallBegin;
  if (begins || segments.empty() || segments.back().kind != kind) {
    if (part.text.empty()) return;
    segments.push_back({.kind = kind, .custom = part.custom});
  }
  Segment& segment = segments.back();
  (begins ? segment.name : segment.text) += part.text;
  segment.entries.insert(segment.entries.end(), part.entries.begin(), part.entries.end());
}

std::string Answer::text(Segment::Kind kind) const {
  std::string out;
  for (const Segment& segment : segments)
    if (segment.kind == kind) out += segment.text;
  return out;
}

bool Answer::has(Segment::Kind kind) const {
  return std::ranges::any_of(segments, [&](const Segment& segment) { return segment.kind == kind; });
}

}  // namespace met::api
