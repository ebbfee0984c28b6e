// The token cursor and the expression half of the parser; parser.cpp holds the statements.
#pragma once

#include <initializer_list>
#include <unordered_map>

#include "text/jinja/lexer.h"
#include "text/jinja/parser.h"

namespace met::text::jinja {

class ExpressionParser {
 protected:
  ExpressionParser(std::string_view source, const Limits& limits)
      : tokens_(tokenize(source)), depth_max_(limits.depth_max) {}

  const Lexeme& current() const { return tokens_[at_]; }
  const Lexeme& ahead() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  Lexeme next() {
    const Lexeme& token = tokens_[at_];
    if (at_ + 1 < tokens_.size()) ++at_;
    return token;
  }
  static bool is_operator(const Lexeme& t, std::string_view text) {
    return t.type == Token::kOperator && t.text == text;
  }
  static bool is_name(const Lexeme& t, std::string_view text) {
    return t.type == Token::kName && t.text == text;
  }
  bool skip_operator(std::string_view text);
  bool skip_name(std::string_view text);
  void expect_operator(std::string_view text);
  void expect_name(std::string_view text);
  Lexeme expect(Token type, std::string_view what);
  [[noreturn]] void error(std::string message) const;
  static std::string describe(const Lexeme& token);

  int symbol(std::string_view name);
  /// How often a name was read so far.
  int names_seen(std::string_view name);
  ExprPtr node(ExprKind kind) const;
  ExprPtr constant(Value value) const;

  ExprPtr expression(bool with_condition = true);
  /// One expression, or a tuple without parentheses. `end_names`: names that end it.
  ExprPtr tuple(bool simple, bool with_condition, std::initializer_list<std::string_view> end_names = {},
                bool parentheses = false);
  ExprPtr primary();
  ExprPtr postfix(ExprPtr left);
  /// Filters, tests and calls after an operand. `left` null: the body of a filter block.
  ExprPtr filters(ExprPtr left, bool first_is_filter = false);
  ExprPtr call(ExprPtr callee);
  ExprPtr unary(bool with_filters = true);

  Tree tree_;
  struct Nesting {
    explicit Nesting(ExpressionParser& parser);
    ~Nesting() { --parser.depth_; }
    ExpressionParser& parser;
  };
  int depth_ = 0;

 private:
  ExprPtr condition();
  ExprPtr logic_or();
  ExprPtr logic_and();
  ExprPtr logic_not();
  ExprPtr compare();
  ExprPtr sum();
  ExprPtr concat();
  ExprPtr product();
  ExprPtr power();
  ExprPtr list();
  ExprPtr dict();
  ExprPtr number();
  ExprPtr subscript(ExprPtr left);
  ExprPtr subscribed();
  ExprPtr test(ExprPtr left);
  ExprPtr filter(ExprPtr left);
  void arguments(Expr& into);
  bool ends_tuple(std::initializer_list<std::string_view> end_names) const;
  /// Left-deep chains recurse when they are evaluated and destroyed, so their length is bounded like nesting.
  static constexpr int kChainMax = 500;
  ExprPtr binary(Operator op, ExprPtr left, ExprPtr right, Position at) const;
  void hang(Expr& parent, ExprPtr left) const;

  std::vector<Lexeme> tokens_;
  std::size_t at_ = 0;
  int depth_max_;
  std::unordered_map<std::string, int> symbols_;
  std::vector<int> seen_;  // by symbol
};

}  // namespace met::text::jinja
