#include "api/fill_in.h"

#include <algorithm>
#include <string_view>

#include "core/concat.h"

namespace met::api {
namespace {

using Ids = std::vector<TokenId>;

/// How one family of models was trained to fill in: prefix, suffix, then the middle; or suffix, then the prefix, which
/// the middle continues.
struct Markers {
  std::string_view prefix;
  std::string_view suffix;
  std::string_view middle;  // empty: the prefix comes last
};

constexpr Markers kMarkers[] = {
    {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"},     // Qwen, CodeGemma, Seed-Coder
    {"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},           // StarCoder, Granite, Stable Code
    {"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},           // SantaCoder
    {"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"},  // GLM
    {"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},     // DeepSeek: the suffix begins at the hole
    {"▁<PRE>", "▁<SUF>", "▁<MID>"},                             // Code Llama
    {"[PREFIX]", "[SUFFIX]", ""},                               // Codestral
};

/// What such models write behind a middle: the next file, the next repository, filling, the end of the hole.
constexpr std::string_view kEnds[] = {"<|endoftext|>",      "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>",
                                      "<|file_separator|>", "<fim_pad>",   "<fim-pad>",     "<repo_name>",
                                      "<file_sep>",         "▁<EOT>"};

/// Ids of a text in which nothing is a control token. Added tokens that are no control tokens count, unless one of
/// them is among those that this prompt is made of.
Ids plain_ids(const FillIn& tokens, const std::string& text, bool add_special,
              const text::Tokenizer& tokenizer) {
  Ids ids = tokenizer.encode(text, {.add_special = add_special, .added = text::AddedTokens::kUnflagged});
  const auto reserved = [&](TokenId id) {
    return id == tokens.prefix || id == tokens.suffix || id == tokens.middle ||
           std::ranges::binary_search(tokens.ends, id);
  };
  if (std::ranges::none_of(ids, reserved)) return ids;
  return tokenizer.encode(text, {.add_special = add_special, .added = text::AddedTokens::kNone});
}

/// The same without the blank that some tokenizers put before every text: a suffix begins in the midst of one.
Ids suffix_ids(const FillIn& tokens, const std::string& text, const text::Tokenizer& tokenizer) {
  Ids ids = plain_ids(tokens, text, false, tokenizer);
  const auto bytes = [&](const Ids& all) {
    std::string out;
    for (const TokenId id : all) out += tokenizer.token_bytes(id);
    return out;
  };
  if (bytes(ids) != concat(" ", text)) return ids;
  // Behind a line break, which such vocabularies spell as a byte, the blank stands before the break.
  const Ids behind = plain_ids(tokens, "\n" + text, false, tokenizer);
  std::string begin;
  for (std::size_t i = 0; i < behind.size() && begin.size() < 2; ++i) {
    begin += tokenizer.token_bytes(behind[i]);
    if (begin == " \n") return {behind.begin() + static_cast<std::ptrdiff_t>(i) + 1, behind.end()};
  }
  return ids;
}

}  // namespace

std::optional<FillIn> find_fill_in(const text::Tokenizer& tokenizer) {
  for (const Markers& markers : kMarkers) {
    const auto prefix = tokenizer.find(markers.prefix);
    const auto suffix = tokenizer.find(markers.suffix);
    const auto middle = markers.middle.empty() ? std::nullopt : tokenizer.find(markers.middle);
    if (!prefix || !suffix || (!middle && !markers.middle.empty())) continue;
    FillIn out{.prefix = *prefix, .suffix = *suffix, .middle = middle, .ends = {}};
    for (const std::string_view end : kEnds)
      if (const auto id = tokenizer.find(end)) out.ends.push_back(*id);
    std::ranges::sort(out.ends);
    return out;
  }
  return std::nullopt;
}

FillInPrompt fill_in_prompt(const FillIn& tokens, const PromptInput& before, const std::string& behind,
                            bool add_special, const text::Tokenizer& tokenizer) {
  const auto* text = std::get_if<std::string>(&before);
  const Ids prefix =
      text != nullptr ? plain_ids(tokens, *text, add_special, tokenizer) : std::get<Ids>(before);
  const Ids suffix = suffix_ids(tokens, behind, tokenizer);
  const std::ptrdiff_t bos = !prefix.empty() && tokenizer.bos() == prefix.front() ? 1 : 0;
  FillInPrompt out{.ids = {prefix.begin(), prefix.begin() + bos}};
  const auto add_prefix = [&] {
    out.ids.push_back(tokens.prefix);
    out.prefix_begin = out.ids.size();
    out.prefix_count = prefix.size() - static_cast<std::size_t>(bos);
    out.ids.insert(out.ids.end(), prefix.begin() + bos, prefix.end());
  };
  if (tokens.middle) add_prefix();
  out.ids.push_back(tokens.suffix);
  out.ids.insert(out.ids.end(), suffix.begin(), suffix.end());
  if (tokens.middle) {
    out.ids.push_back(*tokens.middle);
  } else {
    add_prefix();
  }
  return out;
}

}  // namespace met::api
