// Text → tokenizer.json. What loads must encode, decode and stream without leaving the vocabulary.
#include <cstdint>
#include <string>
#include <string_view>

#include "text/tokenizer/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto tokenizer = met::text::Tokenizer::from_json(text);
  if (!tokenizer) {
    MET_CHECK(!tokenizer.error().message.empty() && !tokenizer.error().field.empty());
    return 0;
  }
  for (const std::string_view sample :
       {std::string_view("Hello, wörld! <s> 123\n\n  x"), text.substr(0, 512)}) {
    const auto ids = tokenizer->encode(sample, {.add_special = true});
    met::text::StreamDecoder decoder(*tokenizer);
    for (const met::text::TokenId id : ids) decoder.push(id);
    decoder.flush();
    (void)tokenizer->decode(ids);
  }
  for (std::size_t id = 0; id < tokenizer->vocabulary_size() && id < 1000; ++id)
    (void)tokenizer->piece(static_cast<met::text::TokenId>(id));
  return 0;
}
