#include "text/jinja/callables.h"

#include "text/jinja/builtins.h"

namespace met::text::jinja {

Value make_function(const Heap& heap, std::string_view name, Native native, std::optional<Value> self) {
  auto f = std::make_shared<Function>();
  heap.adopt(*f, sizeof(Function));
  f->native = native;
  f->name = name;
  f->self = std::move(self);
  return {Kind::kCallable, std::move(f)};
}

std::optional<Value> Macro::attribute(Interpreter& run, std::string_view what) const {
  const Parameters& p = definition->parameters;
  if (what == "name") return run.heap().string(name);
  if (what == "catch_kwargs") return Value(p.uses_kwargs);
  if (what == "catch_varargs") return Value(p.uses_varargs);
  if (what == "caller") return Value(p.uses_caller);
  if (what != "arguments") return std::nullopt;
  std::vector<Value> names;
  for (const std::string& n : p.names) names.push_back(run.heap().string(n));
  return run.heap().tuple(std::move(names));
}

Value Loop::call(Interpreter& run, Arguments& arguments) const {
  if (!statement->recursive)
    type_error("The loop must have the 'recursive' marker to be called recursively.");
  if (arguments.positional.size() != 1) type_error("loop() takes exactly one argument");
  return run.render_loop(*statement, scope, arguments.positional[0], level + 1);
}

namespace {

Value loop_cycle(Interpreter&, Arguments& arguments) {
  const auto& loop = arguments.positional[0].get<Loop>();
  const std::size_t choices = arguments.positional.size() - 1;
  if (choices == 0) type_error("no items for cycling given");
  return arguments.positional[1 + loop.index % choices];
}

Value loop_changed(Interpreter&, Arguments& arguments) {
  const auto& loop = arguments.positional[0].get<Loop>();
  std::vector<Value> now(arguments.positional.begin() + 1, arguments.positional.end());
  bool same = loop.changed_seen && now.size() == loop.changed_last.size();
  for (std::size_t i = 0; same && i < now.size(); ++i) same = equal(now[i], loop.changed_last[i]);
  loop.changed_seen = true;
  loop.changed_last = std::move(now);
  return !same;
}

Value count(std::size_t v) { return Int{static_cast<std::int64_t>(v)}; }

}  // namespace

std::optional<Value> Loop::attribute(Interpreter& run, std::string_view what) const {
  const std::size_t size = items.size();
  if (what == "index") return count(index + 1);
  if (what == "index0") return count(index);
  if (what == "revindex") return count(size - index);
  if (what == "revindex0") return count(size - index - 1);
  if (what == "first") return Value(index == 0);
  if (what == "last") return Value(index + 1 == size);
  if (what == "length") return count(size);
  if (what == "depth") return Value(level + 1);
  if (what == "depth0") return Value(level);
  if (what == "previtem")
    return index == 0 ? run.heap().undefined("there is no previous item") : items[index - 1];
  if (what == "nextitem")
    return index + 1 == size ? run.heap().undefined("there is no next item") : items[index + 1];
  const auto self = [&] { return Value(Kind::kCallable, shared_from_this()); };
  if (what == "cycle") return make_function(run.heap(), "cycle", loop_cycle, self());
  if (what == "changed") return make_function(run.heap(), "changed", loop_changed, self());
  return std::nullopt;
}

}  // namespace met::text::jinja
