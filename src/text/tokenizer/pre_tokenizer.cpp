#include "text/tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/declaration.h"
#include "text/tokenizer/unicode.h"

namespace met::text {
namespace {

// A stretch of a piece, and whether the pattern matched it.
struct Stretch {
  std::size_t begin;
  std::size_t end;
  bool match;
};

// Appends what a behaviour makes of the stretches, which cover `whole` in order.
void cut(const PreToken& whole, const std::vector<Stretch>& stretches, SplitBehavior behavior,
         std::vector<PreToken>& out) {
  const auto emit = [&](std::size_t begin, std::size_t end) {
    if (begin < end) out.push_back({whole.text.substr(begin, end - begin), whole.first && begin == 0});
  };
  const auto joins = [&](std::size_t i) {  // stretch i continues the piece of stretch i - 1
    const bool a = stretches[i - 1].match;
    const bool b = stretches[i].match;
    switch (behavior) {
      case SplitBehavior::kContiguous:
        return a == b;
      case SplitBehavior::kMergedWithPrevious:
        return b && !a;
      case SplitBehavior::kMergedWithNext:
        return a && !b;
      default:
        return false;
    }
  };
  for (std::size_t i = 0; i < stretches.size();) {
    const std::size_t begin = stretches[i].begin;
    const bool drop = behavior == SplitBehavior::kRemoved && stretches[i].match;
    std::size_t next = i + 1;
    while (next < stretches.size() && joins(next)) ++next;
    if (!drop) emit(begin, stretches[next - 1].end);
    i = next;
  }
}

class Split final : public PreTokenizer {
 public:
  Split(Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

  void run(PreTokens& pieces) const override {
    std::vector<PreToken> out;
    out.reserve(pieces.list.size());
    std::vector<ByteRange> matches;
    std::vector<Stretch> stretches;
    for (const PreToken& piece : pieces.list) {
      matches.clear();
      pattern_.find_all(piece.text, matches);
      if (behavior_ == SplitBehavior::kIsolated) {
        isolate(piece, matches, out);
        continue;
      }
      stretches.clear();
      std::size_t at = 0;
      for (const ByteRange& m : matches) {
        if (at < m.begin) stretches.push_back({at, m.begin, invert_});
        stretches.push_back({m.begin, m.end, !invert_});
        at = m.end;
      }
      if (at < piece.text.size()) stretches.push_back({at, piece.text.size(), invert_});
      cut(piece, stretches, behavior_, out);
    }
    pieces.list = std::move(out);
  }

  void stream(const PreToken& piece, PieceSink& sink) const override {
    if (behavior_ != SplitBehavior::kIsolated) return PreTokenizer::stream(piece, sink);
    std::array<ByteRange, 64> matches;
    std::size_t given = 0;
    const auto give = [&](std::size_t begin, std::size_t end) {
      if (begin < end) sink.take({piece.text.substr(begin, end - begin), piece.first && begin == 0});
    };
    for (std::size_t at = 0; at < piece.text.size();) {
      const std::size_t count = pattern_.find_some(piece.text, at, matches);
      for (std::size_t i = 0; i < count; ++i) {
        give(given, matches[i].begin);
        give(matches[i].begin, matches[i].end);
        given = matches[i].end;
      }
    }
    give(given, piece.text.size());
  }

 private:
  static void isolate(const PreToken& piece, const std::vector<ByteRange>& matches,
                      std::vector<PreToken>& out) {
    std::size_t at = 0;
    const auto emit = [&](std::size_t begin, std::size_t end) {
      if (begin < end) out.push_back({piece.text.substr(begin, end - begin), piece.first && begin == 0});
    };
    for (const ByteRange& m : matches) {
      emit(at, m.begin);
      emit(m.begin, m.end);
      at = m.end;
    }
    emit(at, piece.text.size());
  }

  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

// Splits at characters for which a predicate holds; each is a match of its own.
class SplitAt final : public PreTokenizer {
 public:
  using Predicate = bool (*)(char32_t);
  SplitAt(Predicate predicate, SplitBehavior behavior) : predicate_(predicate), behavior_(behavior) {}
  void run(PreTokens& pieces) const override {
    std::vector<PreToken> out;
    out.reserve(pieces.list.size());
    std::vector<Stretch> stretches;
    for (const PreToken& piece : pieces.list) {
      stretches.clear();
      for (std::size_t at = 0; at < piece.text.size();) {
        const Point p = first_point(piece.text.substr(at));
        const bool match = predicate_(p.c);
        if (!match && !stretches.empty() && !stretches.back().match)
          stretches.back().end += p.size;
        else
          stretches.push_back({at, at + p.size, match});
        at += p.size;
      }
      cut(piece, stretches, behavior_, out);
    }
    pieces.list = std::move(out);
  }

 private:
  Predicate predicate_;
  SplitBehavior behavior_;
};

class Delimiter final : public PreTokenizer {
 public:
  explicit Delimiter(std::string delimiter) : delimiter_(std::move(delimiter)) {}
  void run(PreTokens& pieces) const override {
    std::vector<PreToken> out;
    for (const PreToken& piece : pieces.list) {
      for (std::size_t at = 0; at < piece.text.size();) {
        const std::size_t end = std::min(piece.text.find(delimiter_, at), piece.text.size());
        if (end > at) out.push_back({piece.text.substr(at, end - at), piece.first && at == 0});
        at = end + delimiter_.size();
      }
    }
    pieces.list = std::move(out);
  }

 private:
  std::string delimiter_;
};

// Digit groups from the right: pieces of `length` at a fixed grid.
class FixedLength final : public PreTokenizer {
 public:
  explicit FixedLength(std::size_t length) : length_(length) {}
  void run(PreTokens& pieces) const override {
    std::vector<PreToken> out;
    for (const PreToken& piece : pieces.list) {
      std::size_t begin = 0;
      std::size_t points = 0;
      for (std::size_t at = 0; at < piece.text.size();) {
        at += first_point(piece.text.substr(at)).size;
        if (++points % length_ != 0 && at < piece.text.size()) continue;
        out.push_back({piece.text.substr(begin, at - begin), piece.first && begin == 0});
        begin = at;
      }
    }
    pieces.list = std::move(out);
  }

 private:
  std::size_t length_;
};

class Scripts final : public PreTokenizer {
 public:
  void run(PreTokens& pieces) const override {
    std::vector<PreToken> out;
    for (const PreToken& piece : pieces.list) run(piece, out);
    pieces.list = std::move(out);
  }

 private:
  // A cut stands before each character whose script differs from the last one's; what precedes the first cut
  // (leading characters without a script) is dropped, as the reference does.
  static void run(const PreToken& piece, std::vector<PreToken>& out) {
    int last = -1;
    std::size_t begin = std::string_view::npos;
    for (std::size_t at = 0; at < piece.text.size();) {
      const Point p = first_point(piece.text.substr(at));
      const int script = split_script(p.c);
      if (script != 0 && script != last) {
        if (begin != std::string_view::npos)
          out.push_back({piece.text.substr(begin, at - begin), piece.first && begin == 0});
        begin = at;
        last = script;
      }
      at += p.size;
    }
    if (begin != std::string_view::npos) out.push_back({piece.text.substr(begin), piece.first && begin == 0});
  }
};

class ByteLevel final : public PreTokenizer {
 public:
  ByteLevel(bool prefix, bool spell, std::unique_ptr<Split> split)
      : prefix_(prefix), spell_(spell), split_(std::move(split)) {}
  void run(PreTokens& pieces) const override {
    if (prefix_) {
      for (PreToken& piece : pieces.list)
        if (piece.text[0] != ' ') piece.text = pieces.owned.emplace_back(" " + std::string(piece.text));
    }
    if (split_) split_->run(pieces);
    if (!spell_) return;
    for (PreToken& piece : pieces.list) {
      std::string& spelled = pieces.owned.emplace_back();
      spell_bytes(piece.text, spelled);
      piece.text = spelled;
    }
  }
  void stream(const PreToken& piece, PieceSink& sink) const override {
    if (prefix_ || spell_) return PreTokenizer::stream(piece, sink);
    split_ ? split_->stream(piece, sink) : sink.take(piece);
  }

 private:
  bool prefix_;
  bool spell_;
  std::unique_ptr<Split> split_;
};

class Metaspace final : public PreTokenizer {
 public:
  enum class Prepend { kFirst, kAlways, kNever };
  Metaspace(std::string replacement, Prepend prepend, bool split)
      : replacement_(std::move(replacement)), prepend_(prepend), split_(split) {}
  void run(PreTokens& pieces) const override {
    std::vector<PreToken> out;
    for (const PreToken& piece : pieces.list) {
      std::string& text = pieces.owned.emplace_back();
      for (const char c : piece.text) {
        if (c == ' ')
          text += replacement_;
        else
          text += c;
      }
      const bool wanted = prepend_ == Prepend::kAlways || (prepend_ == Prepend::kFirst && piece.first);
      if (wanted && !text.starts_with(replacement_)) text.insert(0, replacement_);
      if (!split_) {
        out.push_back({text, piece.first});
        continue;
      }
      for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end = std::min(text.find(replacement_, begin + 1), text.size());
        out.push_back({std::string_view(text).substr(begin, end - begin), piece.first && begin == 0});
        begin = end;
      }
    }
    pieces.list = std::move(out);
  }

 private:
  std::string replacement_;
  Prepend prepend_;
  bool split_;
};

class Steps final : public PreTokenizer {
 public:
  explicit Steps(std::vector<std::unique_ptr<PreTokenizer>> steps) : steps_(std::move(steps)) {}
  void run(PreTokens& pieces) const override {
    for (const auto& step : steps_) step->run(pieces);
  }
  void stream(const PreToken& piece, PieceSink& sink) const override { stream_from(0, piece, sink); }

 private:
  // What step `i` finds goes through the steps behind it.
  class Rest final : public PieceSink {
   public:
    Rest(const Steps& steps, std::size_t next, PieceSink& sink) : steps_(steps), next_(next), sink_(sink) {}
    void take(const PreToken& piece) override { steps_.stream_from(next_, piece, sink_); }

   private:
    const Steps& steps_;
    std::size_t next_;
    PieceSink& sink_;
  };
  void stream_from(std::size_t i, const PreToken& piece, PieceSink& sink) const {
    if (i == steps_.size()) return sink.take(piece);
    if (i + 1 == steps_.size()) return steps_[i]->stream(piece, sink);
    Rest rest(*this, i + 1, sink);
    steps_[i]->stream(piece, rest);
  }

  std::vector<std::unique_ptr<PreTokenizer>> steps_;
};

Regex own_pattern(std::string_view pattern) {
  auto regex = Regex::compile(pattern);
  MET_CHECK(regex.has_value(), std::string(pattern));
  return std::move(*regex);
}
std::unique_ptr<Split> own_split(std::string_view pattern, SplitBehavior behavior, bool invert = false) {
  return std::make_unique<Split>(own_pattern(pattern), behavior, invert);
}

Result<SplitBehavior> behavior_of(const json::Value& declaration, std::string absent) {
  MET_ASSIGN(const std::string name, string_of(declaration, "behavior", std::move(absent)));
  constexpr std::pair<std::string_view, SplitBehavior> kNames[] = {
      {"Removed", SplitBehavior::kRemoved},
      {"Isolated", SplitBehavior::kIsolated},
      {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
      {"MergedWithNext", SplitBehavior::kMergedWithNext},
      {"Contiguous", SplitBehavior::kContiguous}};
  for (const auto& [known, behavior] : kNames)
    if (name == known) return behavior;
  return unsupported("pre_tokenizer.behavior", "split behaviour '" + name + "' is not known");
}

using Made = Result<std::unique_ptr<PreTokenizer>>;

Made make_byte_level(const json::Value& declaration, bool spell) {
  MET_ASSIGN(const bool prefix, bool_of(declaration, "add_prefix_space", true));
  MET_ASSIGN(const bool use_regex, bool_of(declaration, "use_regex", true));
  return std::make_unique<ByteLevel>(prefix, spell,
                                     use_regex ? own_split(kGpt2Pattern, SplitBehavior::kIsolated) : nullptr);
}

Made make_metaspace_declared(const json::Value& declaration) {
  MET_ASSIGN(std::string replacement, string_of(declaration, "replacement", "\xE2\x96\x81"));
  if (replacement.empty()) return invalid("replacement", "expected one character, found an empty string");
  MET_ASSIGN(const bool legacy_prefix, bool_of(declaration, "add_prefix_space", true));
  MET_ASSIGN(const std::string scheme,
             string_of(declaration, "prepend_scheme", legacy_prefix ? "always" : "never"));
  MET_ASSIGN(const bool split, bool_of(declaration, "split", true));
  if (scheme != "always" && scheme != "never" && scheme != "first")
    return unsupported("prepend_scheme", "prepend scheme '" + scheme + "' is not known");
  const auto prepend = scheme == "always"  ? Metaspace::Prepend::kAlways
                       : scheme == "never" ? Metaspace::Prepend::kNever
                                           : Metaspace::Prepend::kFirst;
  return std::make_unique<Metaspace>(std::move(replacement), prepend, split);
}

Made make_declared_split(const json::Value& declaration) {
  MET_ASSIGN(Regex pattern, pattern_of(declaration));
  MET_ASSIGN(const SplitBehavior behavior, behavior_of(declaration, "Removed"));
  MET_ASSIGN(const bool invert, bool_of(declaration, "invert", false));
  return std::make_unique<Split>(std::move(pattern), behavior, invert);
}

Made make_small(const std::string& type, const json::Value& declaration) {
  if (type == "Digits") {
    MET_ASSIGN(const bool each, bool_of(declaration, "individual_digits", false));
    return std::make_unique<SplitAt>(is_number, each ? SplitBehavior::kIsolated : SplitBehavior::kContiguous);
  }
  if (type == "Punctuation") {
    MET_ASSIGN(const SplitBehavior behavior, behavior_of(declaration, "Isolated"));
    return std::make_unique<SplitAt>(is_punctuation, behavior);
  }
  if (type == "CharDelimiterSplit") {
    MET_ASSIGN(std::string delimiter, string_of(declaration, "delimiter", ""));
    if (delimiter.empty()) return invalid("delimiter", "expected one character, found none");
    return std::make_unique<Delimiter>(std::move(delimiter));
  }
  if (type == "FixedLength") {
    MET_ASSIGN(const std::int64_t length, int_of(declaration, "length", 5));
    if (length < 1) return invalid("length", "expected at least 1, found " + std::to_string(length));
    return std::make_unique<FixedLength>(static_cast<std::size_t>(length));
  }
  if (type == "Split") return make_declared_split(declaration);
  if (type == "Metaspace") return make_metaspace_declared(declaration);
  if (type == "Whitespace") return own_split(R"(\w+|[^\w\s]+)", SplitBehavior::kRemoved, true);
  if (type == "WhitespaceSplit") return std::make_unique<SplitAt>(is_space, SplitBehavior::kRemoved);
  if (type == "BertPreTokenizer") return make_bert_split();
  if (type == "UnicodeScripts") return std::make_unique<Scripts>();
  return unsupported("pre_tokenizer.type", "pre-tokenizer '" + type + "' is not known");
}

}  // namespace

void PreTokenizer::stream(const PreToken& piece, PieceSink& sink) const {
  PreTokens tokens;
  tokens.list.push_back(piece);
  run(tokens);
  for (const PreToken& found : tokens.list) sink.take(found);
}

Result<PreTokenizerPlan> make_pre_tokenizer(const json::Value& declaration, bool bytes_at_end) {
  PreTokenizerPlan plan;
  if (declaration.is_null()) return plan;
  MET_ASSIGN(const std::string type, type_of(declaration, "pre_tokenizer"));
  if (type == "ByteLevel") {
    MET_ASSIGN(plan.steps, make_byte_level(declaration, !bytes_at_end));
    plan.byte_level = bytes_at_end;
    return plan;
  }
  if (type != "Sequence") {
    MET_ASSIGN(plan.steps, make_small(type, declaration));
    return plan;
  }
  MET_ASSIGN(const json::Array* list, array_of(declaration, "pretokenizers"));
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  for (std::size_t i = 0; i < list->size(); ++i) {
    MET_ASSIGN(PreTokenizerPlan step, make_pre_tokenizer((*list)[i], bytes_at_end && i + 1 == list->size()));
    if (step.steps) steps.push_back(std::move(step.steps));
    plan.byte_level = step.byte_level;
  }
  plan.steps = std::make_unique<Steps>(std::move(steps));
  return plan;
}

std::unique_ptr<PreTokenizer> make_splits(std::span<const std::string_view> patterns) {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  for (const std::string_view pattern : patterns)
    steps.push_back(own_split(pattern, SplitBehavior::kIsolated));
  return std::make_unique<Steps>(std::move(steps));
}

std::unique_ptr<PreTokenizer> make_bert_split() {
  std::vector<std::unique_ptr<PreTokenizer>> steps;
  steps.push_back(std::make_unique<SplitAt>(is_space, SplitBehavior::kRemoved));
  steps.push_back(std::make_unique<SplitAt>(is_punctuation, SplitBehavior::kIsolated));
  return std::make_unique<Steps>(std::move(steps));
}

std::unique_ptr<PreTokenizer> make_metaspace(bool prepend) {
  return std::make_unique<Metaspace>(
      "\xE2\x96\x81", prepend ? Metaspace::Prepend::kAlways : Metaspace::Prepend::kNever, true);
}

}  // namespace met::text
