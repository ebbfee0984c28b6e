// The callable objects that running a template creates: macros and `loop`.
#pragma once

#include "text/jinja/interpreter.h"

namespace met::text::jinja {

struct Macro : Callable {
  const Stmt* definition = nullptr;
  std::shared_ptr<Scope> scope;
  std::string name;
  Value call(Interpreter& run, Arguments& arguments) const override {
    return run.render_macro(*definition, scope, arguments, name);
  }
  std::optional<Value> attribute(Interpreter& run, std::string_view what) const override;
  std::string repr() const override { return "<Macro '" + name + "'>"; }
};

/// `loop` inside a for: where the iteration stands, and in a recursive loop the loop as a function.
struct Loop : Callable, std::enable_shared_from_this<Loop> {
  std::vector<Value> items;
  mutable std::size_t index = 0;
  mutable std::vector<Value> changed_last;
  mutable bool changed_seen = false;
  int level = 0;
  const Stmt* statement = nullptr;
  std::shared_ptr<Scope> scope;
  Value call(Interpreter& run, Arguments& arguments) const override;
  std::optional<Value> attribute(Interpreter& run, std::string_view what) const override;
  std::string repr() const override {
    return "<LoopContext " + std::to_string(index + 1) + "/" + std::to_string(items.size()) + ">";
  }
};

/// A method or global function: a native function, with the object as its first argument if it is bound.
struct Function : Callable {
  Native native = nullptr;
  std::string name;
  std::optional<Value> self;
  Value call(Interpreter& run, Arguments& arguments) const override {
    if (self) arguments.positional.insert(arguments.positional.begin(), *self);
    return native(run, arguments);
  }
  std::string repr() const override { return "<function " + name + ">"; }
};

Value make_function(const Heap& heap, std::string_view name, Native native, std::optional<Value> self = {});

}  // namespace met::text::jinja
