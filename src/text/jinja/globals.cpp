// Global functions of chat templates.
#include <algorithm>
#include <array>
#include <ctime>

#include "text/jinja/builtins.h"
#include "text/jinja/callables.h"

namespace met::text::jinja {

namespace {

constexpr Int kRangeMax = 100'000;  // as Jinja's sandbox

Value global_range(Interpreter& run, Arguments& a) {
  if (a.positional.empty() || a.positional.size() > 3 || !a.named.empty())
    type_error("range expected 1 to 3 arguments, got " + std::to_string(a.positional.size()));
  Int parts[3] = {0, 0, 1};
  const bool only_stop = a.positional.size() == 1;
  for (std::size_t i = 0; i < a.positional.size(); ++i)
    parts[only_stop ? 1 : i] = need_int(a.positional[i], "range");
  if (parts[2] == 0) value_error("range() arg 3 must not be zero");
  constexpr Int kLimit = Int{1} << 60;
  for (const Int p : parts)
    if (p > kLimit || p < -kLimit) value_error("range() of integers that large is not supported");
  const auto part = [&](int i) { return static_cast<std::int64_t>(parts[i]); };
  Value range = run.heap().range(part(0), part(1), part(2));
  if (range.get<Range>().size > kRangeMax)
    value_error("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  return range;
}

/// Pairs of dict(...) and namespace(...): a mapping or pairs, then keywords.
std::vector<std::pair<Value, Value>> pairs_of(Interpreter& run, Arguments& a, std::string_view name) {
  std::vector<std::pair<Value, Value>> members;
  if (a.positional.size() > 1)
    type_error(std::string(name) + " expected at most 1 argument, got " +
               std::to_string(a.positional.size()));
  if (a.positional.size() == 1) {
    const Value& from = a.positional[0];
    if (from.is(Kind::kDict)) {
      members = from.dict().members;
    } else {
      for (const Value& pair : iterate(run.heap(), from)) {
        std::vector<Value> both = iterate(run.heap(), pair);
        if (both.size() != 2) value_error("dictionary update sequence needs pairs");
        set_key(run.heap(), members, std::move(both[0]), std::move(both[1]));
      }
    }
  }
  for (auto& [key, value] : a.named) set_key(run.heap(), members, run.heap().string(key), std::move(value));
  return members;
}

Value global_dict(Interpreter& run, Arguments& a) { return run.heap().dict(pairs_of(run, a, "dict")); }

Value global_namespace(Interpreter& run, Arguments& a) {
  std::vector<std::pair<std::string, Value>> attributes;
  for (auto& [key, value] : pairs_of(run, a, "namespace")) {
    if (!key.is_string()) type_error("a namespace has attributes with string names only");
    if (key.text().starts_with('_'))
      raise(FailureKind::kSecurity,
            "a namespace cannot hold the underscore-prefixed attribute '" + key.text() + "'");
    attributes.emplace_back(key.text(), std::move(value));
  }
  return run.make_namespace(std::move(attributes));
}

Value global_raise_exception(Interpreter& run, Arguments& a) {
  const auto args = bind<1>(a, "raise_exception", {"message"}, 1);
  raise(FailureKind::kRaised, to_string(run.heap(), args[0]).text());
}

Value global_strftime_now(Interpreter& run, Arguments& a) {
  const auto args = bind<1>(a, "strftime_now", {"format"}, 1);
  const std::string& format = need_string(args[0], "strftime_now").text;
  if (format.size() > 1000) value_error("strftime_now() got a format of more than 1000 bytes");
  if (format.find('\0') != std::string::npos) value_error("embedded null character");
  // A width in the format could ask for any size; templates use plain conversions.
  std::string buffer(format.size() * 32 + 256, '\0');
  buffer.resize(std::strftime(buffer.data(), buffer.size(), format.c_str(), &run.now()));
  return run.heap().string(std::move(buffer));
}

/// cycler(...): hands its items out in turn.
struct Cycler : Callable, std::enable_shared_from_this<Cycler> {
  std::vector<Value> items;
  mutable std::size_t at = 0;
  Value call(Interpreter&, Arguments&) const override { type_error("'Cycler' object is not callable"); }
  std::optional<Value> attribute(Interpreter& run, std::string_view name) const override;
  std::string repr() const override { return "<Cycler>"; }
};

Value cycler_next(Interpreter&, Arguments& a) {
  const auto& cycler = a.positional[0].get<Cycler>();
  Value v = cycler.items[cycler.at];
  cycler.at = (cycler.at + 1) % cycler.items.size();
  return v;
}
Value cycler_reset(Interpreter&, Arguments& a) {
  a.positional[0].get<Cycler>().at = 0;
  return Value::none();
}

std::optional<Value> Cycler::attribute(Interpreter& run, std::string_view name) const {
  const auto bound = [&] { return Value(Kind::kCallable, shared_from_this()); };
  if (name == "current") return items[at];
  if (name == "next") return make_function(run.heap(), name, cycler_next, bound());
  if (name == "reset") return make_function(run.heap(), name, cycler_reset, bound());
  return std::nullopt;
}

Value global_cycler(Interpreter& run, Arguments& a) {
  if (a.positional.empty()) raise(FailureKind::kRuntime, "at least one item has to be provided");
  auto cycler = std::make_shared<Cycler>();
  run.heap().adopt(*cycler, sizeof(Cycler) + a.positional.size() * sizeof(Value));
  cycler->items = std::move(a.positional);
  return {Kind::kCallable, std::move(cycler)};
}

/// joiner(sep): empty at the first call, then the separator.
struct Joiner : Callable {
  Value separator;
  mutable bool used = false;
  Value call(Interpreter& run, Arguments&) const override {
    return std::exchange(used, true) ? separator : run.heap().string("");
  }
  std::string repr() const override { return "<Joiner>"; }
};

Value global_joiner(Interpreter& run, Arguments& a) {
  const auto args = bind<1>(a, "joiner", {"sep"}, 0);
  auto joiner = std::make_shared<Joiner>();
  joiner->separator = args.has(0) ? args[0] : run.heap().string(", ");
  return {Kind::kCallable, std::move(joiner)};
}

constexpr Entry kGlobals[] = {
    {"range", global_range},
    {"dict", global_dict},
    {"namespace", global_namespace},
    {"cycler", global_cycler},
    {"joiner", global_joiner},
    {"raise_exception", global_raise_exception},
    {"strftime_now", global_strftime_now},
};

constexpr auto kNames = [] {
  std::array<std::string_view, std::size(kGlobals)> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = kGlobals[i].name;
  return names;
}();

}  // namespace

std::span<const std::string_view> global_names() { return kNames; }

Value make_global(Interpreter& run, std::string_view name) {
  return make_function(run.heap(), name, std::ranges::find(kGlobals, name, &Entry::name)->native);
}

}  // namespace met::text::jinja
