#include "text/tokenizer/decoder.h"

#include <array>
#include <utility>

#include "core/utf8.h"
#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/declaration.h"
#include "text/tokenizer/model.h"
#include "text/tokenizer/stream_decoder.h"

namespace met::text {
namespace {

constexpr std::string_view kBlankMark = "\xE2\x96\x81";

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  std::string out;
  std::size_t at = 0;
  for (std::size_t hit = text.find(from); hit != std::string::npos; hit = text.find(from, at)) {
    out.append(text, at, hit - at).append(to);
    at = hit + from.size();
  }
  if (at > 0) text = std::move(out.append(text, at));
}

class Sequence final : public Decoder {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Decoder>> steps) : steps_(std::move(steps)) {}
  void run(std::vector<std::string>& pieces) const override {
    for (const auto& step : steps_) step->run(pieces);
  }
  void stream(std::string& piece) const override {
    for (const auto& step : steps_) step->stream(piece);
  }

 private:
  std::vector<std::unique_ptr<Decoder>> steps_;
};

class ByteLevel final : public Decoder {
 public:
  void run(std::vector<std::string>& pieces) const override {
    std::string text;
    Utf8Assembler assembler;
    for (std::string& piece : pieces) {
      stream(piece);
      assembler.push(piece, text);
    }
    assembler.flush(text);
    pieces.assign(1, std::move(text));
  }
  void stream(std::string& piece) const override {
    std::string bytes;
    if (unspell_bytes(piece, bytes)) piece = std::move(bytes);
  }
};

// Runs of byte pieces become text when they are UTF-8, else one U+FFFD a byte.
class ByteFallback final : public Decoder {
 public:
  void run(std::vector<std::string>& pieces) const override {
    std::vector<std::string> out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (utf8::valid(bytes)) {
        out.push_back(bytes);
      } else {
        for (std::size_t i = 0; i < bytes.size(); ++i) out.emplace_back("\xEF\xBF\xBD");
      }
      bytes.clear();
    };
    for (std::string& piece : pieces) {
      const int byte = byte_of_piece(piece);
      if (byte >= 0) {
        bytes += static_cast<char>(byte);
      } else {
        flush();
        out.push_back(std::move(piece));
      }
    }
    flush();
    pieces = std::move(out);
  }
  void stream(std::string& piece) const override {
    if (const int byte = byte_of_piece(piece); byte >= 0) piece.assign(1, static_cast<char>(byte));
  }
};

class Fuse final : public Decoder {
 public:
  void run(std::vector<std::string>& pieces) const override {
    std::string text;
    for (const std::string& piece : pieces) text += piece;
    pieces.assign(1, std::move(text));
  }
  void stream(std::string&) const override {}
};

class Strip final : public Decoder {
 public:
  Strip(std::string content, std::size_t start, std::size_t stop)
      : content_(std::move(content)), start_(start), stop_(stop) {}
  void run(std::vector<std::string>& pieces) const override {
    for (std::string& piece : pieces) {
      for (std::size_t i = 0; i < start_ && piece.starts_with(content_); ++i) piece.erase(0, content_.size());
      for (std::size_t i = 0; i < stop_ && piece.ends_with(content_); ++i)
        piece.erase(piece.size() - content_.size());
    }
  }
  void stream(std::string&) const override {}

 private:
  std::string content_;
  std::size_t start_;
  std::size_t stop_;
};

class Replace final : public Decoder {
 public:
  Replace(Regex pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void run(std::vector<std::string>& pieces) const override {
    for (std::string& piece : pieces) stream(piece);
  }
  void stream(std::string& piece) const override {
    std::vector<ByteRange> matches;
    if (!utf8::valid(piece)) return;
    pattern_.find_all(piece, matches);
    for (auto m = matches.rbegin(); m != matches.rend(); ++m)
      piece.replace(m->begin, m->end - m->begin, content_);
  }

 private:
  Regex pattern_;
  std::string content_;
};

class Metaspace final : public Decoder {
 public:
  Metaspace(std::string replacement, bool drop_first)
      : replacement_(std::move(replacement)), drop_first_(drop_first) {}
  void run(std::vector<std::string>& pieces) const override {
    for (std::size_t i = 0; i < pieces.size(); ++i)
      replace_all(pieces[i], replacement_, i == 0 && drop_first_ ? "" : " ");
  }
  void stream(std::string& piece) const override { replace_all(piece, replacement_, " "); }

 private:
  std::string replacement_;
  bool drop_first_;
};

class BpeSuffix final : public Decoder {
 public:
  explicit BpeSuffix(std::string suffix) : suffix_(std::move(suffix)) {}
  void run(std::vector<std::string>& pieces) const override {
    for (std::size_t i = 0; i < pieces.size(); ++i)
      replace_all(pieces[i], suffix_, i + 1 == pieces.size() ? "" : " ");
  }
  void stream(std::string& piece) const override { replace_all(piece, suffix_, " "); }

 private:
  std::string suffix_;
};

class WordPiece final : public Decoder {
 public:
  WordPiece(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
  void run(std::vector<std::string>& pieces) const override {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0) join(pieces[i]);
      if (cleanup_) clean(pieces[i]);
    }
  }
  void stream(std::string& piece) const override { join(piece); }

 private:
  void join(std::string& piece) const {
    if (piece.starts_with(prefix_))
      piece.erase(0, prefix_.size());
    else
      piece.insert(0, " ");
  }
  static void clean(std::string& piece) {
    constexpr std::pair<std::string_view, std::string_view> kRules[] = {
        {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
        {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
    for (const auto& [from, to] : kRules) replace_all(piece, from, to);
  }

  std::string prefix_;
  bool cleanup_;
};

class Ctc final : public Decoder {
 public:
  Ctc(std::string pad, std::string delimiter) : pad_(std::move(pad)), delimiter_(std::move(delimiter)) {}
  void run(std::vector<std::string>& pieces) const override {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0 && pieces[i] == pieces[i - 1]) continue;
      std::string piece = pieces[i];
      stream(piece);
      if (!piece.empty()) out.push_back(std::move(piece));
    }
    pieces = std::move(out);
  }
  void stream(std::string& piece) const override {
    replace_all(piece, pad_, "");
    replace_all(piece, delimiter_, " ");
  }

 private:
  std::string pad_;
  std::string delimiter_;
};

using Made = Result<std::unique_ptr<Decoder>>;

Made make_sequence(const json::Value& declaration) {
  MET_ASSIGN(const json::Array* list, array_of(declaration, "decoders"));
  std::vector<std::unique_ptr<Decoder>> steps;
  for (const json::Value& step : *list) {
    MET_ASSIGN(auto made, make_decoder(step));
    if (made) steps.push_back(std::move(made));
  }
  return std::make_unique<Sequence>(std::move(steps));
}

Made make_strip(const json::Value& declaration) {
  MET_ASSIGN(std::string content, string_of(declaration, "content", " "));
  MET_ASSIGN(const std::int64_t start, int_of(declaration, "start", 0));
  MET_ASSIGN(const std::int64_t stop, int_of(declaration, "stop", 0));
  if (content.empty() || start < 0 || stop < 0)
    return invalid("decoder", "Strip expects a character and counts that are not negative");
  return std::make_unique<Strip>(std::move(content), static_cast<std::size_t>(start),
                                 static_cast<std::size_t>(stop));
}

Made make_metaspace(const json::Value& declaration) {
  MET_ASSIGN(std::string replacement, string_of(declaration, "replacement", std::string(kBlankMark)));
  MET_ASSIGN(const bool legacy_prefix, bool_of(declaration, "add_prefix_space", true));
  MET_ASSIGN(const std::string scheme,
             string_of(declaration, "prepend_scheme", legacy_prefix ? "always" : "never"));
  return std::make_unique<Metaspace>(std::move(replacement), scheme != "never");
}

}  // namespace

Result<std::unique_ptr<Decoder>> make_decoder(const json::Value& declaration) {
  if (declaration.is_null()) return nullptr;
  MET_ASSIGN(const std::string type, type_of(declaration, "decoder"));
  if (type == "Sequence") return make_sequence(declaration);
  if (type == "ByteLevel") return make_byte_level_decoder();
  if (type == "ByteFallback") return std::make_unique<ByteFallback>();
  if (type == "Fuse") return std::make_unique<Fuse>();
  if (type == "Strip") return make_strip(declaration);
  if (type == "Metaspace") return make_metaspace(declaration);
  if (type == "Replace") {
    MET_ASSIGN(Regex pattern, pattern_of(declaration));
    MET_ASSIGN(std::string content, string_of(declaration, "content", ""));
    return std::make_unique<Replace>(std::move(pattern), std::move(content));
  }
  if (type == "BPEDecoder") {
    MET_ASSIGN(std::string suffix, string_of(declaration, "suffix", "</w>"));
    return std::make_unique<BpeSuffix>(std::move(suffix));
  }
  if (type == "WordPiece") {
    MET_ASSIGN(std::string prefix, string_of(declaration, "prefix", "##"));
    MET_ASSIGN(const bool cleanup, bool_of(declaration, "cleanup", true));
    return std::make_unique<WordPiece>(std::move(prefix), cleanup);
  }
  if (type == "CTC") {
    MET_ASSIGN(std::string pad, string_of(declaration, "pad_token", "<pad>"));
    MET_ASSIGN(std::string delimiter, string_of(declaration, "word_delimiter_token", "|"));
    return std::make_unique<Ctc>(std::move(pad), std::move(delimiter));
  }
  return unsupported("decoder.type", "decoder '" + type + "' is not known");
}

std::unique_ptr<Decoder> make_byte_level_decoder() { return std::make_unique<ByteLevel>(); }

std::unique_ptr<Decoder> make_sentencepiece_decoder(bool strip) {
  std::vector<std::unique_ptr<Decoder>> steps;
  steps.push_back(std::make_unique<Metaspace>(std::string(kBlankMark), false));
  steps.push_back(std::make_unique<ByteFallback>());
  steps.push_back(std::make_unique<Fuse>());
  if (strip) steps.push_back(std::make_unique<Strip>(" ", 1, 0));
  return std::make_unique<Sequence>(std::move(steps));
}

std::unique_ptr<Decoder> make_phantom_space_decoder() {
  std::vector<std::unique_ptr<Decoder>> steps;
  steps.push_back(std::make_unique<Metaspace>(std::string(kBlankMark), false));
  steps.push_back(std::make_unique<Fuse>());
  steps.push_back(std::make_unique<Strip>(" ", 1, 0));
  return std::make_unique<Sequence>(std::move(steps));
}

}  // namespace met::text
