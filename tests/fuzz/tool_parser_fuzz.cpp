// Output of any kind through every parser of tool calls: no crash, the same parts however it is cut, and calls
// that begin, go on and end in this order. The first byte chooses the format, the second the cut.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "text/machine/answer_parser.h"

namespace {

using met::text::Piece;

struct Parts {
  std::string text;  // kinds as letters, with their texts
  Piece::Kind last = Piece::Kind::kCallEnd;
  int calls = 0;
  bool in_call = false;
};

void add(const std::vector<Piece>& pieces, Parts& out) {
  for (const Piece& piece : pieces) {
    const bool inside = piece.kind == Piece::Kind::kCallArguments || piece.kind == Piece::Kind::kCallEnd;
    if (inside != out.in_call) std::abort();
    if (piece.kind == Piece::Kind::kCallBegin && (piece.text.empty() || piece.call != out.calls++))
      std::abort();
    if (piece.kind == Piece::Kind::kCallBegin) out.in_call = true;
    if (piece.kind == Piece::Kind::kCallEnd) out.in_call = false;
    const bool joins = piece.kind == out.last && piece.kind != Piece::Kind::kCallBegin;
    if (!joins) out.text += static_cast<char>('0' + static_cast<int>(piece.kind));
    if (piece.kind == Piece::Kind::kCallEnd) out.text += piece.complete ? 'y' : 'n';
    out.text += piece.text;
    out.last = piece.kind;
  }
}

std::string parse(const met::text::AnswerFormat& format, std::string_view text, std::size_t step, bool cut) {
  met::text::AnswerParser parser(format);
  Parts out;
  for (std::size_t at = 0; at < text.size(); at += step) {
    parser.text(text.substr(at, step));
    add(parser.take(), out);
  }
  parser.finish(cut);
  add(parser.take(), out);
  if (out.in_call) std::abort();
  return out.text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  static const auto kTools = [] {
    const auto schema = met::json::parse(
        R"({"type":"object","properties":{"s":{"type":"string"},"i":{"type":"integer"},"n":{"type":["string","null"]},
        "o":{"$ref":"#/$defs/o"}},"$defs":{"o":{"anyOf":[{"type":"object"},{"type":"array"},{"type":"boolean"}]}}})");
    return std::make_shared<const met::text::ToolSet>(
        std::vector<met::text::Tool>{{.name = "run", .parameters = *schema}, {.name = "now"}});
  }();
  using met::text::ReasoningFormat;
  met::text::AnswerFormat format;
  format.tool_format = static_cast<met::text::ToolFormat>(data[0] % 14);
  const int start = data[0] / 14 % 4;
  format.reasoning = format.tool_format == met::text::ToolFormat::kHarmony  ? ReasoningFormat::kHarmony
                     : start == 3                                           ? ReasoningFormat::kNone
                     : format.tool_format == met::text::ToolFormat::kGemma4 ? ReasoningFormat::kGemma4
                                                                            : ReasoningFormat::kThink;
  format.start = static_cast<met::text::ReasoningStart>(start % 3);
  format.tools = kTools;
  const bool cut = (data[1] & 1U) != 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::string whole = parse(format, text, size, cut);
  if (parse(format, text, 1, cut) != whole) std::abort();
  if (parse(format, text, 1 + data[1] / 2 % 16, cut) != whole) std::abort();
  return 0;
}
