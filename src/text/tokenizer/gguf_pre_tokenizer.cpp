// Split patterns by the names that GGUF files give them. The patterns are those of the models' own
// tokenizer.json where it is known.
#include <algorithm>
#include <iterator>
#include <span>

#include "text/tokenizer/gguf_vocabulary.h"
#include "text/tokenizer/scanners.h"

namespace met::text {
namespace {

using Patterns = std::span<const std::string_view>;

constexpr std::string_view kGpt2[] = {kGpt2Pattern};
constexpr std::string_view kLlama3[] = {kLlama3Pattern};
constexpr std::string_view kQwen2[] = {kQwen2Pattern};
constexpr std::string_view kDigitsGpt2[] = {kNumberPattern, kGpt2Pattern};
constexpr std::string_view kDefault[] = {R"([\p{P}\$\+<=>\^~\|]+)", kGpt2Pattern, R"(\p{N}+)",
                                         "[0-9][0-9][0-9]"};
constexpr std::string_view kFalcon[] = {R"([\p{P}\$\+<=>\^~\|`]+)", kGpt2Pattern, "[0-9][0-9][0-9]"};
constexpr std::string_view kQwen35[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
// clang-format off
constexpr std::string_view kDeepSeekLlm[] = {
    "[\r\n]",
    "\\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-ώᾀ-ᾴᾶ-ᾼιῂ-ῄῆ-ῌῐ-ΐῖ-Ίῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤΩℨK-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+",
    "\\s?[!-/:-~！-／：-～‘-‟　-。]+",
    "\\s+$",
    "[一-龥ࠀ-一가-퟿]+",
    "\\p{N}+",
};
// clang-format on
constexpr std::string_view kDeepSeekCoder[] = {"[\r\n]", "\\s?\\p{L}+", "\\s?\\p{P}+",
                                               "[一-龥ࠀ-一가-퟿]+", "\\p{N}"};
constexpr std::string_view kDeepSeekV3[] = {
    R"(\p{N}{1,3})", "[一-龥぀-ゟ゠-ヿ]+",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kTekken[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kGpt4o[] = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kKimiK2[] = {
    R"([\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::string_view kBloom[] = {" ?[^(\\s|.,!?…。，、।۔،)]+"};
constexpr std::string_view kViking[] = {" ?[^(\\s|.,!?…。，、।۔،)]+", R"(\p{N})"};
constexpr std::string_view kBailing[] = {
    R"('(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+)"};
constexpr std::string_view kSeedCoder[] = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+|\s*[\r\n]+|\s+(?!\S)|\s+)"};

struct Entry {
  std::string_view name;
  GgufPreTokenizer value;
};
constexpr GgufPreTokenizer plain(Patterns patterns) { return {.patterns = patterns}; }

constexpr Entry kEntries[] = {
    {"default", plain(kDefault)},
    {"llama3", {.patterns = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"llama-v3", {.patterns = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"llama-bpe", {.patterns = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"falcon3", {.patterns = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"falcon-h1", {.patterns = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"pixtral", {.patterns = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"midm-2.0", {.patterns = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"lfm2", {.patterns = kLlama3, .ignore_merges = true, .add_bos = true}},
    {"dbrx", plain(kLlama3)},
    {"smaug-bpe", plain(kLlama3)},
    {"chatglm-bpe", plain(kLlama3)},
    {"glm4", {.patterns = kLlama3, .ignore_merges = true}},
    {"glm5", {.patterns = kLlama3, .ignore_merges = true}},
    {"deepseek-llm", plain(kDeepSeekLlm)},
    {"deepseek-coder", plain(kDeepSeekCoder)},
    {"deepseek-v3", plain(kDeepSeekV3)},
    {"hunyuan-dense", plain(kDeepSeekV3)},
    {"joyai-llm", plain(kDeepSeekV3)},
    {"falcon", plain(kFalcon)},
    {"mpt", plain(kGpt2)},
    {"olmo", plain(kGpt2)},
    {"jais", plain(kGpt2)},
    {"gpt-2", plain(kGpt2)},
    {"phi-2", plain(kGpt2)},
    {"gigachat", plain(kGpt2)},
    {"a.x-4.0", plain(kGpt2)},
    {"mellum", plain(kGpt2)},
    {"modern-bert", plain(kGpt2)},
    {"exaone4", plain(kGpt2)},
    {"trillion", plain(kGpt2)},
    {"granite-docling", plain(kGpt2)},
    {"roberta-bpe", plain(kGpt2)},
    {"starcoder", plain(kDigitsGpt2)},
    {"refact", plain(kDigitsGpt2)},
    {"command-r", plain(kDigitsGpt2)},
    {"smollm", plain(kDigitsGpt2)},
    {"codeshell", plain(kDigitsGpt2)},
    {"exaone", plain(kDigitsGpt2)},
    {"minerva-7b", plain(kDigitsGpt2)},
    {"mellum2", plain(kDigitsGpt2)},
    {"qwen2", {.patterns = kQwen2, .nfc = true}},
    {"deepseek-r1-qwen", {.patterns = kQwen2, .nfc = true}},
    {"megrez", {.patterns = kQwen2, .nfc = true}},
    {"qwen35", {.patterns = kQwen35, .nfc = true}},
    {"stablelm2", plain(kQwen2)},
    {"hunyuan", plain(kQwen2)},
    {"solar-open", plain(kQwen2)},
    {"grok-2", plain(kQwen2)},
    {"tekken", {.patterns = kTekken, .ignore_merges = true, .add_bos = true}},
    {"gpt-4o", plain(kGpt4o)},
    {"llama4", plain(kGpt4o)},
    {"kanana2", plain(kGpt4o)},
    {"minimax-m2", plain(kGpt4o)},
    {"kimi-k2", plain(kKimiK2)},
    {"poro-chat", plain(kBloom)},
    {"bloom", plain(kBloom)},
    {"gpt3-finnish", plain(kBloom)},
    {"viking", plain(kViking)},
    {"bailingmoe", plain(kBailing)},
    {"bailingmoe2", plain(kBailing)},
    {"llada-moe", plain(kBailing)},
    {"seed-coder", plain(kSeedCoder)},
};

}  // namespace

const GgufPreTokenizer* find_gguf_pre_tokenizer(std::string_view name) {
  const auto* entry = std::ranges::find(kEntries, name, &Entry::name);
  return entry == std::end(kEntries) ? nullptr : &entry->value;
}

}  // namespace met::text
