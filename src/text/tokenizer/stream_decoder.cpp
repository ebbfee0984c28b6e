#include "text/tokenizer/stream_decoder.h"

#include "core/utf8.h"

namespace met::text {
namespace {

// Nothing but the first two bytes of an encoded surrogate. They are invalid already; holding them until the
// third gives the three U+FFFD at once, as Python's incremental decoder does.
bool surrogate_begins(std::string_view bytes) {
  return bytes.size() == 2 && bytes[0] == '\xED' && static_cast<unsigned char>(bytes[1]) >= 0xA0 &&
         static_cast<unsigned char>(bytes[1]) <= 0xBF;
}

}  // namespace

void Utf8Assembler::push(std::string_view bytes, std::string& out) {
  std::string joined;
  if (!held_.empty()) {
    joined = std::move(held_) + std::string(bytes);
    held_.clear();
    bytes = joined;
  }
  while (!bytes.empty()) {
    const utf8::Decoded d = utf8::decode(bytes);
    if (d.incomplete || surrogate_begins(bytes)) {
      held_ = bytes;
      return;
    }
    if (d.valid)
      out.append(bytes.substr(0, d.length));
    else
      utf8::append(utf8::kReplacement, out);
    bytes.remove_prefix(d.length);
  }
}

void Utf8Assembler::flush(std::string& out) {
  if (surrogate_begins(held_)) utf8::append(utf8::kReplacement, out);
  if (!held_.empty()) utf8::append(utf8::kReplacement, out);
  held_.clear();
}

std::string StreamDecoder::push(TokenId id) {
  std::string out;
  if (!(skip_special_ && tokenizer_->is_special(id))) assembler_.push(tokenizer_->token_bytes(id), out);
  return out;
}

std::string StreamDecoder::flush() {
  std::string out;
  assembler_.flush(out);
  return out;
}

}  // namespace met::text
