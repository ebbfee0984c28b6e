#include "server/choice.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/utf8.h"

namespace met::server {
namespace {

/// Bytes of one token as text: invalid sequences become U+FFFD.
std::string as_text(std::string_view bytes) {
  std::string out;
  text::Utf8Assembler assembler;
  assembler.push(bytes, out);
  assembler.flush(out);
  return out;
}

api::ScoredToken scored(const api::ModelText& model, api::TokenId id, float logprob) {
  api::ScoredToken out{.id = id, .bytes = std::string(model.tokenizer.token_bytes(id)), .logprob = logprob};
  out.text = model.tokenizer.is_special(id) ? model.tokenizer.piece(id) : as_text(out.bytes);
  return out;
}

api::TokenEntry entry_of(const api::ModelText& model, api::TokenId id, std::string token_text,
                         const scheduler::PositionLogprobs* logprobs) {
  api::TokenEntry entry;
  entry.token = scored(model, id, logprobs != nullptr ? logprobs->chosen : 0);
  entry.token.text = std::move(token_text);
  entry.scored = logprobs != nullptr;
  if (logprobs == nullptr) return entry;
  entry.rank = logprobs->rank;
  for (const scheduler::TokenLogprob& top : logprobs->top)
    entry.top.push_back(scored(model, top.id, top.logprob));
  return entry;
}

bool contains(const std::vector<api::TokenId>& ids, api::TokenId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

api::Finish finish_of(scheduler::FinishReason reason) {
  using scheduler::FinishReason;
  switch (reason) {
    case FinishReason::kEos:
    case FinishReason::kStopToken:
    case FinishReason::kStopText:
      return {"stop", {}};
    case FinishReason::kLength:
    case FinishReason::kContext:
      return {"length", {}};
    case FinishReason::kTimeout:
      return {"timeout", {}};
    case FinishReason::kRepetition:
      return {"repetition", "repetition_detected"};
  }
  return {"stop", {}};
}

}  // namespace

Result<Choice> Choice::create(int number, const api::GenerationRequest& request, const api::ModelText& model,
                              const api::Prepared& prepared) {
  MET_ASSIGN(text::Machine machine,
             text::Machine::create(model.tokenizer, {.stops = request.stop,
                                                     .include_stop = request.include_stop_str_in_output,
                                                     .min_tokens = request.sampling.min_tokens,
                                                     .skip_special = request.skip_special_tokens,
                                                     .format = prepared.format}));
  return Choice(number, request, model, prepared, std::move(machine));
}

Choice::Choice(int number, const api::GenerationRequest& request, const api::ModelText& model,
               const api::Prepared& prepared, text::Machine machine)
    : number_(number),
      model_(&model),
      stops_(request.stop),
      eos_ids_(prepared.eos_ids),
      stop_ids_(request.stop_token_ids),
      keep_stop_token_(request.include_stop_str_in_output),
      want_entries_(request.logprobs >= 0),
      show_reasoning_(request.thinking.show),
      min_tokens_(request.sampling.min_tokens),
      max_tokens_(request.max_tokens.value_or(std::numeric_limits<std::int64_t>::max())),
      repetition_(request.repetition),
      machine_(std::move(machine)),
      token_texts_(model.tokenizer, request.skip_special_tokens) {
  if (request.detect_refusals) refusals_.emplace();
  for (const text::Tool& tool : request.tools)
    if (tool.custom) custom_tools_.push_back(tool.name);
}

bool Choice::ends(api::TokenId id) const { return contains(eos_ids_, id) || contains(stop_ids_, id); }

api::AnswerPart& Choice::last_part(Parts& parts) {
  if (parts.empty()) parts.push_back({.choice = number_});
  return parts.back();
}

api::AnswerPart& Choice::part_of(const text::Piece& piece, Parts& parts) {
  const bool same = !parts.empty() && parts.back().kind == piece.kind && parts.back().call == piece.call;
  if (!same)
    parts.push_back(
        {.choice = number_, .kind = piece.kind, .call = piece.call, .custom = custom_input_.has_value()});
  return parts.back();
}

/// The text of a custom tool's call is its input, of which the last may be told when the call ends.
void Choice::unwrap_input(text::Piece& piece, Parts& parts) {
  using Kind = text::Piece::Kind;
  const bool call = piece.kind != Kind::kContent && piece.kind != Kind::kReasoning;
  if (piece.kind == Kind::kCallBegin || !call) custom_input_.reset();
  if (piece.kind == Kind::kCallBegin && std::ranges::find(custom_tools_, piece.text) != custom_tools_.end())
    custom_input_.emplace();
  if (!custom_input_) return;
  if (piece.kind == Kind::kCallArguments) piece.text = custom_input_->push(piece.text);
  if (piece.kind != Kind::kCallEnd) return;
  if (std::string rest = custom_input_->finish(); !rest.empty())
    part_of({.kind = Kind::kCallArguments, .call = piece.call}, parts).text += rest;
}

void Choice::take(std::vector<text::Piece> pieces, Parts& parts) {
  using Kind = text::Piece::Kind;
  for (text::Piece& piece : pieces) {
    unwrap_input(piece, parts);
    api::AnswerPart& part = part_of(piece, parts);
    if (show_reasoning_ || piece.kind != Kind::kReasoning) part.text += piece.text;
    const std::size_t count = std::min(piece.tokens_end - piece.tokens_begin, held_ids_.size());
    if (piece.kind == Kind::kReasoning) reasoning_tokens_ += static_cast<std::int64_t>(count);
    called_ |= piece.kind == Kind::kCallBegin;
    if (piece.kind == Kind::kCallEnd) part.complete = piece.complete;
    const auto move_front = [&](auto& from, auto& to, std::size_t n) {
      std::move(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(n), std::back_inserter(to));
      from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(n));
    };
    if (want_entries_) move_front(held_entries_, part.entries, count);
    move_front(held_ids_, part.ids, count);
    part.logprob_sum += std::exchange(logprob_sum_, 0);
    if (show_reasoning_ || piece.kind != Kind::kReasoning) continue;
    part.entries.clear();  // its tokens would tell the text
    part.ids.clear();
  }
}

void Choice::add(api::TokenId id, const scheduler::PositionLogprobs* logprobs, Parts& parts) {
  ++completion_tokens_;
  if (logprobs != nullptr) logprob_sum_ += logprobs->chosen;
  if (ends(id)) {
    end_token_ = id;
    end_token_shown_ = keep_stop_token_ && !contains(eos_ids_, id);
    if (!end_token_shown_) {  // gives no text; its id and entry go out with the end
      if (want_entries_) end_entry_ = entry_of(*model_, id, {}, logprobs);
      return;
    }
  }
  held_ids_.push_back(id);
  if (want_entries_) held_entries_.push_back(entry_of(*model_, id, token_texts_.push(id), logprobs));
  take(machine_.push({&id, 1}), parts);
}

/// The last part: what is still held, and why it ends.
void Choice::close(api::Finish finish, Parts& parts) {
  ended_ = true;
  api::AnswerPart& part = last_part(parts);
  std::move(held_ids_.begin(), held_ids_.end(), std::back_inserter(part.ids));
  std::move(held_entries_.begin(), held_entries_.end(), std::back_inserter(part.entries));
  held_ids_.clear();
  held_entries_.clear();
  part.logprob_sum += std::exchange(logprob_sum_, 0);
  if (called_ && finish.reason == "stop") finish.reason = "tool_calls";
  part.finish = std::move(finish);
}

std::vector<api::AnswerPart> Choice::push(const scheduler::Event& event) {
  Parts parts;
  for (std::size_t i = 0; i < event.ids.size() && !ended_; ++i) {
    add(event.ids[i], i < event.logprobs.size() ? &event.logprobs[i] : nullptr, parts);
    if (machine_.stopped()) {
      const auto which = machine_.stop_index();
      close({"stop", which ? json::Value(stops_[*which]) : json::Value()}, parts);
    } else if (repeats(event.ids[i])) {
      repeated_ = true;
      flush(finish_of(scheduler::FinishReason::kRepetition), parts);
    }
  }
  return sifted(std::move(parts));
}

Choice::Parts Choice::sifted(Parts parts) {
  return refusals_ ? refusals_->push(std::move(parts)) : std::move(parts);
}

/// Ends that the engine finds at the same id go first.
bool Choice::repeats(api::TokenId id) {
  const bool found = repetition_.push(id);
  return found && !ends(id) && completion_tokens_ >= min_tokens_ && completion_tokens_ < max_tokens_;
}

/// The end of an answer with what the machine still held.
void Choice::flush(api::Finish finish, Parts& parts) {
  take(machine_.finish(/*cut=*/finish.reason != "stop"), parts);
  close(std::move(finish), parts);
  api::AnswerPart& last = parts.back();
  if (std::string rest = token_texts_.flush(); !rest.empty() && !last.entries.empty())
    last.entries.back().token.text += rest;
}

std::vector<api::AnswerPart> Choice::finish(scheduler::FinishReason reason) {
  Parts parts;
  if (ended_) return parts;
  api::Finish why = finish_of(reason);
  if (reason == scheduler::FinishReason::kStopToken && end_token_) why.stop_reason = json::Value(*end_token_);
  flush(std::move(why), parts);
  api::AnswerPart& last = parts.back();
  if (end_token_ && !end_token_shown_) last.ids.push_back(*end_token_);
  if (end_entry_) {
    end_entry_->token.bytes.clear();  // of the text it is no part
    last.entries.push_back(std::move(*end_entry_));
  }
  return sifted(std::move(parts));
}

std::vector<api::TokenEntry> prompt_entries(const std::vector<api::TokenId>& ids,
                                            const std::vector<scheduler::PositionLogprobs>& logprobs,
                                            const api::ModelText& model) {
  std::vector<api::TokenEntry> out;
  text::StreamDecoder texts(model.tokenizer, /*skip_special=*/false);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const bool has = i > 0 && i - 1 < logprobs.size();
    out.push_back(entry_of(model, ids[i], texts.push(ids[i]), has ? &logprobs[i - 1] : nullptr));
  }
  if (!out.empty()) out.back().token.text += texts.flush();
  return out;
}

}  // namespace met::server
