#include "text/machine/machine.h"

#include <utility>

namespace met::text {

Result<Machine> Machine::create(const Tokenizer& tokenizer, MachineOptions options) {
  MET_ASSIGN(StopMatcher stop, StopMatcher::create(options.stops, options.include_stop));
  return Machine(tokenizer, options.skip_special, std::move(stop));
}

std::vector<Piece> Machine::push(std::span<const TokenId> ids) {
  std::string text;
  for (const TokenId id : ids) {
    if (stop_.stopped()) break;
    ++ids_;
    stop_.push(decoder_.push(id), text);
  }
  std::vector<Piece> out;
  if (!text.empty() || stop_.stopped()) give(std::move(text), out);
  return out;
}

std::vector<Piece> Machine::finish() {
  std::vector<Piece> out;
  if (stop_.stopped()) return out;
  std::string text;
  stop_.push(decoder_.flush(), text);
  stop_.flush(text);
  give(std::move(text), out);
  return out;
}

// Ids whose text is held or empty wait for the next piece, at the latest for the last one.
void Machine::give(std::string text, std::vector<Piece>& out) {
  if (text.empty() && ids_ == ids_given_) return;
  out.push_back({.text = std::move(text), .tokens_begin = ids_given_, .tokens_end = ids_});
  ids_given_ = ids_;
}

}  // namespace met::text
