// Decoders: pieces of a vocabulary back to text.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/json.h"

namespace met::text {

/// One step. Immutable.
class Decoder {
 public:
  virtual ~Decoder() = default;
  /// Rewrites the pieces of a whole sequence.
  virtual void run(std::vector<std::string>& pieces) const = 0;
  /// What one piece adds to a stream, as bytes, wherever it stands; steps that look at the first or last
  /// piece leave it alone.
  virtual void stream(std::string& piece) const = 0;
};

/// From the member "decoder"; nullptr for null. Errors: kUnsupported or kInvalidArgument naming the member.
Result<std::unique_ptr<Decoder>> make_decoder(const json::Value& declaration);

std::unique_ptr<Decoder> make_byte_level_decoder();
/// U+2581 to blanks, byte pieces to bytes, all in one; a leading blank dropped when `strip`.
std::unique_ptr<Decoder> make_sentencepiece_decoder(bool strip);
/// Words that begin with U+2581, as GGUF spells BERT's vocabulary.
std::unique_ptr<Decoder> make_phantom_space_decoder();

}  // namespace met::text
