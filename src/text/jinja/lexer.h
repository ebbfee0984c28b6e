// Template source to tokens, with Jinja's white space control (trim_blocks and lstrip_blocks on).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "text/jinja/ast.h"

namespace met::text::jinja {

enum class Token : std::uint8_t {
  kData,
  kVariableBegin,
  kVariableEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,
  kInteger,
  kFloat,
  kOperator,
  kEnd,
};

struct Lexeme {
  Token type = Token::kEnd;
  std::string text;  ///< data, name, decoded string, digits or operator
  Position at;
};

/// Throws Failure(kSyntax).
std::vector<Lexeme> tokenize(std::string_view source);

}  // namespace met::text::jinja
