// Statements, scopes and macros; evaluate.cpp holds the expressions.
#include "text/jinja/interpreter.h"

#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/callables.h"

namespace met::text::jinja {

Interpreter::Interpreter(const Tree& tree, const Limits& limits, const std::tm& now)
    : tree_(tree),
      budget_(limits),
      now_(now),
      globals_(tree.symbols.size()),
      global_set_(tree.symbols.size()) {
  for (const std::string_view name : global_names()) set_global(name, make_global(*this, name));
}

Interpreter::~Interpreter() {
  for (const auto& scope : captured_) scope->variables.clear();
  for (const auto& ns : namespaces_) ns->attributes.clear();
}

void Interpreter::set_global(std::string_view name, Value value) {
  const auto found = std::ranges::find(tree_.symbols, name);
  if (found == tree_.symbols.end()) return;
  const auto symbol = static_cast<std::size_t>(found - tree_.symbols.begin());
  globals_[symbol] = std::move(value);
  global_set_[symbol] = true;
}

void Interpreter::run(StrBuilder& out) {
  out_ = &out;
  output_is_root_ = true;
  scope_ = std::make_shared<Scope>();
  try {
    execute(tree_.body);
  } catch (Failure& failure) {
    if (failure.line == 0) {
      failure.line = at_.line;
      failure.column = at_.column;
    }
    throw;
  }
}

Value Interpreter::make_namespace(std::vector<std::pair<std::string, Value>> attributes) {
  auto ns = std::make_shared<Namespace>();
  heap_.adopt(*ns, sizeof(Namespace) + attributes.capacity() * (sizeof(Value) + sizeof(std::string)));
  ns->attributes = std::move(attributes);
  namespaces_.push_back(ns);
  return {Kind::kNamespace, std::move(ns)};
}

std::shared_ptr<Scope> Interpreter::push_scope() {
  auto scope = std::make_shared<Scope>();
  scope->parent = scope_;
  return std::exchange(scope_, std::move(scope));
}

Interpreter::Flow Interpreter::execute(const Body& body) {
  const Budget::Depth depth(budget_);
  for (const StmtPtr& s : body) {
    const Flow flow = execute(*s);
    if (flow != Flow::kNormal) return flow;
  }
  return Flow::kNormal;
}

Interpreter::Flow Interpreter::execute(const Stmt& s) {
  budget_.step();
  at_ = s.at;
  switch (s.kind) {
    case StmtKind::kText:
      out_->append(s.text.str());
      break;
    case StmtKind::kOutput:
      for (const ExprPtr& e : s.outputs) append_string(*out_, evaluate(*e));
      break;
    case StmtKind::kIf:
      for (const auto& [condition, body] : s.branches)
        if (truthy(evaluate(*condition))) return execute(body);
      return execute(s.other);
    case StmtKind::kFor:
      return execute_for(s, evaluate(*s.value), 0);
    case StmtKind::kSet:
      assign(*s.target, evaluate(*s.value));
      break;
    case StmtKind::kSetBlock: {
      Value text = capture(s.body);
      assign(*s.target, s.value == nullptr ? std::move(text) : evaluate_filter(*s.value, &text));
      break;
    }
    case StmtKind::kMacro: {
      auto macro = std::make_shared<Macro>();
      heap_.adopt(*macro, sizeof(Macro) + sizeof(Scope) + 8 * sizeof(Value));
      macro->definition = &s;
      macro->scope = scope_;
      macro->name = s.name;
      if (captured_.empty() || captured_.back() != scope_) captured_.push_back(scope_);
      define(s.symbol, {Kind::kCallable, std::move(macro)});
      break;
    }
    case StmtKind::kCallBlock:
      execute_call(s);
      break;
    case StmtKind::kFilterBlock: {
      const Value text = capture(s.body);
      append_string(*out_, evaluate_filter(*s.value, &text));
      break;
    }
    case StmtKind::kWith:
      execute_with(s);
      break;
    case StmtKind::kScope: {
      auto saved = push_scope();
      execute(s.body);
      scope_ = std::move(saved);
      break;
    }
    case StmtKind::kBreak:
      return Flow::kBreak;
    case StmtKind::kContinue:
      return Flow::kContinue;
    case StmtKind::kNoLoader:
      type_error("no loader for this environment specified");
  }
  if (output_is_root_ && out_->size() > budget_.limits().output_bytes_max)
    raise(FailureKind::kLimit,
          "the template writes more than " + std::to_string(budget_.limits().output_bytes_max) + " bytes");
  return Flow::kNormal;
}

Value Interpreter::capture(const Body& body) {
  StrBuilder text(heap_);
  StrBuilder* const saved_out = std::exchange(out_, &text);
  const bool saved_root = std::exchange(output_is_root_, false);
  auto saved = push_scope();
  execute(body);
  scope_ = std::move(saved);
  out_ = saved_out;
  output_is_root_ = saved_root;
  return text.take();
}

void Interpreter::execute_with(const Stmt& s) {
  std::vector<Value> values;  // all read the outer scope
  for (const auto& [to, from] : s.assignments) values.push_back(evaluate(*from));
  auto saved = push_scope();
  for (std::size_t i = 0; i < values.size(); ++i) assign(*s.assignments[i].first, std::move(values[i]));
  execute(s.body);
  scope_ = std::move(saved);
}

Interpreter::Flow Interpreter::execute_for(const Stmt& s, const Value& over, int level) {
  std::vector<Value> items = iterate(heap_, over);
  if (s.condition != nullptr) {
    std::vector<Value> kept;
    auto saved = push_scope();
    for (Value& item : items) {
      budget_.step();
      scope_->variables.clear();
      assign(*s.target, item);
      if (truthy(evaluate(*s.condition))) kept.push_back(std::move(item));
    }
    scope_ = std::move(saved);
    items = std::move(kept);
  }
  if (!items.empty()) return loop_body(s, std::move(items), level);
  auto saved = push_scope();
  const Flow flow = execute(s.other);
  scope_ = std::move(saved);
  return flow;
}

Interpreter::Flow Interpreter::loop_body(const Stmt& s, std::vector<Value> items, int level) {
  auto loop = std::make_shared<Loop>();
  heap_.adopt(*loop, sizeof(Loop) + items.capacity() * sizeof(Value));
  loop->items = std::move(items);
  loop->level = level;
  loop->statement = &s;
  loop->scope = scope_;
  const Value loop_value(Kind::kCallable, loop);
  const std::shared_ptr<Scope> outer = scope_;
  for (; loop->index < loop->items.size(); ++loop->index) {
    budget_.step();
    if (scope_ == outer || scope_.use_count() > 1) {
      scope_ = std::make_shared<Scope>();
      scope_->parent = outer;
    } else {
      scope_->variables.clear();
    }
    define(s.symbol, loop_value);
    assign(*s.target, loop->items[loop->index]);
    if (execute(s.body) == Flow::kBreak) break;
  }
  scope_ = outer;
  return Flow::kNormal;
}

Value Interpreter::render_loop(const Stmt& s, const std::shared_ptr<Scope>& scope, const Value& over,
                               int level) {
  StrBuilder text(heap_);
  StrBuilder* const saved_out = std::exchange(out_, &text);
  const bool saved_root = std::exchange(output_is_root_, false);
  auto saved = std::exchange(scope_, scope);
  execute_for(s, over, level);
  scope_ = std::move(saved);
  out_ = saved_out;
  output_is_root_ = saved_root;
  return text.take();
}

void Interpreter::execute_call(const Stmt& s) {
  auto caller = std::make_shared<Macro>();
  heap_.adopt(*caller, sizeof(Macro));
  caller->definition = &s;
  caller->scope = scope_;
  caller->name = "caller";
  const Value callee = evaluate(*s.value->left);
  Arguments arguments;
  collect(*s.value, arguments);
  arguments.named.emplace_back("caller", Value(Kind::kCallable, std::move(caller)));
  at_ = s.at;
  append_string(*out_, call(callee, arguments));
}

Value Interpreter::render_macro(const Stmt& s, const std::shared_ptr<Scope>& scope, Arguments& arguments,
                                std::string_view name) {
  const Budget::Depth depth(budget_);
  const Parameters& p = s.parameters;
  const std::string quoted = "macro '" + std::string(name) + "'";
  auto inner = std::make_shared<Scope>();
  inner->parent = scope;
  std::vector<std::optional<Value>> given(p.names.size());
  std::vector<Value> rest;
  std::vector<std::pair<Value, Value>> extra;
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) {
    if (i < given.size())
      given[i] = std::move(arguments.positional[i]);
    else
      rest.push_back(std::move(arguments.positional[i]));
  }
  std::optional<Value> caller;
  for (auto& [key, value] : arguments.named) {
    const auto found = std::ranges::find(p.names, key);
    if (found != p.names.end()) {
      auto& slot = given[static_cast<std::size_t>(found - p.names.begin())];
      if (slot) type_error(quoted + " got multiple values for argument '" + key + "'");
      slot = std::move(value);
    } else if (key == "caller" && p.uses_caller) {
      caller = std::move(value);
    } else if (p.uses_kwargs) {
      extra.emplace_back(heap_.string(key), std::move(value));
    } else {
      type_error(quoted + " takes no keyword argument '" + key + "'");
    }
  }
  if (!rest.empty() && !p.uses_varargs)
    type_error(quoted + " takes not more than " + std::to_string(p.names.size()) + " argument(s)");

  auto saved = std::exchange(scope_, std::move(inner));
  const auto special = [&](std::string_view what, Value v) {
    define(static_cast<int>(std::ranges::find(tree_.symbols, what) - tree_.symbols.begin()), std::move(v));
  };
  if (p.uses_varargs) special("varargs", heap_.tuple(std::move(rest)));
  if (p.uses_kwargs) special("kwargs", heap_.dict(std::move(extra)));
  if (p.uses_caller) special("caller", caller ? *caller : heap_.undefined("No caller defined"));
  const std::size_t first_default = p.names.size() - p.defaults.size();
  for (std::size_t i = 0; i < p.names.size(); ++i) {
    if (given[i])
      define(p.symbols[i], std::move(*given[i]));
    else if (i >= first_default)
      define(p.symbols[i], evaluate(*p.defaults[i - first_default]));
    else
      define(p.symbols[i], heap_.undefined("parameter '" + p.names[i] + "' was not provided"));
  }
  StrBuilder text(heap_);
  StrBuilder* const saved_out = std::exchange(out_, &text);
  const bool saved_root = std::exchange(output_is_root_, false);
  execute(s.body);
  scope_ = std::move(saved);
  out_ = saved_out;
  output_is_root_ = saved_root;
  return text.take();
}

void Interpreter::define(int symbol, Value value) {
  for (auto& [known, v] : scope_->variables) {
    if (known != symbol) continue;
    v = std::move(value);
    return;
  }
  scope_->variables.emplace_back(symbol, std::move(value));
}

void Interpreter::assign(const Expr& target, Value value) {
  if (target.kind == ExprKind::kName) return define(target.symbol, std::move(value));
  if (target.kind == ExprKind::kAttribute) return assign_attribute(target, std::move(value));
  std::vector<Value> items = iterate(heap_, value);
  const std::size_t want = target.items.size();
  if (items.size() > want) value_error("too many values to unpack (expected " + std::to_string(want) + ")");
  if (items.size() < want)
    value_error("not enough values to unpack (expected " + std::to_string(want) + ", got " +
                std::to_string(items.size()) + ")");
  for (std::size_t i = 0; i < want; ++i) assign(*target.items[i], std::move(items[i]));
}

void Interpreter::assign_attribute(const Expr& target, Value value) {
  const Value object = look_up(*target.left);
  if (!object.is(Kind::kNamespace))
    raise(FailureKind::kRuntime, "cannot assign attribute on non-namespace object");
  if (target.name.starts_with('_'))
    raise(FailureKind::kSecurity,
          "a namespace cannot hold the underscore-prefixed attribute '" + target.name + "'");
  auto& attributes = object.get<Namespace>().attributes;
  budget_.scan(attributes.size() * 8);
  for (auto& [name, v] : attributes) {
    if (name != target.name) continue;
    v = std::move(value);
    return;
  }
  attributes.emplace_back(target.name, std::move(value));
}

Value Interpreter::look_up(const Expr& name) {
  for (const Scope* scope = scope_.get(); scope != nullptr; scope = scope->parent.get())
    for (const auto& [symbol, value] : scope->variables)
      if (symbol == name.symbol) return value;
  const auto symbol = static_cast<std::size_t>(name.symbol);
  if (global_set_[symbol]) return globals_[symbol];
  return heap_.undefined("'" + name.name + "' is undefined");
}

}  // namespace met::text::jinja
