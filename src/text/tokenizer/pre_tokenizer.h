// Pre-tokenisers: where a text may be cut before the model sees it.
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/json.h"
#include "text/tokenizer/regex.h"

namespace met::text {

/// A piece for the model.
struct PreToken {
  std::string_view text;  ///< not empty
  bool first = false;     ///< begins where the whole text began
};

/// The pieces of one segment, and the texts that steps have written anew.
struct PreTokens {
  std::vector<PreToken> list;
  std::deque<std::string> owned;
};

/// Takes pieces, one after the other.
class PieceSink {
 public:
  virtual ~PieceSink() = default;
  virtual void take(const PreToken& piece) = 0;
};

/// Cuts pieces into smaller ones. Immutable.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  virtual void run(PreTokens& pieces) const = 0;
  /// What `run` makes of one piece, given on as it is found where the step can: a long text needs no list of its words.
  virtual void stream(const PreToken& piece, PieceSink& sink) const;
};

/// What is done with the characters that a pattern matches.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

struct PreTokenizerPlan {
  std::unique_ptr<PreTokenizer> steps;  ///< nullptr: none
  /// The last step is ByteLevel: it leaves the bytes as they are, and the model's pieces are bytes.
  bool byte_level = false;
};

/// From the member "pre_tokenizer". With `bytes_at_end` false a last ByteLevel step spells its bytes like any
/// other place's. Errors: kUnsupported or kInvalidArgument naming the member.
Result<PreTokenizerPlan> make_pre_tokenizer(const json::Value& declaration, bool bytes_at_end);

/// Isolated matches of each pattern in turn. The patterns are ours: one that does not compile is a defect.
std::unique_ptr<PreTokenizer> make_splits(std::span<const std::string_view> patterns);
/// BERT's: blanks removed, punctuation isolated.
std::unique_ptr<PreTokenizer> make_bert_split();
/// Blanks become U+2581, one is put in front when `prepend`, words are cut before it.
std::unique_ptr<PreTokenizer> make_metaspace(bool prepend);

}  // namespace met::text
