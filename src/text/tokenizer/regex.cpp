#include "text/tokenizer/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <utility>

#include "text/tokenizer/unicode.h"

namespace met::text {
namespace {

// Sets as they stand inside brackets.
constexpr std::string_view kSpaceSet =
    R"(\x09-\x0d\x20\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWordSet =
    R"(\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{24b6}-\x{24e9}\x{1f130}-\x{1f149}\x{1f150}-\x{1f169}\x{1f170}-\x{1f189})";
constexpr std::string_view kHexSet = "0-9a-fA-F";

constexpr std::size_t kPatternBytesMax = 16 << 10;

std::string_view set_of(char escape) {
  switch (escape | 32) {
    case 's':
      return kSpaceSet;
    case 'w':
      return kWordSet;
    case 'h':
      return kHexSet;
    default:
      return {};
  }
}

// Reads a pattern once from left to right.
class Translator {
 public:
  explicit Translator(std::string_view pattern) : rest_(pattern) {}
  std::string run() {
    std::string out;
    while (!rest_.empty()) {
      if (rest_[0] == '[')
        out += bracket();
      else if (rest_[0] == '\\' && rest_.size() > 1)
        out += escape();
      else
        out += take(1);
    }
    return out;
  }

 private:
  std::string take(std::size_t n) {
    std::string out(rest_.substr(0, n));
    rest_.remove_prefix(out.size());
    return out;
  }
  std::string escape() {
    const std::string_view set = set_of(rest_[1]);
    const bool negated = rest_[1] < 'a';
    if (set.empty()) return take(2);
    rest_.remove_prefix(2);
    return std::string(negated ? "[^" : "[") + std::string(set) + "]";
  }
  // One bracket expression. `A&&B` matches a character of A that is one of B: `(?=B)A`; nested brackets
  // without
  // && are united.
  std::string bracket() {
    rest_.remove_prefix(1);
    std::string members;
    std::string ahead;
    bool after_and = false;
    const bool negated = rest_.starts_with('^');
    if (negated) rest_.remove_prefix(1);
    if (rest_.starts_with(']')) members += "\\" + take(1);
    while (!rest_.empty() && rest_[0] != ']') {
      if (rest_.starts_with("&&")) {
        rest_.remove_prefix(2);
        ahead += "(?=" + (members.empty() ? std::string("[\\s\\S]") : "[" + members + "]") + ")";
        members.clear();
        after_and = true;
      } else if (rest_[0] == '[' && !rest_.starts_with("[:")) {
        nested(after_and, members, ahead);
      } else if (rest_[0] == '\\' && rest_.size() > 1) {
        const std::string_view set = set_of(rest_[1]);
        if (set.empty() || rest_[1] < 'a') {
          members += take(2);
        } else {
          rest_.remove_prefix(2);
          members += set;
        }
      } else if (rest_.starts_with("[:")) {
        const std::size_t end = rest_.find(":]");
        members += take(end == std::string_view::npos ? rest_.size() : end + 2);
      } else {
        members += take(1);
      }
    }
    if (!rest_.empty()) rest_.remove_prefix(1);
    const std::string last = members.empty() ? "[\\s\\S]" : "[" + members + "]";
    if (!negated) return ahead.empty() ? last : "(?:" + ahead + last + ")";
    if (ahead.empty()) return "[^" + members + "]";
    return "(?:(?!" + ahead + last + ")[\\s\\S])";
  }
  // A bracket inside a bracket: a side of && becomes a lookahead, a member of a union is opened up.
  void nested(bool after_and, std::string& members, std::string& ahead) {
    std::string inner = bracket();
    if (after_and && members.empty()) {
      ahead += "(?=" + inner + ")";
    } else if (inner.starts_with("[^") || !inner.starts_with('[')) {
      members += "[";  // a negated set inside a union has no equal here: PCRE2 refuses the pattern
    } else {
      members += inner.substr(1, inner.size() - 2);
    }
  }

  std::string_view rest_;
};

// Match data and JIT stack of a thread.
struct Workspace {
  pcre2_match_data* data = pcre2_match_data_create(1, nullptr);
  pcre2_match_context* context = pcre2_match_context_create(nullptr);
  pcre2_jit_stack* stack = pcre2_jit_stack_create(32 << 10, 8 << 20, nullptr);
  Workspace() {
    pcre2_jit_stack_assign(context, nullptr, stack);
    pcre2_set_heap_limit(context, 64 << 10);  // KiB
    pcre2_set_match_limit(context, 200'000'000);
  }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;
  ~Workspace() {
    pcre2_jit_stack_free(stack);
    pcre2_match_context_free(context);
    pcre2_match_data_free(data);
  }
};

}  // namespace

std::string translate_pattern(std::string_view pattern) { return Translator(pattern).run(); }

struct Regex::Code {
  pcre2_code* code = nullptr;
  Code() = default;
  Code(const Code&) = delete;
  Code& operator=(const Code&) = delete;
  ~Code() { pcre2_code_free(code); }
};

Regex::Regex() = default;
Regex::Regex(Regex&&) noexcept = default;
Regex& Regex::operator=(Regex&&) noexcept = default;
Regex::~Regex() = default;

Result<Regex> Regex::compile(std::string_view pattern) {
  if (pattern.size() > kPatternBytesMax)
    return invalid("pattern", "a pattern of " + std::to_string(pattern.size()) +
                                  " bytes is over the limit of " + std::to_string(kPatternBytesMax));
  Regex regex;
  regex.scanner_ = scanner_for(pattern);
  const std::string translated = translate_pattern(pattern);
  int problem = 0;
  PCRE2_SIZE offset = 0;
  regex.code_ = std::make_unique<Code>();
  regex.code_->code = pcre2_compile(reinterpret_cast<PCRE2_SPTR>(translated.data()), translated.size(),
                                    PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C,
                                    &problem, &offset, nullptr);
  if (regex.code_->code == nullptr) {
    PCRE2_UCHAR text[200] = {};
    pcre2_get_error_message(problem, text, sizeof text);
    return invalid("pattern", "pattern '" + std::string(pattern.substr(0, 80)) +
                                  "' does not compile: " + reinterpret_cast<const char*>(text));
  }
  pcre2_jit_compile(regex.code_->code, PCRE2_JIT_COMPLETE);  // where it fails, the interpreter serves
  return regex;
}

Result<Regex> Regex::literal(std::string_view text) {
  Regex regex;
  regex.literal_ = text;
  return regex;
}

namespace {

/// Appends all that `find_some(at, block)` finds.
template <class FindSome>
void append_all(std::string_view text, std::vector<ByteRange>& out, const FindSome& find_some) {
  std::array<ByteRange, 64> block;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t count = find_some(at, block);
    out.insert(out.end(), block.begin(), block.begin() + static_cast<std::ptrdiff_t>(count));
  }
}

}  // namespace

void Regex::find_all(std::string_view text, std::vector<ByteRange>& out) const {
  append_all(text, out,
             [&](std::size_t& at, std::span<ByteRange> block) { return find_some(text, at, block); });
}

void Regex::find_all_by_pcre2(std::string_view text, std::vector<ByteRange>& out) const {
  append_all(text, out,
             [&](std::size_t& at, std::span<ByteRange> block) { return find_by_pcre2(text, at, block); });
}

std::size_t Regex::find_some(std::string_view text, std::size_t& at, std::span<ByteRange> out) const {
  if (scanner_ != nullptr) return scanner_(text, at, out);
  return code_ == nullptr ? find_literal(text, at, out) : find_by_pcre2(text, at, out);
}

std::size_t Regex::find_literal(std::string_view text, std::size_t& at, std::span<ByteRange> out) const {
  std::size_t count = 0;
  while (at < text.size() && count < out.size()) {
    const std::size_t found = literal_.empty() ? std::string_view::npos : text.find(literal_, at);
    if (found == std::string_view::npos) {
      at = text.size();
      break;
    }
    at = found + literal_.size();
    out[count++] = {found, at};
  }
  return count;
}

std::size_t Regex::find_by_pcre2(std::string_view text, std::size_t& at, std::span<ByteRange> out) const {
  thread_local Workspace workspace;
  const auto* subject = reinterpret_cast<PCRE2_SPTR>(text.data());
  std::size_t count = 0;
  while (at < text.size() && count < out.size()) {
    int rc = pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK, workspace.data,
                         workspace.context);
    if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
      rc = pcre2_match(code_->code, subject, text.size(), at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT,
                       workspace.data, workspace.context);
    if (rc < 0) {
      at = text.size();
      break;
    }
    const PCRE2_SIZE* found = pcre2_get_ovector_pointer(workspace.data);
    if (found[1] <= found[0] || found[0] < at) {  // empty, or moved back by \K: go on one character later
      if (found[0] > at) at = found[0];
      if (at < text.size()) at += first_point(text.substr(at)).size;
      continue;
    }
    out[count++] = {found[0], found[1]};
    at = found[1];
  }
  return count;
}

}  // namespace met::text
