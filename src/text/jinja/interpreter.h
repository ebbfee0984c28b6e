// Walks the tree of one template for one render.
#pragma once

#include <ctime>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/jinja/ast.h"
#include "text/jinja/strings.h"

namespace met::text::jinja {

/// Variables by symbol; look-up goes to the parent, and at last to the globals.
struct Scope {
  std::vector<std::pair<int, Value>> variables;
  std::shared_ptr<Scope> parent;
};

class Interpreter {
 public:
  Interpreter(const Tree& tree, const Limits& limits, const std::tm& now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  /// Sets a variable of the context; names that the template never reads are ignored.
  void set_global(std::string_view name, Value value);
  /// Renders into `out`.
  void run(StrBuilder& out);

  const Heap& heap() const { return heap_; }
  Budget& budget() { return budget_; }
  const std::tm& now() const { return now_; }
  const Position& at() const { return at_; }
  const std::vector<std::string>& symbols() const { return tree_.symbols; }

  Value evaluate(const Expr& e);
  Value call(const Value& callee, Arguments& arguments);
  Value attribute(const Value& object, std::string_view name);
  Value item(const Value& object, const Value& key);
  Value binary(Operator op, const Value& left, const Value& right);
  bool contains(const Value& container, const Value& needle);
  Value render_macro(const Stmt& s, const std::shared_ptr<Scope>& scope, Arguments& arguments,
                     std::string_view name);
  Value render_loop(const Stmt& s, const std::shared_ptr<Scope>& scope, const Value& over, int level);
  Value make_namespace(std::vector<std::pair<std::string, Value>> attributes);

 private:
  enum class Flow { kNormal, kBreak, kContinue };

  Flow execute(const Body& body);
  Flow execute(const Stmt& s);
  Flow execute_for(const Stmt& s, const Value& over, int level);
  Flow loop_body(const Stmt& s, std::vector<Value> items, int level);
  void execute_with(const Stmt& s);
  void execute_call(const Stmt& s);
  Value capture(const Body& body);
  void assign(const Expr& target, Value value);
  void assign_attribute(const Expr& target, Value value);
  void define(int symbol, Value value);
  Value look_up(const Expr& name);
  void collect(const Expr& e, Arguments& arguments);
  Value evaluate_filter(const Expr& e, const Value* subject);
  Value evaluate_compare(const Expr& e);
  Value evaluate_dict(const Expr& e);
  Value evaluate_slice(const Value& object, const Expr& slice);
  Value evaluate_concat(const Expr& e);
  Value evaluate_condition(const Expr& e);
  Value evaluate_native(const Expr& e);
  Value evaluate_node(const Expr& e);
  Value undefined_attribute(const Value& object, std::string_view name);
  std::shared_ptr<Scope> push_scope();

  const Tree& tree_;
  Budget budget_;
  Heap heap_{&budget_};
  std::tm now_;
  Position at_;
  StrBuilder* out_ = nullptr;
  const Value* subject_ = nullptr;  // of the filter block being applied
  bool output_is_root_ = false;
  std::vector<Value> globals_;  // by symbol
  std::vector<bool> global_set_;
  std::shared_ptr<Scope> scope_;
  // Scopes that macros and loops hold and namespaces may form cycles; they are emptied at the end.
  std::vector<std::shared_ptr<Scope>> captured_;
  std::vector<std::shared_ptr<const Namespace>> namespaces_;
};

}  // namespace met::text::jinja
