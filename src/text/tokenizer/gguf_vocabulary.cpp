#include "text/tokenizer/gguf_vocabulary.h"

#include "core/utf8.h"
#include "text/tokenizer/piece_table.h"

namespace met::text {
namespace {

using formats::GgufFile;
using formats::GgufValue;

constexpr std::string_view kPrefix = "tokenizer.ggml.";

std::string key_of(std::string_view name) { return std::string(kPrefix) + std::string(name); }

Result<std::string> text_at(const GgufFile& file, std::string_view name) {
  MET_ASSIGN(const auto value, file.string(key_of(name)));
  return std::string(value.value_or(""));
}

Result<std::vector<std::string_view>> strings_at(const GgufFile& file, std::string_view name,
                                                 std::size_t most) {
  MET_ASSIGN(const auto value, file.strings(key_of(name)));
  std::vector<std::string_view> out;
  if (!value) return out;
  if (value->size() > most)
    return corrupt(key_of(name), std::to_string(value->size()) + " strings, at most " + std::to_string(most));
  out.reserve(value->size());
  for (const std::string_view s : *value) out.push_back(s);
  return out;
}

// An array of numbers that has one element a token, or is absent.
template <class T>
Result<std::vector<T>> numbers_at(const GgufFile& file, std::string_view name, std::size_t tokens) {
  std::vector<T> out;
  const GgufValue* value = file.find(key_of(name));
  if (value == nullptr) return out;
  if (!value->is_array() || value->size() != tokens)
    return corrupt(key_of(name), "expected an array of " + std::to_string(tokens) + " numbers, found " +
                                     value->type_name() + " with " + std::to_string(value->size()));
  out.reserve(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    const auto number = [&] {
      if constexpr (std::is_integral_v<T>)
        return value->integer(i);
      else
        return value->number(i);
    }();
    if (!number) return corrupt(key_of(name), "expected numbers, found " + value->type_name());
    out.push_back(static_cast<T>(*number));
  }
  return out;
}

Result<std::string> bytes_at(const GgufFile& file, std::string_view name) {
  const GgufValue* value = file.find(key_of(name));
  std::string out;
  if (value == nullptr) return out;
  if (!value->is_array())
    return corrupt(key_of(name), "expected an array of bytes, found " + value->type_name());
  for (std::size_t i = 0; i < value->size(); ++i) {
    const auto byte = value->integer(i);
    if (!byte) return corrupt(key_of(name), "expected an array of bytes, found " + value->type_name());
    out += static_cast<char>(*byte);
  }
  return out;
}

Result<> read_ids(const GgufFile& file, GgufVocabulary& out) {
  const std::pair<std::string_view, std::optional<std::int64_t>*> kIds[] = {
      {"bos_token_id", &out.bos},
      {"eos_token_id", &out.eos},
      {"eot_token_id", &out.eot},
      {"eom_token_id", &out.eom},
      {"unknown_token_id", &out.unknown},
      {"padding_token_id", &out.padding},
      {"seperator_token_id", &out.separator},
      {"cls_token_id", &out.classifier}};
  for (const auto& [name, id] : kIds) {
    MET_ASSIGN(*id, file.integer(key_of(name)));
    if (*id && **id == UINT32_MAX) id->reset();  // how writers say "none"
    if (*id && (**id < 0 || static_cast<std::size_t>(**id) >= out.tokens.size()))
      return corrupt(key_of(name), "id " + std::to_string(**id) + " is outside the vocabulary of " +
                                       std::to_string(out.tokens.size()));
  }
  const std::pair<std::string_view, std::optional<bool>*> kFlags[] = {
      {"add_bos_token", &out.add_bos},
      {"add_eos_token", &out.add_eos},
      {"add_sep_token", &out.add_separator},
      {"add_space_prefix", &out.add_space_prefix},
      {"remove_extra_whitespaces", &out.remove_extra_spaces}};
  for (const auto& [name, flag] : kFlags) {
    MET_ASSIGN(*flag, file.boolean(key_of(name)));
  }
  return {};
}

}  // namespace

Result<GgufVocabulary> GgufVocabulary::read(const formats::GgufFile& file) {
  GgufVocabulary out;
  MET_ASSIGN(out.model, text_at(file, "model"));
  if (out.model.empty()) return corrupt(key_of("model"), "the file has no tokenizer");
  MET_ASSIGN(out.pre, text_at(file, "pre"));
  MET_ASSIGN(out.tokens, strings_at(file, "tokens", PieceTable::kIdsMax));
  if (out.tokens.empty()) return corrupt(key_of("tokens"), "the vocabulary is empty");
  for (std::size_t i = 0; i < out.tokens.size(); ++i)
    if (!utf8::valid(out.tokens[i]))
      return corrupt(key_of("tokens"), "token " + std::to_string(i) + " is not UTF-8");
  MET_ASSIGN(out.scores, numbers_at<float>(file, "scores", out.tokens.size()));
  MET_ASSIGN(out.types, numbers_at<std::int32_t>(file, "token_type", out.tokens.size()));
  MET_ASSIGN(out.merges, strings_at(file, "merges", 2 * PieceTable::kIdsMax));
  MET_ASSIGN(out.charsmap, bytes_at(file, "precompiled_charsmap"));
  MET_TRY(read_ids(file, out));
  return out;
}

}  // namespace met::text
