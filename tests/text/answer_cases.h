// Answers parsed whole and at every cut, and the conventions by which the corpora compare them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"
#include "text/machine/answer_parser.h"

namespace met::testing {

struct ParsedCall {
  std::string name;
  std::string arguments;
  bool complete = false;
  friend bool operator==(const ParsedCall&, const ParsedCall&) = default;
};

struct Parsed {
  std::string content;
  std::string reasoning;
  std::vector<ParsedCall> calls;
  bool in_call = false;
  friend bool operator==(const Parsed&, const Parsed&) = default;
};

/// Adds pieces; fails the test where their order breaks the contract of text::Piece.
void collect(const std::vector<text::Piece>& pieces, Parsed& out);

/// `texts` are given one after the other.
Parsed parse(const text::AnswerFormat& format, const std::vector<std::string>& texts, bool cut);

/// As text, but what stands between "⟨special:" and "⟩", or with `all_markers` every marker of the reasoning
/// format, comes as a token.
Parsed parse_tokens(const text::AnswerFormat& format, std::string_view text, bool all_markers, bool cut);

/// The whole text; byte by byte; in two at every byte. Expects the same of all.
Parsed parse_at_every_cut(const text::AnswerFormat& format, std::string_view text, bool cut);

std::shared_ptr<const text::ToolSet> tool_set(const json::Value& tools);

/// What is wrong with `parsed` as an answer to a corpus record, or "".
std::string difference(const json::Value& expect, const Parsed& parsed);

}  // namespace met::testing
