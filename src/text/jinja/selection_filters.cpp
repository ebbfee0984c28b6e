// map, select and reject: filters that apply other filters and tests by name.
#include "text/jinja/builtins.h"
#include "text/jinja/getter.h"
#include "text/jinja/interpreter.h"

namespace met::text::jinja {

namespace {

/// The rest of the arguments behind the first `skip`, to hand on with each item in front.
Arguments tail(const Arguments& a, std::size_t skip) {
  Arguments rest;
  rest.positional.emplace_back();
  for (std::size_t i = skip; i < a.positional.size(); ++i) rest.positional.push_back(a.positional[i]);
  rest.named = a.named;
  return rest;
}

/// These filters take anything false, null included, as an empty sequence.
std::vector<Value> items_of(const Heap& heap, const Value& v) {
  return truthy(v) ? iterate(heap, v) : std::vector<Value>{};
}

Value filter_map(Interpreter& run, Arguments& a) {
  const Heap& heap = run.heap();
  std::vector<Value> items = items_of(heap, a.positional.at(0));
  if (a.positional.size() == 1) {
    const auto args = bind<3>(a, "map", {"value", "attribute", "default"}, 1);
    if (!args.has(1)) raise(FailureKind::kRuntime, "map requires a filter argument");
    const Getter getter(run, args[1], args.has(2) ? args[2] : Value::none());
    for (Value& v : items) v = getter(v);
    return heap.iterator(std::move(items));
  }
  const std::string name = need_string(a.positional[1], "map").text;
  const Native filter = find_filter(name);
  if (filter == nullptr) raise(FailureKind::kRuntime, "No filter named '" + name + "'.");
  const Arguments rest = tail(a, 2);
  for (Value& v : items) {
    run.budget().step();
    Arguments arguments = rest;
    arguments.positional[0] = std::move(v);
    v = filter(run, arguments);
  }
  return heap.iterator(std::move(items));
}

Value choose(Interpreter& run, Arguments& a, std::string_view name, bool by_attribute, bool keep) {
  const Heap& heap = run.heap();
  std::vector<Value> items = items_of(heap, a.positional.at(0));
  std::size_t used = 1;
  if (by_attribute && a.positional.size() < 2)
    raise(FailureKind::kRuntime, std::string(name) + " needs the name of an attribute");
  const Getter getter(run, by_attribute ? a.positional[used++] : Value::none());
  Native test = nullptr;
  if (used < a.positional.size()) {
    const std::string& test_name = need_string(a.positional[used++], name).text;
    test = find_test(test_name);
    if (test == nullptr) raise(FailureKind::kRuntime, "No test named '" + test_name + "'.");
  }
  const Arguments rest = tail(a, used);
  std::vector<Value> kept;
  for (Value& v : items) {
    run.budget().step();
    Value subject = getter(v);
    bool holds = false;
    if (test == nullptr) {
      holds = truthy(subject);
    } else {
      Arguments arguments = rest;
      arguments.positional[0] = std::move(subject);
      holds = truthy(test(run, arguments));
    }
    if (holds == keep) kept.push_back(std::move(v));
  }
  return heap.iterator(std::move(kept));
}

Value filter_select(Interpreter& run, Arguments& a) { return choose(run, a, "select", false, true); }
Value filter_reject(Interpreter& run, Arguments& a) { return choose(run, a, "reject", false, false); }
Value filter_selectattr(Interpreter& run, Arguments& a) { return choose(run, a, "selectattr", true, true); }
Value filter_rejectattr(Interpreter& run, Arguments& a) { return choose(run, a, "rejectattr", true, false); }

constexpr Entry kFilters[] = {
    {"map", filter_map},
    {"select", filter_select},
    {"reject", filter_reject},
    {"selectattr", filter_selectattr},
    {"rejectattr", filter_rejectattr},
};

}  // namespace

std::span<const Entry> selection_filters() { return kFilters; }

Native find_filter(std::string_view name) {
  for (const auto& table : {text_filters(), sequence_filters(), selection_filters()})
    for (const Entry& e : table)
      if (e.name == name) return e.native;
  return nullptr;
}

}  // namespace met::text::jinja
