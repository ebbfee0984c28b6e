#include <algorithm>
#include <charconv>

#include "text/jinja/builtins.h"
#include "text/jinja/parser_base.h"

namespace met::text::jinja {

ExpressionParser::Nesting::Nesting(ExpressionParser& p) : parser(p) {
  if (++parser.depth_ > parser.depth_max_) {
    --parser.depth_;
    parser.error("the template nests deeper than " + std::to_string(parser.depth_max_) + " levels");
  }
}

void ExpressionParser::error(std::string message) const {
  throw Failure{FailureKind::kSyntax, std::move(message), current().at.line, current().at.column};
}

std::string ExpressionParser::describe(const Lexeme& t) {
  switch (t.type) {
    case Token::kVariableEnd:
      return "end of print statement";
    case Token::kBlockEnd:
      return "end of statement block";
    case Token::kEnd:
      return "end of template";
    default:
      return t.text;
  }
}

bool ExpressionParser::skip_operator(std::string_view text) {
  if (!is_operator(current(), text)) return false;
  next();
  return true;
}

bool ExpressionParser::skip_name(std::string_view text) {
  if (!is_name(current(), text)) return false;
  next();
  return true;
}

void ExpressionParser::expect_operator(std::string_view text) {
  if (!skip_operator(text))
    error("expected token '" + std::string(text) + "', got '" + describe(current()) + "'");
}

void ExpressionParser::expect_name(std::string_view text) {
  if (!skip_name(text))
    error("expected token '" + std::string(text) + "', got '" + describe(current()) + "'");
}

Lexeme ExpressionParser::expect(Token type, std::string_view what) {
  if (current().type != type)
    error("expected token '" + std::string(what) + "', got '" + describe(current()) + "'");
  return next();
}

int ExpressionParser::symbol(std::string_view name) {
  const auto [it, fresh] = symbols_.try_emplace(std::string(name), static_cast<int>(tree_.symbols.size()));
  if (fresh) {
    tree_.symbols.emplace_back(name);
    seen_.push_back(0);
  }
  return it->second;
}

int ExpressionParser::names_seen(std::string_view name) {
  return seen_[static_cast<std::size_t>(symbol(name))];
}

ExprPtr ExpressionParser::node(ExprKind kind) const {
  auto e = std::make_unique<Expr>();
  e->kind = kind;
  e->at = current().at;
  return e;
}

ExprPtr ExpressionParser::constant(Value value) const {
  ExprPtr e = node(ExprKind::kConstant);
  e->constant = std::move(value);
  return e;
}

ExprPtr ExpressionParser::binary(Operator op, ExprPtr left, ExprPtr right, Position at) const {
  auto e = std::make_unique<Expr>();
  e->kind = ExprKind::kBinary;
  e->at = at;
  e->op = op;
  hang(*e, std::move(left));
  e->items.push_back(std::move(right));
  return e;
}

void ExpressionParser::hang(Expr& parent, ExprPtr left) const {
  parent.depth = left == nullptr ? 1 : left->depth + 1;
  if (parent.depth > kChainMax)
    error("an expression chains more than " + std::to_string(kChainMax) + " operations");
  parent.left = std::move(left);
}

ExprPtr ExpressionParser::expression(bool with_condition) {
  const Nesting nesting(*this);
  return with_condition ? condition() : logic_or();
}

ExprPtr ExpressionParser::condition() {
  ExprPtr value = logic_or();
  while (is_name(current(), "if")) {
    ExprPtr e = node(ExprKind::kCondition);
    next();
    const Nesting nesting(*this);
    e->items.push_back(logic_or());
    hang(*e, std::move(value));
    e->items.push_back(skip_name("else") ? condition() : nullptr);
    value = std::move(e);
  }
  return value;
}

ExprPtr ExpressionParser::logic_or() {
  ExprPtr first = logic_and();
  if (!is_name(current(), "or")) return first;
  ExprPtr e = node(ExprKind::kOr);
  e->items.push_back(std::move(first));
  while (skip_name("or")) e->items.push_back(logic_and());
  return e;
}

ExprPtr ExpressionParser::logic_and() {
  ExprPtr first = logic_not();
  if (!is_name(current(), "and")) return first;
  ExprPtr e = node(ExprKind::kAnd);
  e->items.push_back(std::move(first));
  while (skip_name("and")) e->items.push_back(logic_not());
  return e;
}

ExprPtr ExpressionParser::logic_not() {
  if (!is_name(current(), "not")) return compare();
  const Nesting nesting(*this);
  ExprPtr e = node(ExprKind::kNot);
  next();
  e->left = logic_not();
  return e;
}

ExprPtr ExpressionParser::compare() {
  ExprPtr e = node(ExprKind::kCompare);
  e->left = sum();
  constexpr std::pair<std::string_view, Operator> kOperators[] = {
      {"==", Operator::kEq}, {"!=", Operator::kNe}, {"<", Operator::kLt},
      {"<=", Operator::kLe}, {">", Operator::kGt},  {">=", Operator::kGe},
  };
  while (true) {
    const auto* found =
        std::ranges::find_if(kOperators, [&](const auto& o) { return is_operator(current(), o.first); });
    if (found != std::end(kOperators)) {
      e->operators.push_back(found->second);
      next();
    } else if (is_name(current(), "in")) {
      e->operators.push_back(Operator::kIn);
      next();
    } else if (is_name(current(), "not") && is_name(ahead(), "in")) {
      e->operators.push_back(Operator::kNotIn);
      next();
      next();
    } else {
      break;
    }
    e->items.push_back(sum());
  }
  return e->operators.empty() ? std::move(e->left) : std::move(e);
}

ExprPtr ExpressionParser::sum() {
  ExprPtr left = concat();
  while (is_operator(current(), "+") || is_operator(current(), "-")) {
    const Lexeme op = next();
    left = binary(op.text == "+" ? Operator::kAdd : Operator::kSub, std::move(left), concat(), op.at);
  }
  return left;
}

ExprPtr ExpressionParser::concat() {
  ExprPtr first = product();
  if (!is_operator(current(), "~")) return first;
  ExprPtr e = node(ExprKind::kConcat);
  e->items.push_back(std::move(first));
  while (skip_operator("~")) e->items.push_back(product());
  return e;
}

ExprPtr ExpressionParser::product() {
  ExprPtr left = power();
  while (true) {
    Operator op{};
    if (is_operator(current(), "*"))
      op = Operator::kMul;
    else if (is_operator(current(), "/"))
      op = Operator::kDiv;
    else if (is_operator(current(), "//"))
      op = Operator::kFloorDiv;
    else if (is_operator(current(), "%"))
      op = Operator::kMod;
    else
      return left;
    const Position at = next().at;
    left = binary(op, std::move(left), power(), at);
  }
}

ExprPtr ExpressionParser::power() {
  ExprPtr left = unary();
  while (is_operator(current(), "**")) {
    const Position at = next().at;
    left = binary(Operator::kPow, std::move(left), unary(), at);
  }
  return left;
}

ExprPtr ExpressionParser::unary(bool with_filters) {
  const Nesting nesting(*this);
  ExprPtr e;
  if (is_operator(current(), "-") || is_operator(current(), "+")) {
    e = node(is_operator(current(), "-") ? ExprKind::kNegative : ExprKind::kPositive);
    next();
    e->left = unary(false);
  } else {
    e = primary();
  }
  e = postfix(std::move(e));
  return with_filters ? filters(std::move(e)) : std::move(e);
}

ExprPtr ExpressionParser::number() {
  const Lexeme token = next();
  if (token.type == Token::kFloat) {
    double value = 0;
    std::from_chars(token.text.data(), token.text.data() + token.text.size(), value);
    return constant(value);
  }
  std::string_view digits = token.text;
  int base = 10;
  if (digits.size() > 1 && digits[0] == '0' && (digits[1] | 0x20) > '9') {
    base = (digits[1] | 0x20) == 'x' ? 16 : (digits[1] | 0x20) == 'o' ? 8 : 2;
    digits.remove_prefix(2);
  }
  Int value = 0;
  for (const char c : digits) {
    const int digit = c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10;
    if (digit >= base || __builtin_mul_overflow(value, Int{base}, &value) ||
        __builtin_add_overflow(value, Int{digit}, &value))
      error("the integer '" + token.text + "' is too large or malformed");
  }
  return constant(value);
}

ExprPtr ExpressionParser::primary() {
  const Lexeme& t = current();
  switch (t.type) {
    case Token::kName: {
      ExprPtr e = node(ExprKind::kName);
      const std::string name = next().text;
      if (name == "true" || name == "True") e->constant = true;
      if (name == "false" || name == "False") e->constant = false;
      if (name == "none" || name == "None") e->constant = Value::none();
      if (!e->constant.is_undefined()) {
        e->kind = ExprKind::kConstant;
        return e;
      }
      e->symbol = symbol(name);
      ++seen_[static_cast<std::size_t>(e->symbol)];
      e->name = name;
      return e;
    }
    case Token::kString: {
      ExprPtr e = node(ExprKind::kConstant);
      std::string text;
      while (current().type == Token::kString) text += next().text;
      e->constant = Heap(nullptr).string(std::move(text));
      return e;
    }
    case Token::kInteger:
    case Token::kFloat:
      return number();
    case Token::kOperator:
      if (t.text == "(") {
        next();
        ExprPtr e = tuple(false, true, {}, true);
        expect_operator(")");
        return e;
      }
      if (t.text == "[") return list();
      if (t.text == "{") return dict();
      [[fallthrough]];
    default:
      error("unexpected '" + describe(t) + "'");
  }
}

bool ExpressionParser::ends_tuple(std::initializer_list<std::string_view> end_names) const {
  const Lexeme& t = current();
  return t.type == Token::kVariableEnd || t.type == Token::kBlockEnd || is_operator(t, ")") ||
         std::ranges::any_of(end_names, [&](std::string_view n) { return is_name(t, n); });
}

ExprPtr ExpressionParser::tuple(bool simple, bool with_condition,
                                std::initializer_list<std::string_view> end_names, bool parentheses) {
  const Nesting nesting(*this);
  ExprPtr e = node(ExprKind::kTuple);
  bool is_tuple = false;
  while (true) {
    if (!e->items.empty()) expect_operator(",");
    if (ends_tuple(end_names)) break;
    e->items.push_back(simple ? primary() : expression(with_condition));
    if (!is_operator(current(), ",")) break;
    is_tuple = true;
  }
  if (is_tuple) return e;
  if (!e->items.empty()) return std::move(e->items[0]);
  if (!parentheses) error("Expected an expression, got '" + describe(current()) + "'");
  return e;
}

ExprPtr ExpressionParser::list() {
  ExprPtr e = node(ExprKind::kList);
  expect_operator("[");
  while (!is_operator(current(), "]")) {
    if (!e->items.empty()) expect_operator(",");
    if (is_operator(current(), "]")) break;
    e->items.push_back(expression());
  }
  expect_operator("]");
  return e;
}

ExprPtr ExpressionParser::dict() {
  ExprPtr e = node(ExprKind::kDict);
  expect_operator("{");
  while (!is_operator(current(), "}")) {
    if (!e->items.empty()) expect_operator(",");
    if (is_operator(current(), "}")) break;
    e->items.push_back(expression());
    expect_operator(":");
    e->items.push_back(expression());
  }
  expect_operator("}");
  return e;
}

ExprPtr ExpressionParser::postfix(ExprPtr left) {
  while (true) {
    if (is_operator(current(), ".") || is_operator(current(), "["))
      left = subscript(std::move(left));
    else if (is_operator(current(), "("))
      left = call(std::move(left));
    else
      return left;
  }
}

ExprPtr ExpressionParser::filters(ExprPtr left, bool first_is_filter) {
  while (true) {
    if (first_is_filter || is_operator(current(), "|")) {
      if (!first_is_filter) next();
      first_is_filter = false;
      left = filter(std::move(left));
    } else if (is_name(current(), "is")) {
      left = test(std::move(left));
    } else if (is_operator(current(), "(")) {
      left = call(std::move(left));
    } else {
      return left;
    }
  }
}

ExprPtr ExpressionParser::subscript(ExprPtr left) {
  ExprPtr e = node(ExprKind::kItem);
  if (skip_operator(".")) {
    if (current().type == Token::kName) {
      e->kind = ExprKind::kAttribute;
      e->name = next().text;
    } else if (current().type == Token::kInteger) {
      e->items.push_back(number());
    } else {
      error("expected name or number");
    }
    hang(*e, std::move(left));
    return e;
  }
  expect_operator("[");
  ExprPtr index = subscribed();
  if (is_operator(current(), ",")) {
    ExprPtr many = node(ExprKind::kTuple);
    many->items.push_back(std::move(index));
    while (skip_operator(",")) many->items.push_back(subscribed());
    index = std::move(many);
  }
  expect_operator("]");
  hang(*e, std::move(left));
  e->items.push_back(std::move(index));
  return e;
}

ExprPtr ExpressionParser::subscribed() {
  ExprPtr slice = node(ExprKind::kSlice);
  ExprPtr first;
  if (!is_operator(current(), ":")) {
    first = expression();
    if (!is_operator(current(), ":")) return first;
  }
  slice->items.push_back(std::move(first));
  const auto part = [&]() -> ExprPtr {
    if (is_operator(current(), "]") || is_operator(current(), ",") || is_operator(current(), ":"))
      return nullptr;
    return expression();
  };
  expect_operator(":");
  slice->items.push_back(part());
  slice->items.push_back(skip_operator(":") ? part() : nullptr);
  return slice;
}

ExprPtr ExpressionParser::call(ExprPtr callee) {
  ExprPtr e = node(ExprKind::kCall);
  arguments(*e);
  hang(*e, std::move(callee));
  return e;
}

void ExpressionParser::arguments(Expr& into) {
  expect_operator("(");
  for (bool first = true; !is_operator(current(), ")"); first = false) {
    if (!first) {
      expect_operator(",");
      if (is_operator(current(), ")")) break;
    }
    if (skip_operator("*")) {
      if (into.star != nullptr || into.star_star != nullptr)
        error("invalid syntax for function call expression");
      into.star = expression();
    } else if (skip_operator("**")) {
      if (into.star_star != nullptr) error("invalid syntax for function call expression");
      into.star_star = expression();
    } else if (current().type == Token::kName && is_operator(ahead(), "=")) {
      if (into.star_star != nullptr) error("invalid syntax for function call expression");
      std::string name = next().text;
      next();
      into.named.emplace_back(std::move(name), expression());
    } else {
      if (into.star != nullptr || into.star_star != nullptr || !into.named.empty())
        error("invalid syntax for function call expression");
      into.items.push_back(expression());
    }
  }
  expect_operator(")");
}

ExprPtr ExpressionParser::filter(ExprPtr left) {
  ExprPtr e = node(ExprKind::kFilter);
  e->name = expect(Token::kName, "name").text;
  while (skip_operator(".")) e->name += "." + expect(Token::kName, "name").text;
  e->native = find_filter(e->name);
  if (e->native == nullptr) tree_.unknown.push_back({"filter '" + e->name + "'", e->at});
  if (is_operator(current(), "(")) arguments(*e);
  hang(*e, std::move(left));
  return e;
}

ExprPtr ExpressionParser::test(ExprPtr left) {
  next();  // is
  const bool negated = skip_name("not");
  ExprPtr e = node(ExprKind::kTest);
  e->name = expect(Token::kName, "name").text;
  while (skip_operator(".")) e->name += "." + expect(Token::kName, "name").text;
  e->native = find_test(e->name);
  if (e->native == nullptr) tree_.unknown.push_back({"test '" + e->name + "'", e->at});
  hang(*e, std::move(left));
  const Lexeme& t = current();
  const bool literal = t.type == Token::kString || t.type == Token::kInteger || t.type == Token::kFloat;
  const bool name = t.type == Token::kName && t.text != "else" && t.text != "or" && t.text != "and";
  if (is_operator(t, "(")) {
    arguments(*e);
  } else if (literal || name || is_operator(t, "[") || is_operator(t, "{")) {
    if (is_name(t, "is")) error("You cannot chain multiple tests with is");
    e->items.push_back(postfix(primary()));
  }
  if (!negated) return e;
  ExprPtr inverted = node(ExprKind::kNot);
  inverted->left = std::move(e);
  return inverted;
}

}  // namespace met::text::jinja
