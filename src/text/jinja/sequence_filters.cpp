// Filters over sequences and mappings.
#include <algorithm>

#include "text/jinja/builtins.h"
#include "text/jinja/getter.h"
#include "text/jinja/interpreter.h"

namespace met::text::jinja {

namespace {

Value filter_default(Interpreter& run, Arguments& a) {
  const auto args = bind<3>(a, "default", {"value", "default_value", "boolean"}, 1);
  const bool replaces = args[0].is_undefined() || (args.has(2) && truthy(args[2]) && !truthy(args[0]));
  if (!replaces) return args[0];
  return args.has(1) ? args[1] : run.heap().string("");
}

Value filter_length(Interpreter&, Arguments& a) {
  const auto args = bind<1>(a, "length", {"obj"}, 1);
  const auto size = length(args[0]);
  if (!size) type_error("object of type '" + std::string(type_name(args[0])) + "' has no len()");
  return Int{static_cast<std::int64_t>(*size)};
}

Value filter_list(Interpreter& run, Arguments& a) {
  const auto args = bind<1>(a, "list", {"value"}, 1);
  return run.heap().list(iterate(run.heap(), args[0]));
}

Value filter_first(Interpreter& run, Arguments& a) {
  const auto args = bind<1>(a, "first", {"seq"}, 1);
  if (args[0].is(Kind::kIterator)) {
    const auto& it = args[0].get<Iterator>();
    if (it.next < it.items.size()) return it.items[it.next++];
    return run.heap().undefined("No first item, sequence was empty.");
  }
  std::vector<Value> items = iterate(run.heap(), args[0]);
  return items.empty() ? run.heap().undefined("No first item, sequence was empty.") : items.front();
}

Value filter_last(Interpreter& run, Arguments& a) {
  const auto args = bind<1>(a, "last", {"seq"}, 1);
  if (args[0].is(Kind::kIterator)) type_error("'generator' object is not reversible");
  std::vector<Value> items = iterate(run.heap(), args[0]);
  return items.empty() ? run.heap().undefined("No last item, sequence was empty.") : items.back();
}

Value filter_join(Interpreter& run, Arguments& a) {
  const auto args = bind<3>(a, "join", {"value", "d", "attribute"}, 1);
  const Heap& heap = run.heap();
  const Value separator = args.has(1) ? to_string(heap, args[1]) : heap.string("");
  std::vector<Value> items = iterate(heap, args[0]);
  if (args.has(2) && !args[2].is_none()) {
    const Getter getter(run, args[2]);
    for (Value& v : items) v = getter(v);
  }
  StrBuilder out(heap);
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i != 0) out.append(separator.str());
    append_string(out, items[i]);
  }
  return out.take();
}

Value filter_reverse(Interpreter& run, Arguments& a) {
  const auto args = bind<1>(a, "reverse", {"value"}, 1);
  const Heap& heap = run.heap();
  std::vector<Value> items = iterate(heap, args[0]);
  std::ranges::reverse(items);
  if (args[0].is_string()) {
    StrBuilder out(heap);
    for (const Value& v : items) out.append(v.str());
    return out.take();
  }
  if (args[0].is(Kind::kIterator)) return heap.list(std::move(items));
  return heap.iterator(std::move(items), args[0].is(Kind::kList) ? "list_reverseiterator" : "reversed");
}

bool less(Interpreter& run, const Value& x, const Value& y) {
  run.budget().step(4);
  return compare(x, y, "<") < 0;
}

Value filter_sort(Interpreter& run, Arguments& a) {
  const auto args = bind<4>(a, "sort", {"value", "reverse", "case_sensitive", "attribute"}, 1);
  const bool reverse = args.has(1) && truthy(args[1]);
  const bool fold = !args.has(2) || !truthy(args[2]);
  const Value attribute = args.has(3) ? args[3] : Value::none();
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& v : iterate(run.heap(), args[0])) {
    Value key = multi_key(run, attribute, v, fold);
    keyed.emplace_back(std::move(key), std::move(v));
  }
  std::ranges::stable_sort(keyed, [&](const auto& x, const auto& y) {
    return reverse ? less(run, y.first, x.first) : less(run, x.first, y.first);
  });
  std::vector<Value> items;
  for (auto& [key, v] : keyed) items.push_back(std::move(v));
  return run.heap().list(std::move(items));
}

Value filter_dictsort(Interpreter& run, Arguments& a) {
  const auto args = bind<4>(a, "dictsort", {"value", "case_sensitive", "by", "reverse"}, 1);
  if (!args[0].is(Kind::kDict)) require_defined(args[0]), type_error("dictsort() needs a mapping");
  const bool fold = !args.has(1) || !truthy(args[1]);
  const std::string by = args.has(2) ? need_string(args[2], "dictsort").text : "key";
  if (by != "key" && by != "value") value_error("You can only sort by either \"key\" or \"value\"");
  const bool reverse = args.has(3) && truthy(args[3]);
  std::vector<std::pair<Value, Value>> keyed;
  for (const auto& [key, value] : args[0].dict().members)
    keyed.emplace_back(folded(run, by == "key" ? key : value, fold), run.heap().tuple({key, value}));
  std::ranges::stable_sort(keyed, [&](const auto& x, const auto& y) {
    return reverse ? less(run, y.first, x.first) : less(run, x.first, y.first);
  });
  std::vector<Value> items;
  for (auto& [key, v] : keyed) items.push_back(std::move(v));
  return run.heap().list(std::move(items));
}

Value filter_unique(Interpreter& run, Arguments& a) {
  const auto args = bind<3>(a, "unique", {"value", "case_sensitive", "attribute"}, 1);
  const bool fold = !args.has(1) || !truthy(args[1]);
  const Getter getter(run, args.has(2) ? args[2] : Value::none());
  std::vector<Value> seen;
  std::vector<Value> items;
  for (const Value& v : iterate(run.heap(), args[0])) {
    Value key = folded(run, getter(v), fold);
    run.budget().step(1 + seen.size() / 8);
    if (std::ranges::any_of(seen, [&](const Value& s) { return equal(s, key); })) continue;
    seen.push_back(std::move(key));
    items.push_back(v);
  }
  return run.heap().iterator(std::move(items));
}

Value extreme(Interpreter& run, Arguments& a, std::string_view name, bool largest) {
  const auto args = bind<3>(a, name, {"value", "case_sensitive", "attribute"}, 1);
  const bool fold = !args.has(1) || !truthy(args[1]);
  const Getter getter(run, args.has(2) ? args[2] : Value::none());
  Value best;
  Value best_key;
  bool found = false;
  for (const Value& v : iterate(run.heap(), args[0])) {
    Value key = folded(run, getter(v), fold);
    if (found && !(largest ? less(run, best_key, key) : less(run, key, best_key))) continue;
    best = v;
    best_key = std::move(key);
    found = true;
  }
  return found ? best : run.heap().undefined("No aggregated item, sequence was empty.");
}
Value filter_min(Interpreter& run, Arguments& a) { return extreme(run, a, "min", false); }
Value filter_max(Interpreter& run, Arguments& a) { return extreme(run, a, "max", true); }

Value filter_sum(Interpreter& run, Arguments& a) {
  const auto args = bind<3>(a, "sum", {"iterable", "attribute", "start"}, 1);
  const Getter getter(run, args.has(1) ? args[1] : Value::none());
  Value total = args.has(2) ? args[2] : Value(0);
  if (total.is_string()) type_error("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& v : iterate(run.heap(), args[0])) total = run.binary(Operator::kAdd, total, getter(v));
  return total;
}

Value filter_items(Interpreter& run, Arguments& a) {
  const auto args = bind<1>(a, "items", {"value"}, 1);
  if (args[0].is_undefined()) return run.heap().iterator({});
  if (!args[0].is(Kind::kDict)) type_error("Can only get item pairs from a mapping.");
  std::vector<Value> items;
  for (const auto& [k, v] : args[0].dict().members) items.push_back(run.heap().tuple({k, v}));
  return run.heap().iterator(std::move(items));
}

Int need_positive(const Value& v, std::string_view name) {
  const Int count = need_int(v, name);
  if (count <= 0) value_error(std::string(name) + "() needs a count of at least 1");
  return count;
}

Value filter_batch(Interpreter& run, Arguments& a) {
  const auto args = bind<3>(a, "batch", {"value", "linecount", "fill_with"}, 2);
  const Int size = need_positive(args[1], "batch");
  std::vector<Value> batches;
  std::vector<Value> batch;
  for (Value& v : iterate(run.heap(), args[0])) {
    if (Int{static_cast<std::int64_t>(batch.size())} == size)
      batches.push_back(run.heap().list(std::exchange(batch, {})));
    batch.push_back(std::move(v));
  }
  if (!batch.empty()) {
    const bool fills = args.has(2) && !args[2].is_none();
    if (fills && size > 1'000'000) value_error("batch() cannot fill more than 1000000 items");
    while (fills && Int{static_cast<std::int64_t>(batch.size())} < size) batch.push_back(args[2]);
    batches.push_back(run.heap().list(std::move(batch)));
  }
  return run.heap().iterator(std::move(batches));
}

Value filter_slice(Interpreter& run, Arguments& a) {
  const auto args = bind<3>(a, "slice", {"value", "slices", "fill_with"}, 2);
  const Int wanted = need_positive(args[1], "slice");
  if (wanted > 100'000) value_error("slice() cannot make more than 100000 slices");
  const auto slices = static_cast<std::size_t>(wanted);
  const std::vector<Value> items = iterate(run.heap(), args[0]);
  const std::size_t each = items.size() / slices;
  const std::size_t longer = items.size() % slices;
  std::vector<Value> out;
  auto from = items.begin();
  for (std::size_t i = 0; i < slices; ++i) {
    const auto to = from + static_cast<std::ptrdiff_t>(each + (i < longer ? 1 : 0));
    std::vector<Value> part(from, to);
    if (args.has(2) && !args[2].is_none() && i >= longer) part.push_back(args[2]);
    out.push_back(run.heap().list(std::move(part)));
    from = to;
  }
  return run.heap().iterator(std::move(out));
}

Value filter_groupby(Interpreter& run, Arguments& a) {
  const auto args = bind<4>(a, "groupby", {"value", "attribute", "default", "case_sensitive"}, 2);
  const Getter getter(run, args[1], args.has(2) ? args[2] : Value::none());
  const bool fold = !args.has(3) || !truthy(args[3]);
  struct Item {
    Value folded;
    Value key;
    Value value;
  };
  std::vector<Item> items;
  for (Value& v : iterate(run.heap(), args[0])) {
    Value key = getter(v);
    Value fold_key = folded(run, key, fold);
    items.push_back({std::move(fold_key), std::move(key), std::move(v)});
  }
  std::ranges::stable_sort(items,
                           [&](const Item& x, const Item& y) { return less(run, x.folded, y.folded); });
  std::vector<Value> groups;
  for (std::size_t i = 0; i < items.size();) {
    std::vector<Value> members;
    const std::size_t first = i;
    for (; i < items.size() && equal(items[i].folded, items[first].folded); ++i)
      members.push_back(items[i].value);
    groups.push_back(run.heap().tuple({items[first].key, run.heap().list(std::move(members))}));
  }
  return run.heap().list(std::move(groups));
}

Value filter_attr(Interpreter& run, Arguments& a) {
  const auto args = bind<2>(a, "attr", {"obj", "name"}, 2);
  const Value name = to_string(run.heap(), args[1]);
  require_defined(args[0]);
  if (args[0].is(Kind::kNamespace)) return run.attribute(args[0], name.text());
  if (auto found = find_method(run, args[0], name.text())) return std::move(*found);
  return run.heap().undefined("'" + object_name(args[0]) + "' has no attribute '" + name.text() + "'");
}

constexpr Entry kFilters[] = {
    {"default", filter_default}, {"d", filter_default},         {"length", filter_length},
    {"count", filter_length},    {"list", filter_list},         {"first", filter_first},
    {"last", filter_last},       {"join", filter_join},         {"reverse", filter_reverse},
    {"sort", filter_sort},       {"dictsort", filter_dictsort}, {"unique", filter_unique},
    {"min", filter_min},         {"max", filter_max},           {"sum", filter_sum},
    {"items", filter_items},     {"batch", filter_batch},       {"slice", filter_slice},
    {"groupby", filter_groupby}, {"attr", filter_attr},
};

}  // namespace

std::span<const Entry> sequence_filters() { return kFilters; }

}  // namespace met::text::jinja
