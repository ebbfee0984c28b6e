// Loads tokenizer.json. The vocabulary and the merges are read in place; what remains is a small JSON value.
#include <algorithm>

#include "text/tokenizer/declaration.h"
#include "text/tokenizer/json_reader.h"
#include "text/tokenizer/post_processor.h"
#include "text/tokenizer/state.h"

namespace met::text {
namespace {

constexpr std::size_t kFileBytesMax = 256 << 20;

// The document without the two big members of "model", and those as they stand in the text.
struct Document {
  json::Value rest;
  std::string_view vocab;
  std::string_view merges;
};

// Copies an object's members to `out`, except that `take(key, value)` may keep one for itself.
template <class F>
Result<> copy_members(JsonReader& reader, std::string_view text, std::string& out, const F& take) {
  MET_TRY(reader.expect('{'));
  out += '{';
  std::string buffer;
  if (reader.accept('}')) return out += '}', Result<>{};
  for (bool first = true;; first = false) {
    reader.peek();
    const std::size_t key_begin = reader.offset();
    MET_ASSIGN(const std::string_view key, reader.string(buffer));
    const std::size_t key_end = reader.offset();
    MET_TRY(reader.expect(':'));
    if (!first) out += ',';
    out.append(text.substr(key_begin, key_end - key_begin)).append(":");
    MET_ASSIGN(const bool taken, take(key));
    if (!taken) {
      MET_ASSIGN(const std::string_view value, reader.skip());
      out.append(value);
    }
    if (reader.accept('}')) break;
    MET_TRY(reader.expect(','));
  }
  out += '}';
  return {};
}

Result<Document> read_document(std::string_view text) {
  if (text.size() > kFileBytesMax)
    return invalid("tokenizer.json", std::to_string(text.size()) + " bytes, at most " +
                                         std::to_string(kFileBytesMax) + " are read");
  Document document;
  JsonReader reader(text);
  std::string rest;
  const auto model_member = [&](std::string_view key) -> Result<bool> {
    if (key != "vocab" && key != "merges") return false;
    MET_ASSIGN(const std::string_view value, reader.skip());
    (key == "vocab" ? document.vocab : document.merges) = value;
    rest += "null";
    return true;
  };
  const auto member = [&](std::string_view key) -> Result<bool> {
    if (key != "model" || reader.peek() != '{') return false;
    MET_TRY(copy_members(reader, text, rest, model_member));
    return true;
  };
  MET_TRY(copy_members(reader, text, rest, member));
  if (reader.peek() != '\0') return invalid("tokenizer.json", "text after the end of the document");
  auto parsed = json::parse(rest);
  if (!parsed) return invalid("tokenizer.json", parsed.error().message);
  document.rest = std::move(*parsed);
  return document;
}

// {"piece": id, ...}
Result<> read_vocabulary(std::string_view text, TokenizerState& state) {
  JsonReader reader(text);
  MET_TRY(reader.expect('{'));
  state.pieces.reserve(text.size() / 16, text.size() / 2);
  std::string buffer;
  if (reader.accept('}')) return {};
  do {
    MET_ASSIGN(const std::string_view piece, reader.string(buffer));
    MET_TRY(reader.expect(':'));
    MET_ASSIGN(const std::int64_t id, reader.integer());
    MET_TRY(state.add_piece(id, piece));
  } while (reader.accept(','));
  return reader.expect('}');
}

// [["piece", score], ...]
Result<std::vector<double>> read_scored_vocabulary(std::string_view text, TokenizerState& state) {
  JsonReader reader(text);
  MET_TRY(reader.expect('['));
  std::vector<double> scores;
  std::string buffer;
  if (reader.accept(']')) return scores;
  do {
    MET_TRY(reader.expect('['));
    MET_ASSIGN(const std::string_view piece, reader.string(buffer));
    MET_TRY(state.add_piece(static_cast<std::int64_t>(scores.size()), piece));
    MET_TRY(reader.expect(','));
    MET_ASSIGN(const double score, reader.number());
    scores.push_back(score);
    MET_TRY(reader.expect(']'));
  } while (reader.accept(','));
  MET_TRY(reader.expect(']'));
  return scores;
}

Result<TokenId> merge_part(const TokenizerState& state, std::string_view part, std::size_t rank) {
  const TokenId id = state.find_piece(part);
  if (id < 0)
    return invalid("merges", "merge " + std::to_string(rank) + ": '" + std::string(part.substr(0, 80)) +
                                 "' is not in the vocabulary");
  return id;
}

// ["a b", ...] or [["a", "b"], ...]
Result<> read_merges(std::string_view text, const TokenizerState& state, BpeOptions& options,
                     MergeTable& merges) {
  JsonReader reader(text);
  MET_TRY(reader.expect('['));
  merges.reserve(text.size() / 12);
  options.cut_at_blank_mark = !options.bytes && options.prefix.empty() && options.suffix.empty() &&
                              state.pieces.find("\xE2\x96\x81") >= 0;
  std::string left_buffer;
  std::string right_buffer;
  std::string joined;
  if (reader.accept(']')) return {};
  std::size_t rank = 0;
  do {
    std::string_view left;
    std::string_view right;
    if (reader.accept('[')) {
      MET_ASSIGN(left, reader.string(left_buffer));
      MET_TRY(reader.expect(','));
      MET_ASSIGN(right, reader.string(right_buffer));
      MET_TRY(reader.expect(']'));
    } else {
      MET_ASSIGN(left, reader.string(left_buffer));
      const std::size_t blank = left.find(' ');
      if (blank == std::string_view::npos || left.find(' ', blank + 1) != std::string_view::npos)
        return invalid("merges",
                       "merge " + std::to_string(rank) + ": expected two pieces and one blank between them");
      right = left.substr(blank + 1);
      left = left.substr(0, blank);
    }
    MET_ASSIGN(const TokenId a, merge_part(state, left, rank));
    MET_ASSIGN(const TokenId b, merge_part(state, right, rank));
    joined = left;
    joined += right.substr(std::min(options.prefix.size(), right.size()));
    MET_ASSIGN(const TokenId both, merge_part(state, joined, rank));
    options.cut_at_blank_mark = options.cut_at_blank_mark && !blank_mark_inside(joined);
    merges.set(a, b, {static_cast<std::uint32_t>(rank), both});
    ++rank;
  } while (reader.accept(','));
  return reader.expect(']');
}

Result<TokenId> unknown_of(const json::Value& model, const TokenizerState& state) {
  MET_ASSIGN(const std::string piece, string_of(model, "unk_token", ""));
  return piece.empty() ? PieceTable::kNone : state.find(piece);
}

Result<> load_bpe(const Document& document, const json::Value& model, BpeOptions options,
                  TokenizerState& state) {
  if (const json::Value* dropout = model.find("dropout");
      dropout != nullptr && !dropout->is_null() && !(dropout->is_number() && dropout->as_number() == 0))
    return unsupported("model.dropout", "BPE dropout is for training and is not supported");
  options.bytes = state.byte_level;
  MET_TRY(read_vocabulary(document.vocab, state));
  MET_ASSIGN(options.unknown, unknown_of(model, state));
  state.unknown = options.unknown < 0 ? std::nullopt : std::optional(options.unknown);
  MergeTable merges;
  MET_TRY(read_merges(document.merges, state, options, merges));
  state.model = make_bpe(state.pieces, std::move(merges), std::move(options));
  return {};
}

Result<BpeOptions> bpe_options(const json::Value& model) {
  BpeOptions options;
  MET_ASSIGN(options.ignore_merges, bool_of(model, "ignore_merges", false));
  MET_ASSIGN(options.byte_fallback, bool_of(model, "byte_fallback", false));
  MET_ASSIGN(options.fuse_unknown, bool_of(model, "fuse_unk", false));
  MET_ASSIGN(options.prefix, string_of(model, "continuing_subword_prefix", ""));
  MET_ASSIGN(options.suffix, string_of(model, "end_of_word_suffix", ""));
  return options;
}

Result<> load_unigram(const Document& document, const json::Value& model, TokenizerState& state) {
  UnigramOptions options;
  MET_ASSIGN(options.scores, read_scored_vocabulary(document.vocab, state));
  MET_ASSIGN(const std::int64_t unknown, int_of(model, "unk_id", PieceTable::kNone));
  if (unknown < -1 || unknown >= static_cast<std::int64_t>(options.scores.size()))
    return invalid("model.unk_id", "id " + std::to_string(unknown) + " is outside the vocabulary");
  options.unknown = static_cast<TokenId>(unknown);
  MET_ASSIGN(options.byte_fallback, bool_of(model, "byte_fallback", false));
  if (unknown >= 0) state.unknown = options.unknown;
  state.model = make_unigram(state.pieces, std::move(options));
  return {};
}

Result<> load_words(const Document& document, const json::Value& model, const std::string& type,
                    TokenizerState& state) {
  MET_TRY(read_vocabulary(document.vocab, state));
  MET_ASSIGN(const TokenId unknown, unknown_of(model, state));
  if (unknown >= 0) state.unknown = unknown;
  if (type == "WordLevel") {
    state.model = make_word_level(state.pieces, unknown);
    return {};
  }
  WordPieceOptions options;
  options.unknown = unknown;
  MET_ASSIGN(options.prefix, string_of(model, "continuing_subword_prefix", "##"));
  MET_ASSIGN(const std::int64_t chars_max, int_of(model, "max_input_chars_per_word", 100));
  if (chars_max < 0 || chars_max > 10'000)
    return invalid("model.max_input_chars_per_word",
                   "expected 0 to 10000, found " + std::to_string(chars_max));
  options.chars_max = static_cast<std::size_t>(chars_max);
  state.model = make_word_piece(state.pieces, std::move(options));
  return {};
}

// Old files leave "type" out.
std::string model_type(const json::Value& model, const Document& document) {
  if (const json::Value* type = model.find("type"); type != nullptr && type->is_string())
    return type->as_string();
  if (!document.merges.empty()) return "BPE";
  if (model.find("unk_id") != nullptr) return "Unigram";
  return model.find("max_input_chars_per_word") != nullptr ? "WordPiece" : "WordLevel";
}

Result<> load_model(const Document& document, TokenizerState& state) {
  const json::Value* model = document.rest.find("model");
  if (model == nullptr || !model->is_object())
    return invalid("model", "tokenizer.json has no object 'model'");
  if (document.vocab.empty()) return invalid("model.vocab", "the model has no vocabulary");
  const std::string type = model_type(*model, document);
  MET_ASSIGN(BpeOptions bpe, bpe_options(*model));
  const json::Value null;
  const json::Value* split = document.rest.find("pre_tokenizer");
  const bool bytes = type == "BPE" && !bpe.byte_fallback && bpe.prefix.empty() && bpe.suffix.empty();
  MET_ASSIGN(PreTokenizerPlan plan, make_pre_tokenizer(split == nullptr ? null : *split, bytes));
  state.pre_tokenizer = std::move(plan.steps);
  state.byte_level = plan.byte_level;
  if (type == "BPE") {
    if (document.merges.empty()) return invalid("model.merges", "the model has no merges");
    return load_bpe(document, *model, std::move(bpe), state);
  }
  if (type == "Unigram") return load_unigram(document, *model, state);
  if (type == "WordPiece" || type == "WordLevel") return load_words(document, *model, type, state);
  return unsupported("model.type", "model '" + type + "' is not known");
}

Result<> add_declared(const json::Value& token, std::int64_t id, TokenizerState& state) {
  AddedToken added;
  if (id < 0 || static_cast<std::size_t>(id) >= PieceTable::kIdsMax)
    return invalid("added_tokens", "id " + std::to_string(id) + " is outside 0 to " +
                                       std::to_string(PieceTable::kIdsMax - 1));
  added.id = static_cast<TokenId>(id);
  MET_ASSIGN(added.content, string_of(token, "content", ""));
  MET_ASSIGN(added.single_word, bool_of(token, "single_word", false));
  MET_ASSIGN(added.lstrip, bool_of(token, "lstrip", false));
  MET_ASSIGN(added.rstrip, bool_of(token, "rstrip", false));
  MET_ASSIGN(added.special, bool_of(token, "special", false));
  MET_ASSIGN(added.normalized, bool_of(token, "normalized", !added.special));
  return state.add_token(std::move(added));
}

Result<> load_added(const json::Value& rest, TokenizerState& state) {
  const json::Value* list = rest.find("added_tokens");
  if (list == nullptr || list->is_null()) return {};
  if (!list->is_array())
    return invalid("added_tokens", "expected an array, found " + std::string(list->type_name()));
  for (const json::Value& token : list->as_array()) {
    MET_ASSIGN(const std::int64_t id, int_of(token, "id", -1));
    MET_TRY(add_declared(token, id, state));
  }
  return {};
}

// A token of tokenizer_config.json: a string or an object with "content".
std::optional<TokenId> configured(const json::Value& config, std::string_view key,
                                  const TokenizerState& state) {
  const json::Value* v = config.find(key);
  if (v != nullptr && v->is_object()) v = v->find("content");
  if (v == nullptr || !v->is_string()) return std::nullopt;
  const TokenId id = state.find(v->as_string());
  return id < 0 ? std::nullopt : std::optional(id);
}

Result<> load_config(std::string_view text, TokenizerState& state) {
  if (text.empty()) return {};
  auto parsed = json::parse(text);
  if (!parsed) return invalid("tokenizer_config.json", parsed.error().message);
  const json::Value& config = *parsed;
  if (const json::Value* list = config.find("added_tokens_decoder"); list != nullptr && list->is_object()) {
    for (const auto& [key, token] : list->as_object()) {
      std::int64_t id = -1;
      JsonReader reader(key);
      if (const auto number = reader.integer(); number && reader.offset() == key.size()) id = *number;
      const json::Value* content = token.find("content");
      if (content != nullptr && content->is_string() && state.added.contains(static_cast<TokenId>(id)))
        continue;
      MET_TRY(add_declared(token, id, state));
    }
  }
  state.bos = configured(config, "bos_token", state);
  state.eos = configured(config, "eos_token", state);
  state.padding = configured(config, "pad_token", state);
  if (!state.unknown) state.unknown = configured(config, "unk_token", state);
  MET_ASSIGN(const bool add_bos, bool_of(config, "add_bos_token", false));
  MET_ASSIGN(const bool add_eos, bool_of(config, "add_eos_token", false));
  if (add_bos && state.bos && state.prefix.empty()) state.prefix.push_back(*state.bos);
  if (add_eos && state.eos && state.suffix.empty()) state.suffix.push_back(*state.eos);
  return {};
}

}  // namespace

Result<std::unique_ptr<TokenizerState>> load_tokenizer_json(std::string_view tokenizer,
                                                            std::string_view config) {
  MET_ASSIGN(const Document document, read_document(tokenizer));
  auto state = std::make_unique<TokenizerState>();
  MET_TRY(load_model(document, *state));
  const auto member = [&](std::string_view key) {
    const json::Value* v = document.rest.find(key);
    return v == nullptr ? json::Value() : *v;
  };
  MET_ASSIGN(state->normalizer, make_normalizer(member("normalizer")));
  MET_ASSIGN(state->decoder, make_decoder(member("decoder")));
  MET_TRY(load_added(document.rest, *state));
  MET_ASSIGN(PostProcessor post, read_post_processor(member("post_processor")));
  state->prefix = std::move(post.prefix);
  state->suffix = std::move(post.suffix);
  MET_TRY(load_config(config, *state));
  MET_TRY(state->finish());
  return state;
}

}  // namespace met::text
