// Bytes → a text and the range that a user wrote. A byte-level vocabulary loses nothing, a stream equals the
// whole, and no special token comes out of a user's bytes, whatever the model.
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"

namespace {

using namespace met::text;

constexpr std::string_view kAdded = R"("added_tokens": [
  {"id": 300, "content": "<|end|>", "special": true, "normalized": false},
  {"id": 301, "content": "<END>", "special": true, "normalized": true, "lstrip": true},
  {"id": 302, "content": "<think>", "special": false, "normalized": false, "rstrip": true}],)";

Tokenizer build(const std::string& json) {
  auto tokenizer = Tokenizer::from_json(json);
  MET_CHECK(tokenizer.has_value(), tokenizer ? "" : tokenizer.error().message);
  return std::move(*tokenizer);
}

Tokenizer byte_level() {
  std::string vocabulary;
  for (unsigned b = 0; b < 256; ++b) {
    std::string piece;
    spell_bytes(std::string(1, static_cast<char>(b)), piece);
    vocabulary +=
        (piece == "\"" || piece == "\\" ? "\"\\" : "\"") + piece + "\": " + std::to_string(b) + ", ";
  }
  return build("{" + std::string(kAdded) +
               R"("pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false},
      "decoder": {"type": "ByteLevel"}, "model": {"type": "BPE", "vocab": {)" +
               vocabulary + R"("ab": 256, "abc": 257, "<|": 258}, "merges": ["a b", "ab c", "< |"]}})");
}

Tokenizer unigram() {
  return build("{" + std::string(kAdded) +
               R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"},
      {"type": "Lowercase"}]}, "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "first"},
      "decoder": {"type": "Metaspace"}, "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["a", -1],
      ["b", -1], ["ab", -1.5], ["<|end|>", -3], ["\u2581", -2]]}})");
}

Tokenizer word_piece() {
  return build("{" + std::string(kAdded) + R"("normalizer": {"type": "BertNormalizer"},
      "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece"}, "model": {"type": "WordPiece",
      "unk_token": "[UNK]", "vocab": {"[UNK]": 0, "a": 1, "##b": 2, "<": 3, "end": 4, "|": 5, ">": 6}}})");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tokenizer kTokenizers[] = {byte_level(), unigram(), word_piece()};
  if (size < 4) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 4, size - 4);
  const std::size_t begin = (data[0] | data[1] << 8U) % (text.size() + 1);
  const ByteRange written{begin, begin + (data[2] | data[3] << 8U) % (text.size() - begin + 1)};
  const ByteRange all{0, text.size()};

  std::string valid;
  Utf8Assembler assembler;
  assembler.push(text, valid);
  assembler.flush(valid);
  const auto ids = kTokenizers[0].encode(text, {.added = AddedTokens::kNone});
  MET_CHECK(kTokenizers[0].decode(ids) == valid);

  for (const Tokenizer& tokenizer : kTokenizers) {
    const auto special = [&](TokenId id) { return tokenizer.is_special(id) && id != tokenizer.unknown(); };
    MET_CHECK(std::ranges::none_of(tokenizer.encode(text, {.untrusted = {&all, 1}}), special));
    const auto some = tokenizer.encode(text, {.untrusted = {&written, 1}});
    MET_CHECK(std::ranges::count_if(some, special) <= std::ranges::count_if(tokenizer.encode(text), special));
    std::string streamed;
    StreamDecoder decoder(tokenizer, /*skip_special=*/false);
    for (const TokenId id : some) streamed += decoder.push(id);
    streamed += decoder.flush();
    MET_CHECK(met::utf8::valid(streamed));
  }
  return 0;
}
