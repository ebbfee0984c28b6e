#include "text/tokenizer/state.h"

#include <algorithm>

#include "core/utf8.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/stream_decoder.h"

namespace met::text {
namespace {

constexpr std::size_t kStreamBytesMax = 512 << 20;

}  // namespace

Result<> TokenizerState::add_piece(std::int64_t id, std::string_view spelled) {
  if (id < 0 || static_cast<std::size_t>(id) >= PieceTable::kIdsMax)
    return invalid(
        "vocab", "id " + std::to_string(id) + " is outside 0 to " + std::to_string(PieceTable::kIdsMax - 1));
  if (spelled.size() > PieceTable::kPieceBytesMax)
    return invalid("vocab", "piece " + std::to_string(id) + " has " + std::to_string(spelled.size()) +
                                " bytes, at most " + std::to_string(PieceTable::kPieceBytesMax) +
                                " are allowed");
  const auto token = static_cast<TokenId>(id);
  if (pieces.contains(token) || literals.contains(token))
    return invalid("vocab", "id " + std::to_string(id) + " is used twice");
  if (!byte_level) {
    pieces.add(token, spelled);
    return {};
  }
  thread_local std::string bytes;
  bytes.clear();
  if (unspell_bytes(spelled, bytes))
    pieces.add(token, bytes);
  else
    literals.add(token, spelled);
  return {};
}

Result<> TokenizerState::add_token(AddedToken token) {
  if (token.content.size() > PieceTable::kPieceBytesMax)
    return invalid("added_tokens", "a token of " + std::to_string(token.content.size()) + " bytes, at most " +
                                       std::to_string(PieceTable::kPieceBytesMax) + " are allowed");
  if (token.content.empty() || added.find(token.content) >= 0) return {};
  if (const TokenId known = find(token.content); known >= 0) token.id = known;
  if (token.id < 0 || static_cast<std::size_t>(token.id) >= PieceTable::kIdsMax)
    return invalid("added_tokens", "id " + std::to_string(token.id) + " is outside 0 to " +
                                       std::to_string(PieceTable::kIdsMax - 1));
  if (added.contains(token.id))
    return invalid("added_tokens", "id " + std::to_string(token.id) + " is used twice");
  added.add(token.id, token.content);
  const auto index = static_cast<std::size_t>(token.id);
  if (index >= special_.size()) special_.resize(index + 1);
  special_[index] = token.special;
  if (!token.normalized) {
    raw_matcher.add(token, token.content);
    return {};
  }
  MarkedText needle{token.content, {}};
  if (normalizer) normalizer->apply(needle);
  if (needle.text.size() > PieceTable::kPieceBytesMax)
    return invalid("added_tokens",
                   "token " + std::to_string(token.id) + " is too long in its normalised form");
  if (needle.text != token.content) normalized_.add(token.id, needle.text);
  normalized_matcher.add(token, needle.text);
  return {};
}

Result<> TokenizerState::finish() {
  if (byte_level) return {};
  stream_offsets_.reserve(size() + 1);
  for (std::size_t i = 0; i < size(); ++i) {
    stream_offsets_.push_back(static_cast<std::uint32_t>(stream_arena_.size()));
    const auto id = static_cast<TokenId>(i);
    if (added.contains(id)) {
      stream_arena_ += added.at(id);
    } else {
      std::string piece(pieces.at(id));
      if (decoder) decoder->stream(piece);
      stream_arena_ += piece;
    }
    if (stream_arena_.size() > kStreamBytesMax)
      return invalid("decoder",
                     "decoded pieces of more than " + std::to_string(kStreamBytesMax) + " bytes in all");
  }
  stream_offsets_.push_back(static_cast<std::uint32_t>(stream_arena_.size()));
  return {};
}

std::size_t TokenizerState::size() const { return std::max({pieces.size(), literals.size(), added.size()}); }

std::string TokenizerState::spelled(TokenId id) const {
  if (added.contains(id)) return std::string(added.at(id));
  if (literals.contains(id)) return std::string(literals.at(id));
  if (!byte_level) return std::string(pieces.at(id));
  std::string out;
  spell_bytes(pieces.at(id), out);
  return out;
}

TokenId TokenizerState::find(std::string_view spelled) const {
  if (const TokenId id = added.find(spelled); id >= 0) return id;
  if (!byte_level) return pieces.find(spelled);
  if (const TokenId id = literals.find(spelled); id >= 0) return id;
  std::string bytes;
  return utf8::valid(spelled) && unspell_bytes(spelled, bytes) ? pieces.find(bytes) : PieceTable::kNone;
}

TokenId TokenizerState::find_piece(std::string_view spelled) const {
  thread_local std::string bytes;
  bytes.clear();
  const TokenId id = !byte_level                     ? pieces.find(spelled)
                     : unspell_bytes(spelled, bytes) ? pieces.find(bytes)
                                                     : PieceTable::kNone;
  return id >= 0 ? id : find(spelled);
}

std::string_view TokenizerState::stream_bytes(TokenId id) const {
  if (!byte_level) {
    if (id < 0 || static_cast<std::size_t>(id) + 1 >= stream_offsets_.size()) return {};
    const std::uint32_t begin = stream_offsets_[static_cast<std::size_t>(id)];
    return std::string_view(stream_arena_)
        .substr(begin, stream_offsets_[static_cast<std::size_t>(id) + 1] - begin);
  }
  if (added.contains(id)) return added.at(id);
  return pieces.contains(id) ? pieces.at(id) : literals.at(id);
}

std::string TokenizerState::decoded(TokenId id) const {
  return normalized_.contains(id) ? std::string(normalized_.at(id)) : spelled(id);
}

std::string TokenizerState::decode(std::span<const TokenId> ids, bool skip_special) const {
  std::string text;
  if (byte_level) {
    Utf8Assembler assembler;
    for (const TokenId id : ids)
      if (!(skip_special && is_special(id)))
        assembler.push(normalized_.contains(id) ? normalized_.at(id) : stream_bytes(id), text);
    assembler.flush(text);
    return text;
  }
  std::vector<std::string> list;
  for (const TokenId id : ids)
    if (!(skip_special && is_special(id)) && (pieces.contains(id) || added.contains(id)))
      list.push_back(decoded(id));
  if (decoder) decoder->run(list);
  for (const std::string& piece : list) {
    if (!decoder && !text.empty()) text += ' ';
    text += piece;
  }
  return text;
}

}  // namespace met::text
