#include "text/jinja/parser.h"

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/parser_base.h"

namespace met::text::jinja {

namespace {

class Parser : ExpressionParser {
 public:
  Parser(std::string_view source, const Limits& limits) : ExpressionParser(source, limits) {
    for (const std::string_view name : global_names()) symbol(name);
  }

  Tree run() {
    tree_.body = body({});
    if (current().type != Token::kEnd) error("unexpected '" + describe(current()) + "'");
    return std::move(tree_);
  }

 private:
  using Names = std::initializer_list<std::string_view>;

  StmtPtr statement_node(StmtKind kind) const {
    auto s = std::make_unique<Stmt>();
    s->kind = kind;
    s->at = current().at;
    return s;
  }

  /// Statements up to a tag whose name is in `ends`; that name is the current token then.
  Body body(Names ends) {
    const Nesting nesting(*this);
    Body out;
    while (current().type != Token::kEnd) {
      if (current().type == Token::kData) {
        StmtPtr s = statement_node(StmtKind::kText);
        s->text = Heap(nullptr).string(next().text);
        out.push_back(std::move(s));
      } else if (current().type == Token::kVariableBegin) {
        next();
        StmtPtr s = statement_node(StmtKind::kOutput);
        s->outputs.push_back(tuple(false, true));
        expect(Token::kVariableEnd, "end of print statement");
        out.push_back(std::move(s));
      } else {
        expect(Token::kBlockBegin, "begin of statement block");
        if (std::ranges::any_of(ends, [&](std::string_view e) { return is_name(current(), e); })) return out;
        out.push_back(statement());
        expect(Token::kBlockEnd, "end of statement block");
      }
    }
    if (ends.size() != 0)
      error("Unexpected end of template. Jinja was looking for the tag '" + std::string(*ends.begin()) + "'");
    return out;
  }

  /// The body of a tag: after its `%}` and up to its end tag, whose name it eats.
  Body block(std::string_view end) {
    expect(Token::kBlockEnd, "end of statement block");
    Body out = body({end});
    next();
    return out;
  }

  StmtPtr statement() {
    if (current().type != Token::kName) error("tag name expected");
    const std::string& tag = current().text;
    if (tag == "if") return parse_if();
    if (tag == "for") return parse_for();
    if (tag == "set") return parse_set();
    if (tag == "macro") return parse_macro();
    if (tag == "call") return parse_call();
    if (tag == "filter") return parse_filter();
    if (tag == "with") return parse_with();
    if (tag == "print") return parse_print();
    if (tag == "generation" || tag == "block" || tag == "autoescape") return parse_scope();
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) error("'" + tag + "' outside loop");
      StmtPtr s = statement_node(tag == "break" ? StmtKind::kBreak : StmtKind::kContinue);
      next();
      return s;
    }
    if (tag == "include" || tag == "import" || tag == "from" || tag == "extends") {
      StmtPtr s = statement_node(StmtKind::kNoLoader);
      while (current().type != Token::kBlockEnd && current().type != Token::kEnd) next();
      return s;
    }
    error("Encountered unknown tag '" + tag + "'.");
  }

  StmtPtr parse_if() {
    StmtPtr s = statement_node(StmtKind::kIf);
    next();
    while (true) {
      ExprPtr condition = tuple(false, false);
      expect(Token::kBlockEnd, "end of statement block");
      s->branches.emplace_back(std::move(condition), body({"elif", "else", "endif"}));
      if (!skip_name("elif")) break;
    }
    if (skip_name("else")) {
      expect(Token::kBlockEnd, "end of statement block");
      s->other = body({"endif"});
    }
    expect_name("endif");
    return s;
  }

  StmtPtr parse_for() {
    StmtPtr s = statement_node(StmtKind::kFor);
    next();
    s->target = target(false, {"in"});
    expect_name("in");
    s->value = tuple(false, false, {"recursive"});
    if (skip_name("if")) s->condition = expression();
    s->recursive = skip_name("recursive");
    s->symbol = symbol("loop");
    expect(Token::kBlockEnd, "end of statement block");
    ++loops_;
    s->body = body({"endfor", "else"});
    --loops_;
    if (skip_name("else")) {
      expect(Token::kBlockEnd, "end of statement block");
      s->other = body({"endfor"});
    }
    expect_name("endfor");
    return s;
  }

  /// What a value is assigned to: a name, a tuple of them, or (for set) an attribute of a namespace.
  ExprPtr target(bool with_attribute, Names ends = {}) {
    if (with_attribute && current().type == Token::kName && is_operator(ahead(), ".")) {
      ExprPtr e = node(ExprKind::kAttribute);
      e->left = name();
      next();
      e->name = expect(Token::kName, "name").text;
      return e;
    }
    ExprPtr e = tuple(true, false, ends, true);
    check_target(*e);
    return e;
  }

  void check_target(const Expr& e) const {
    if (e.kind == ExprKind::kTuple) {
      for (const ExprPtr& item : e.items) check_target(*item);
      if (!e.items.empty()) return;
    }
    if (e.kind != ExprKind::kName) error("can't assign to this expression");
  }

  ExprPtr name() {
    ExprPtr e = node(ExprKind::kName);
    e->name = expect(Token::kName, "name").text;
    e->symbol = symbol(e->name);
    return e;
  }

  StmtPtr parse_set() {
    StmtPtr s = statement_node(StmtKind::kSet);
    next();
    s->target = target(true);
    if (skip_operator("=")) {
      s->value = tuple(false, true);
      return s;
    }
    s->kind = StmtKind::kSetBlock;
    if (is_operator(current(), "|")) s->value = filters(nullptr);
    s->body = scoped_block("endset");
    return s;
  }

  /// A block whose body cannot break out of an enclosing loop.
  Body scoped_block(std::string_view end) {
    const int saved = std::exchange(loops_, 0);
    Body out = block(end);
    loops_ = saved;
    return out;
  }

  void signature(Parameters& parameters) {
    expect_operator("(");
    while (!is_operator(current(), ")")) {
      if (!parameters.names.empty()) expect_operator(",");
      if (is_operator(current(), ")")) break;
      const std::string parameter = expect(Token::kName, "name").text;
      parameters.names.push_back(parameter);
      parameters.symbols.push_back(symbol(parameter));
      if (skip_operator("="))
        parameters.defaults.push_back(expression());
      else if (!parameters.defaults.empty())
        error("non-default argument follows default argument");
    }
    expect_operator(")");
  }

  /// Parses the body of a macro and notes whether it reads varargs, kwargs and caller.
  void macro_body(Stmt& s, std::string_view end) {
    const int varargs = names_seen("varargs");
    const int kwargs = names_seen("kwargs");
    const int caller = names_seen("caller");
    s.body = scoped_block(end);
    s.parameters.uses_varargs = names_seen("varargs") != varargs;
    s.parameters.uses_kwargs = names_seen("kwargs") != kwargs;
    s.parameters.uses_caller = names_seen("caller") != caller;
  }

  StmtPtr parse_macro() {
    StmtPtr s = statement_node(StmtKind::kMacro);
    next();
    s->name = expect(Token::kName, "name").text;
    s->symbol = symbol(s->name);
    signature(s->parameters);
    macro_body(*s, "endmacro");
    return s;
  }

  StmtPtr parse_call() {
    StmtPtr s = statement_node(StmtKind::kCallBlock);
    next();
    if (is_operator(current(), "(")) signature(s->parameters);
    s->value = expression();
    if (s->value->kind != ExprKind::kCall) error("expected call");
    macro_body(*s, "endcall");
    return s;
  }

  StmtPtr parse_filter() {
    StmtPtr s = statement_node(StmtKind::kFilterBlock);
    next();
    s->value = filters(nullptr, true);
    s->body = scoped_block("endfilter");
    return s;
  }

  StmtPtr parse_with() {
    StmtPtr s = statement_node(StmtKind::kWith);
    next();
    while (current().type != Token::kBlockEnd) {
      if (!s->assignments.empty()) expect_operator(",");
      ExprPtr to = target(false);
      expect_operator("=");
      s->assignments.emplace_back(std::move(to), expression());
    }
    s->body = block("endwith");
    return s;
  }

  StmtPtr parse_print() {
    StmtPtr s = statement_node(StmtKind::kOutput);
    next();
    while (current().type != Token::kBlockEnd) {
      if (!s->outputs.empty()) expect_operator(",");
      s->outputs.push_back(expression());
    }
    return s;
  }

  StmtPtr parse_scope() {
    StmtPtr s = statement_node(StmtKind::kScope);
    const std::string tag = next().text;
    if (tag == "block") expect(Token::kName, "name");
    if (tag == "block") {
      while (skip_name("scoped") || skip_name("required")) continue;
    }
    if (tag == "autoescape") expression();
    s->body = scoped_block("end" + tag);
    if (tag == "block" && current().type == Token::kName) next();
    return s;
  }

  int loops_ = 0;
};

}  // namespace

Tree parse(std::string_view source, const Limits& limits) {
  if (source.size() > limits.source_bytes_max)
    raise(FailureKind::kLimit, "the template has " + std::to_string(source.size()) + " bytes, the limit is " +
                                   std::to_string(limits.source_bytes_max));
  return Parser(source, limits).run();
}

}  // namespace met::text::jinja
