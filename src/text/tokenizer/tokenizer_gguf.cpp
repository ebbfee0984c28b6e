// Loads the vocabulary of a GGUF file.
#include <algorithm>

#include "text/tokenizer/bpe.h"
#include "text/tokenizer/gguf_vocabulary.h"
#include "text/tokenizer/state.h"

namespace met::text {
namespace {

constexpr std::string_view kBlankMark = "\xE2\x96\x81";

std::string key_of(std::string_view name) { return "tokenizer.ggml." + std::string(name); }

GgufTokenType type_of(const GgufVocabulary& v, std::size_t i) {
  return v.types.empty() ? GgufTokenType::kNormal : static_cast<GgufTokenType>(v.types[i]);
}

Result<> check_lengths(const GgufVocabulary& v) {
  const auto fits = [&](std::size_t n) { return n == 0 || n == v.tokens.size(); };
  if (v.tokens.empty()) return corrupt(key_of("tokens"), "the vocabulary is empty");
  if (!fits(v.scores.size())) return corrupt(key_of("scores"), "not one score a token");
  if (!fits(v.types.size())) return corrupt(key_of("token_type"), "not one type a token");
  return {};
}

// Every token as a piece of the model.
Result<> add_pieces(const GgufVocabulary& v, TokenizerState& state) {
  std::size_t bytes = 0;
  for (const std::string_view token : v.tokens) bytes += token.size();
  state.pieces.reserve(v.tokens.size(), bytes);
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    if (auto added = state.add_piece(static_cast<std::int64_t>(i), v.tokens[i]); !added)
      return corrupt(key_of("tokens"), added.error().message);
  }
  return {};
}

TokenId unknown_of(const GgufVocabulary& v) {
  if (v.unknown) return static_cast<TokenId>(*v.unknown);
  for (std::size_t i = 0; i < v.types.size(); ++i)
    if (type_of(v, i) == GgufTokenType::kUnknown) return static_cast<TokenId>(i);
  return PieceTable::kNone;
}

// Control tokens and the user's are looked for in the text. Where `user_after` is set, the user's match after
// normalisation in the form in which the vocabulary spells them.
Result<> add_tokens(const GgufVocabulary& v, bool user_after, TokenizerState& state) {
  const TokenId unknown = unknown_of(v);
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const GgufTokenType type = type_of(v, i);
    if (type != GgufTokenType::kControl && type != GgufTokenType::kUserDefined) continue;
    if (user_after && static_cast<TokenId>(i) == unknown)
      continue;  // SentencePiece never reads it from a text
    AddedToken token;
    token.id = static_cast<TokenId>(i);
    token.content = v.tokens[i];
    token.special = type == GgufTokenType::kControl;
    if (user_after && !token.special)
      state.normalized_matcher.add(token, token.content);
    else if (auto added = state.add_token(std::move(token)); !added)
      return corrupt(key_of("tokens"), added.error().message);
  }
  return {};
}

Result<MergeTable> read_merges(const GgufVocabulary& v, const TokenizerState& state, bool& cut) {
  MergeTable merges;
  merges.reserve(v.merges.size());
  std::string joined;
  for (std::size_t rank = 0; rank < v.merges.size(); ++rank) {
    const std::string_view merge = v.merges[rank];
    const std::size_t blank = merge.find(' ', 1);
    if (blank == std::string_view::npos || blank + 1 == merge.size())
      return corrupt(key_of("merges"), "merge " + std::to_string(rank) + " has no two parts");
    const std::string_view left = merge.substr(0, blank);
    const std::string_view right = merge.substr(blank + 1);
    joined = left;
    joined += right;
    const TokenId a = state.find_piece(left);
    const TokenId b = state.find_piece(right);
    const TokenId both = state.find_piece(joined);
    if (a < 0 || b < 0 || both < 0)
      return corrupt(key_of("merges"), "merge " + std::to_string(rank) + ": '" +
                                           std::string(merge.substr(0, 80)) +
                                           "' names a piece outside the vocabulary");
    cut = cut && !blank_mark_inside(joined);
    merges.set(a, b, {static_cast<std::uint32_t>(rank), both});
  }
  return merges;
}

Result<> load_byte_level(const GgufVocabulary& v, TokenizerState& state) {
  const GgufPreTokenizer* pre = find_gguf_pre_tokenizer(v.pre.empty() ? "default" : v.pre);
  if (pre == nullptr) return unsupported(key_of("pre"), "pre-tokenizer '" + v.pre + "' is not known");
  if (v.merges.empty()) return corrupt(key_of("merges"), "a gpt2 vocabulary without merges");
  state.byte_level = true;
  MET_TRY(add_pieces(v, state));
  BpeOptions options;
  options.bytes = true;
  options.ignore_merges = pre->ignore_merges;
  MET_ASSIGN(MergeTable merges, read_merges(v, state, options.cut_at_blank_mark));
  state.model = make_bpe(state.pieces, std::move(merges), std::move(options));
  if (pre->nfc) state.normalizer = make_nfc();
  state.pre_tokenizer = make_splits(pre->patterns);
  state.decoder = make_byte_level_decoder();
  MET_TRY(add_tokens(v, /*user_after=*/false, state));
  if (v.bos && v.add_bos.value_or(pre->add_bos)) state.prefix.push_back(static_cast<TokenId>(*v.bos));
  return {};
}

// BPE with merges over UTF-8, blanks spelled U+2581, bytes as a last resort.
Result<> load_gemma4(const GgufVocabulary& v, TokenizerState& state) {
  MET_TRY(add_pieces(v, state));
  BpeOptions options;
  options.byte_fallback = true;
  options.fuse_unknown = true;
  options.unknown = unknown_of(v);
  options.cut_at_blank_mark = state.pieces.find(kBlankMark) >= 0;
  MET_ASSIGN(MergeTable merges, read_merges(v, state, options.cut_at_blank_mark));
  state.model = make_bpe(state.pieces, std::move(merges), std::move(options));
  state.normalizer = make_escape_blanks(v.add_space_prefix.value_or(false));
  state.decoder = make_sentencepiece_decoder(false);
  MET_TRY(add_tokens(v, /*user_after=*/false, state));
  if (v.bos && v.add_bos.value_or(true)) state.prefix.push_back(static_cast<TokenId>(*v.bos));
  return {};
}

Result<> load_sentencepiece(const GgufVocabulary& v, TokenizerState& state) {
  if (v.scores.empty()) return corrupt(key_of("scores"), "a SentencePiece vocabulary without scores");
  MET_TRY(add_pieces(v, state));
  ScoredBpeOptions options;
  options.unknown = unknown_of(v);
  options.scores = v.scores;
  options.mergeable.resize(v.tokens.size());
  options.cut_at_blank_mark = state.pieces.find(kBlankMark) >= 0;
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const GgufTokenType type = type_of(v, i);
    options.mergeable[i] = type == GgufTokenType::kNormal || type == GgufTokenType::kUserDefined;
    if (options.mergeable[i])
      options.cut_at_blank_mark = options.cut_at_blank_mark && !blank_mark_inside(v.tokens[i]);
  }
  state.model = make_scored_bpe(state.pieces, std::move(options));
  const bool prefix = v.add_space_prefix.value_or(true);
  state.normalizer = make_escape_blanks(prefix);
  state.decoder = make_sentencepiece_decoder(prefix);
  MET_TRY(add_tokens(v, /*user_after=*/true, state));
  if (v.bos && v.add_bos.value_or(true)) state.prefix.push_back(static_cast<TokenId>(*v.bos));
  return {};
}

Result<> load_unigram(const GgufVocabulary& v, TokenizerState& state) {
  if (v.scores.empty()) return corrupt(key_of("scores"), "a Unigram vocabulary without scores");
  MET_TRY(add_pieces(v, state));
  UnigramOptions options;
  options.unknown = unknown_of(v);
  options.scores.assign(v.scores.begin(), v.scores.end());
  options.excluded.resize(v.tokens.size());
  for (std::size_t i = 0; i < v.tokens.size(); ++i) {
    const GgufTokenType type = type_of(v, i);
    options.excluded[i] = type != GgufTokenType::kNormal && type != GgufTokenType::kUserDefined;
    options.byte_fallback = options.byte_fallback || type == GgufTokenType::kByte;
  }
  state.model = make_unigram(state.pieces, std::move(options));
  const bool prefix = v.add_space_prefix.value_or(true);
  std::vector<std::unique_ptr<Normalizer>> steps;
  if (!v.charsmap.empty()) {
    MET_ASSIGN(auto rules, make_precompiled(v.charsmap));
    steps.push_back(std::move(rules));
  }
  if (v.remove_extra_spaces.value_or(false)) steps.push_back(make_trim_blanks());
  steps.push_back(make_escape_blanks(prefix));
  state.normalizer = make_sequence(std::move(steps));
  state.decoder = make_sentencepiece_decoder(prefix);
  MET_TRY(add_tokens(v, /*user_after=*/true, state));
  if (v.bos && v.add_bos.value_or(false)) state.prefix.push_back(static_cast<TokenId>(*v.bos));
  return {};
}

Result<> load_bert(const GgufVocabulary& v, TokenizerState& state) {
  MET_TRY(add_pieces(v, state));
  WordPieceOptions options;
  options.unknown = unknown_of(v);
  options.phantom_space = true;
  state.model = make_word_piece(state.pieces, std::move(options));
  state.normalizer = make_bert();
  state.pre_tokenizer = make_bert_split();
  state.decoder = make_phantom_space_decoder();
  MET_TRY(add_tokens(v, /*user_after=*/false, state));
  const auto first = v.classifier ? v.classifier : v.bos;
  const auto last = v.separator ? v.separator : v.eos;
  if (first && v.add_bos.value_or(true)) state.prefix.push_back(static_cast<TokenId>(*first));
  if (last && v.add_separator.value_or(true)) state.suffix.push_back(static_cast<TokenId>(*last));
  return {};
}

std::optional<TokenId> token_of(const std::optional<std::int64_t>& id) {
  return id ? std::optional(static_cast<TokenId>(*id)) : std::nullopt;
}

Result<> load_model(const GgufVocabulary& v, TokenizerState& state) {
  if (v.model == "gpt2") return load_byte_level(v, state);
  if (v.model == "llama") return load_sentencepiece(v, state);
  if (v.model == "t5") return load_unigram(v, state);
  if (v.model == "bert") return load_bert(v, state);
  if (v.model == "gemma4") return load_gemma4(v, state);
  return unsupported(key_of("model"), "tokenizer model '" + v.model + "' is not known");
}

}  // namespace

Result<std::unique_ptr<TokenizerState>> load_gguf_vocabulary(const GgufVocabulary& v) {
  MET_TRY(check_lengths(v));
  auto state = std::make_unique<TokenizerState>();
  MET_TRY(load_model(v, *state));
  state->bos = token_of(v.bos);
  state->eos = token_of(v.eos);
  state->padding = token_of(v.padding);
  if (const TokenId unknown = unknown_of(v); unknown >= 0) state->unknown = unknown;
  if (v.eos && v.add_eos.value_or(false) && v.model != "bert")
    state->suffix.push_back(static_cast<TokenId>(*v.eos));
  for (const auto& id : {v.eot, v.eom})
    if (id) state->end_of_generation.push_back(static_cast<TokenId>(*id));
  std::ranges::sort(state->end_of_generation);
  MET_TRY(state->finish());
  return state;
}

}  // namespace met::text
