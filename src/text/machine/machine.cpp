#include "text/machine/machine.h"

#include <algorithm>
#include <utility>

namespace met::text {

Result<Machine> Machine::create(const Tokenizer& tokenizer, MachineOptions options) {
  MET_ASSIGN(StopMatcher stop, StopMatcher::create(options.stops, options.include_stop));
  return Machine(tokenizer, options, std::move(stop));
}

Machine::Machine(const Tokenizer& tokenizer, const MachineOptions& options, StopMatcher stop)
    : tokenizer_(&tokenizer),
      decoder_(tokenizer, options.skip_special),
      stop_(std::move(stop)),
      min_tokens_(static_cast<std::size_t>(std::max<std::int64_t>(options.min_tokens, 0))),
      calls_max_(options.format.calls_max) {
  if (options.format.is_plain()) return;
  const auto markers = reasoning_markers(options.format.reasoning);
  std::vector<bool> as_tokens(markers.size());
  for (std::size_t i = 0; i < markers.size(); ++i)
    if (const auto id = tokenizer.find(markers[i]); id) {
      as_tokens[i] = true;
      markers_.emplace_back(*id, i);
    }
  if (options.skip_special)
    for (const std::string_view text : tool_tokens(options.format.tool_format))
      if (const auto id = tokenizer.find(text); id && tokenizer.is_special(*id)) shown_.push_back(*id);
  parser_.emplace(options.format, std::move(as_tokens));
}

std::vector<Piece> Machine::push(std::span<const TokenId> ids) {
  std::vector<Piece> out;
  std::string text;
  for (const TokenId id : ids) {
    if (stopped()) break;
    ++ids_;
    stop_.arm(ids_ > min_tokens_);
    if (parser_)
      push_parsed(id, out);
    else
      stop_.push(decoder_.push(id), text);
  }
  if (!text.empty() || (stopped() && ids_given_ < ids_)) give({.text = std::move(text)}, out);
  return out;
}

void Machine::push_parsed(TokenId id, std::vector<Piece>& out) {
  const auto marker = std::ranges::find(markers_, id, &std::pair<TokenId, std::size_t>::first);
  const bool shown = std::ranges::find(shown_, id) != shown_.end();
  if (marker != markers_.end()) {
    parser_->text(decoder_.flush());
    parser_->marker(marker->second);
  } else if (shown) {
    parser_->text(decoder_.flush() + tokenizer_->piece(id));
  } else {
    parser_->text(decoder_.push(id));
  }
  take_parsed(out);
}

void Machine::take_parsed(std::vector<Piece>& out) {
  for (Piece& piece : parser_->take()) {
    if (piece.kind == Piece::Kind::kContent) {
      std::string text;
      stop_.push(piece.text, text);
      if (!text.empty()) give({.text = std::move(text)}, out);
    } else {
      std::string held;  // content that a stop string cannot go on over a call
      stop_.flush(held);
      if (!held.empty()) give({.text = std::move(held)}, out);
      calls_ended_ = piece.kind == Piece::Kind::kCallEnd && piece.call + 1 == calls_max_;
      give(std::move(piece), out);
    }
    if (stopped()) return;
  }
}

std::vector<Piece> Machine::finish(bool cut) {
  std::vector<Piece> out;
  if (stopped()) return out;
  std::string text;
  if (parser_) {
    const bool reasoning = parser_->in_reasoning();
    parser_->text(decoder_.flush());
    parser_->finish(cut);
    take_parsed(out);
    if (stopped()) return out;
    stop_.flush(text);
    if (reasoning && text.empty()) {  // ids without text that end the reasoning
      give({.kind = Piece::Kind::kReasoning}, out);
      return out;
    }
  } else {
    stop_.push(decoder_.flush(), text);
    stop_.flush(text);
  }
  give({.text = std::move(text)}, out);
  return out;
}

// Ids whose text is held or empty wait for the next piece, at the latest for the last one.
void Machine::give(Piece piece, std::vector<Piece>& out) {
  const bool says = !piece.text.empty() || piece.kind == Piece::Kind::kCallEnd;
  if (!says && ids_ == ids_given_) return;
  piece.tokens_begin = ids_given_;
  piece.tokens_end = ids_;
  ids_given_ = ids_;
  out.push_back(std::move(piece));
}

}  // namespace met::text
