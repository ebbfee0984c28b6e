#include "text/tokenizer/normalizer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "text/tokenizer/byte_alphabet.h"
#include "text/tokenizer/declaration.h"
#include "text/tokenizer/unicode.h"

namespace met::text {
namespace {

constexpr double kGrowthMax = 4096;
constexpr std::string_view kBlankMark = "\xE2\x96\x81";  // U+2581

class Sequence final : public Normalizer {
 public:
  explicit Sequence(std::vector<std::unique_ptr<Normalizer>> steps) : steps_(std::move(steps)) {}
  void apply(MarkedText& text) const override {
    for (const auto& step : steps_)
      if (!text.text.empty()) step->apply(text);
  }
  double growth() const override {
    double all = 1;
    for (const auto& step : steps_) all *= step->growth();
    return all;
  }

 private:
  std::vector<std::unique_ptr<Normalizer>> steps_;
};

class Form final : public Normalizer {
 public:
  explicit Form(NormalForm form) : form_(form) {}
  void apply(MarkedText& text) const override {
    if (!text.marked()) {
      text.text = normalize(text.text, form_);
      return;
    }
    // Nothing composes with an ASCII character to its right: parts that begin at one are independent.
    MarkedWriter out(text);
    for (std::size_t at = 0; at < text.text.size();) {
      std::size_t end = at + 1;
      while (end < text.text.size() && static_cast<unsigned char>(text.text[end]) >= 0x80) ++end;
      if (end == at + 1)
        out.copy(at, end);
      else
        out.put(normalize(std::string_view(text.text).substr(at, end - at), form_), at, end);
      at = end;
    }
    text = out.take();
  }

 private:
  NormalForm form_;
};

class Replace final : public Normalizer {
 public:
  Replace(Regex pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}
  void apply(MarkedText& text) const override {
    std::vector<ByteRange> matches;
    pattern_.find_all(text.text, matches);
    if (matches.empty()) return;
    MarkedWriter out(text);
    std::size_t at = 0;
    for (const ByteRange& m : matches) {
      out.copy(at, m.begin);
      out.put(content_, m.begin, m.end);
      at = m.end;
    }
    out.copy(at, text.text.size());
    text = out.take();
  }
  double growth() const override { return std::max<double>(1, static_cast<double>(content_.size())); }

 private:
  Regex pattern_;
  std::string content_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}
  void apply(MarkedText& text) const override {
    if (text.marked()) text.marks.insert(text.marks.begin(), prefix_.size(), 0);
    text.text.insert(0, prefix_);
  }

 private:
  std::string prefix_;
};

// One code point at a time: `F(c, at, size, MarkedWriter&)` writes what takes its place.
template <class F>
class EachPoint final : public Normalizer {
 public:
  explicit EachPoint(F f) : f_(std::move(f)) {}
  void apply(MarkedText& text) const override {
    MarkedWriter out(text);
    for (std::size_t at = 0; at < text.text.size();) {
      const Point p = first_point(std::string_view(text.text).substr(at));
      f_(p.c, at, at + p.size, out);
      at += p.size;
    }
    text = out.take();
  }

 private:
  F f_;
};
template <class F>
std::unique_ptr<Normalizer> each_point(F f) {
  return std::make_unique<EachPoint<F>>(std::move(f));
}

void lower_point(char32_t c, std::size_t at, std::size_t end, MarkedWriter& out) {
  std::string lower;
  append_lower(c, lower);
  out.put(lower, at, end);
}
// Keeps the code points for which `drop` is false.
template <class F>
std::unique_ptr<Normalizer> drop_points(F drop) {
  return each_point([drop](char32_t c, std::size_t at, std::size_t end, MarkedWriter& out) {
    if (!drop(c)) out.copy(at, end);
  });
}

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}
  void apply(MarkedText& text) const override {
    const std::string_view all = text.text;
    std::size_t begin = 0;
    std::size_t end = 0;  // past the last character that is no blank
    for (std::size_t at = 0; at < all.size();) {
      const Point p = first_point(all.substr(at));
      if (!is_space(p.c)) {
        end = at + p.size;
      } else if (left_ && begin == at && end == 0) {
        begin = at + p.size;
      }
      at += p.size;
    }
    if (!right_) end = all.size();
    MarkedWriter out(text);
    if (begin < end) out.copy(begin, end);
    text = out.take();
  }

 private:
  bool left_;
  bool right_;
};

class ByteSpelling final : public Normalizer {
 public:
  void apply(MarkedText& text) const override {
    MarkedWriter out(text);
    std::string one;
    for (std::size_t at = 0; at < text.text.size(); ++at) {
      one.clear();
      spell_bytes(std::string_view(text.text).substr(at, 1), one);
      out.put(one, at, at + 1);
    }
    text = out.take();
  }
};

bool nmt_drops(char32_t c) {
  return (c >= 1 && c <= 8) || c == 0x0B || (c >= 0x0E && c <= 0x1F) || c == 0x7F || c == 0x8F || c == 0x9F;
}
bool nmt_blanks(char32_t c) {
  return c == 9 || c == 0x0A || c == 0x0C || c == 0x0D || c == 0x1680 || (c >= 0x200B && c <= 0x200F) ||
         c == 0x2028 || c == 0x2029 || c == 0x2581 || c == 0xFEFF || c == 0xFFFD;
}

std::unique_ptr<Normalizer> make_bert_steps(bool clean, bool chinese, bool accents, bool lower) {
  std::vector<std::unique_ptr<Normalizer>> steps;
  if (clean)
    steps.push_back(each_point([](char32_t c, std::size_t at, std::size_t end, MarkedWriter& out) {
      if (c == 0 || c == 0xFFFD || is_control(c)) return;
      if (is_space(c))
        out.put(" ", at, end);
      else
        out.copy(at, end);
    }));
  if (chinese)
    steps.push_back(each_point([](char32_t c, std::size_t at, std::size_t end, MarkedWriter& out) {
      if (is_chinese(c)) out.put(" ", at, end);
      out.copy(at, end);
      if (is_chinese(c)) out.put(" ", at, end);
    }));
  if (accents) {
    steps.push_back(std::make_unique<Form>(NormalForm::kNfd));
    steps.push_back(drop_points(is_nonspacing_mark));
  }
  if (lower) steps.push_back(each_point(lower_point));
  return std::make_unique<Sequence>(std::move(steps));
}

Result<std::unique_ptr<Normalizer>> make_bert_declared(const json::Value& declaration) {
  MET_ASSIGN(const bool lower, bool_of(declaration, "lowercase", true));
  MET_ASSIGN(const bool clean, bool_of(declaration, "clean_text", true));
  MET_ASSIGN(const bool chinese, bool_of(declaration, "handle_chinese_chars", true));
  MET_ASSIGN(const bool accents, bool_of(declaration, "strip_accents", lower));
  return make_bert_steps(clean, chinese, accents, lower);
}

Result<std::unique_ptr<Normalizer>> make_sequence_declared(const json::Value& declaration) {
  MET_ASSIGN(const json::Array* list, array_of(declaration, "normalizers"));
  std::vector<std::unique_ptr<Normalizer>> steps;
  for (const json::Value& step : *list) {
    MET_ASSIGN(auto made, make_normalizer(step));
    if (made) steps.push_back(std::move(made));
  }
  auto all = std::make_unique<Sequence>(std::move(steps));
  if (all->growth() > kGrowthMax)
    return invalid("normalizer", "the replacements lengthen a text more than " +
                                     std::to_string(static_cast<int>(kGrowthMax)) + " times");
  return all;
}

std::string from_base64(std::string_view text) {
  std::string out;
  unsigned bits = 0;
  int held = 0;
  for (const char c : text) {
    const int v = c >= 'A' && c <= 'Z'   ? c - 'A'
                  : c >= 'a' && c <= 'z' ? c - 'a' + 26
                  : c >= '0' && c <= '9' ? c - '0' + 52
                  : c == '+'             ? 62
                  : c == '/'             ? 63
                                         : -1;
    if (v < 0) continue;
    bits = (bits << 6U) | static_cast<unsigned>(v);
    held += 6;
    if (held >= 8) {
      held -= 8;
      out += static_cast<char>((bits >> static_cast<unsigned>(held)) & 0xFFU);
    }
  }
  return out;
}

}  // namespace

Result<std::unique_ptr<Normalizer>> make_normalizer(const json::Value& declaration) {
  if (declaration.is_null()) return nullptr;
  MET_ASSIGN(const std::string type, type_of(declaration, "normalizer"));
  if (type == "Sequence") return make_sequence_declared(declaration);
  if (type == "NFC") return make_nfc();
  if (type == "NFD") return std::make_unique<Form>(NormalForm::kNfd);
  if (type == "NFKC") return std::make_unique<Form>(NormalForm::kNfkc);
  if (type == "NFKD") return std::make_unique<Form>(NormalForm::kNfkd);
  if (type == "Lowercase") return each_point(lower_point);
  if (type == "StripAccents")
    return drop_points([](char32_t c) { return char_class(c) == CharClass::kMark; });
  if (type == "BertNormalizer") return make_bert_declared(declaration);
  if (type == "ByteLevel") return std::make_unique<ByteSpelling>();
  if (type == "Nmt")
    return each_point([](char32_t c, std::size_t at, std::size_t end, MarkedWriter& out) {
      if (nmt_drops(c)) return;
      if (nmt_blanks(c))
        out.put(" ", at, end);
      else
        out.copy(at, end);
    });
  if (type == "Prepend") {
    MET_ASSIGN(std::string prefix, string_of(declaration, "prepend", ""));
    return std::make_unique<Prepend>(std::move(prefix));
  }
  if (type == "Replace") {
    MET_ASSIGN(Regex pattern, pattern_of(declaration));
    MET_ASSIGN(std::string content, string_of(declaration, "content", ""));
    if (content.size() > kGrowthMax)
      return invalid("normalizer.content", "a replacement of " + std::to_string(content.size()) + " bytes");
    return std::make_unique<Replace>(std::move(pattern), std::move(content));
  }
  if (type == "Strip") {
    MET_ASSIGN(const bool left, bool_of(declaration, "strip_left", true));
    MET_ASSIGN(const bool right, bool_of(declaration, "strip_right", true));
    return std::make_unique<Strip>(left, right);
  }
  if (type == "Precompiled") {
    MET_ASSIGN(const std::string map, string_of(declaration, "precompiled_charsmap", ""));
    return make_precompiled(from_base64(map));
  }
  return unsupported("normalizer.type", "normalizer '" + type + "' is not known");
}

std::unique_ptr<Normalizer> make_nfc() { return std::make_unique<Form>(NormalForm::kNfc); }

std::unique_ptr<Normalizer> make_escape_blanks(bool prepend) {
  std::vector<std::unique_ptr<Normalizer>> steps;
  if (prepend) steps.push_back(std::make_unique<Prepend>(std::string(kBlankMark)));
  steps.push_back(std::make_unique<Replace>(std::move(*Regex::literal(" ")), std::string(kBlankMark)));
  return std::make_unique<Sequence>(std::move(steps));
}

std::unique_ptr<Normalizer> make_trim_blanks() {
  std::vector<std::unique_ptr<Normalizer>> steps;
  steps.push_back(std::make_unique<Replace>(std::move(*Regex::compile(" {2,}")), " "));
  steps.push_back(std::make_unique<Strip>(true, true));
  return std::make_unique<Sequence>(std::move(steps));
}

std::unique_ptr<Normalizer> make_bert() { return make_bert_steps(true, true, true, true); }

std::unique_ptr<Normalizer> make_sequence(std::vector<std::unique_ptr<Normalizer>> steps) {
  return std::make_unique<Sequence>(std::move(steps));
}

}  // namespace met::text
