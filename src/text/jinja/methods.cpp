// Methods of str, list, tuple and dict. Attributes that reach into Python's objects or change a container are
// names that fail when used, as in Jinja's immutable sandbox.
#include <algorithm>

#include "core/utf8.h"
#include "text/jinja/builtins.h"
#include "text/jinja/callables.h"

namespace met::text::jinja {

namespace {

const Str& self_of(const Arguments& a) { return a.positional[0].str(); }

Value strip_method(Interpreter& run, Arguments& a, std::string_view name, Side side) {
  const auto args = bind<2>(a, name, {"self", "chars"}, 1);
  const Str* chars = nullptr;
  if (args.has(1) && !args[1].is_none()) chars = &need_string(args[1], name);
  return strip(run.heap(), self_of(a), chars, side);
}
Value str_strip(Interpreter& run, Arguments& a) { return strip_method(run, a, "strip", Side::kBoth); }
Value str_lstrip(Interpreter& run, Arguments& a) { return strip_method(run, a, "lstrip", Side::kLeft); }
Value str_rstrip(Interpreter& run, Arguments& a) { return strip_method(run, a, "rstrip", Side::kRight); }

Value split_method(Interpreter& run, Arguments& a, std::string_view name, bool from_right) {
  const auto args = bind<3>(a, name, {"self", "sep", "maxsplit"}, 1);
  const Str* separator = nullptr;
  if (args.has(1) && !args[1].is_none()) separator = &need_string(args[1], name);
  const Int count = args.has(2) ? need_int(args[2], name) : Int{-1};
  return run.heap().list(split(run.heap(), self_of(a), separator, count, from_right));
}
Value str_split(Interpreter& run, Arguments& a) { return split_method(run, a, "split", false); }
Value str_rsplit(Interpreter& run, Arguments& a) { return split_method(run, a, "rsplit", true); }

Value str_splitlines(Interpreter& run, Arguments& a) {
  const auto args = bind<2>(a, "splitlines", {"self", "keepends"}, 1);
  return run.heap().list(split_lines(run.heap(), self_of(a), args.has(1) && truthy(args[1])));
}

Value affix(Interpreter&, Arguments& a, std::string_view name, bool at_end) {
  const auto args = bind<4>(a, name, {"self", "affix", "start", "end"}, 2);
  const Str& s = self_of(a);
  std::string_view text = s.text;
  const auto index = [&](std::size_t i, std::size_t missing) {
    if (!args.has(i) || args[i].is_none()) return missing;
    const Int size = static_cast<std::int64_t>(code_points(s));
    Int at = need_int(args[i], name);
    if (at < 0) at = std::max<Int>(at + size, 0);
    return at > size ? s.text.size() + 1 : byte_offset(s, static_cast<std::size_t>(at));
  };
  const std::size_t begin = index(2, 0);
  const std::size_t end = std::min(index(3, text.size()), text.size());
  if (begin > end) return false;
  text = text.substr(begin, end - begin);
  const auto matches = [&](const Value& v) {
    const std::string& what = need_string(v, name).text;
    return at_end ? text.ends_with(what) : text.starts_with(what);
  };
  if (!args[1].is(Kind::kTuple)) return matches(args[1]);
  return std::ranges::any_of(args[1].seq().items, matches);
}
Value str_startswith(Interpreter& run, Arguments& a) { return affix(run, a, "startswith", false); }
Value str_endswith(Interpreter& run, Arguments& a) { return affix(run, a, "endswith", true); }

Value str_replace(Interpreter& run, Arguments& a) {
  const auto args = bind<4>(a, "replace", {"self", "old", "new", "count"}, 3);
  return replace(run.heap(), self_of(a), need_string(args[1], "replace"), need_string(args[2], "replace"),
                 args.has(3) ? need_int(args[3], "replace") : Int{-1});
}

template <Case How>
Value str_case(Interpreter& run, Arguments& a) {
  bind<1>(a, "str method", {"self"}, 1);
  return change_case(run.heap(), self_of(a), How);
}

template <Class Which>
Value str_class(Interpreter&, Arguments& a) {
  bind<1>(a, "str method", {"self"}, 1);
  return is_class(self_of(a), Which);
}

/// Byte range of find's start and end arguments.
std::optional<ByteRange> search_range(const Bound<4>& args, const Str& s, std::string_view name) {
  const Int size = static_cast<std::int64_t>(code_points(s));
  const auto index = [&](std::size_t i, Int missing) {
    if (!args.has(i) || args[i].is_none()) return missing;
    const Int at = need_int(args[i], name);
    return at < 0 ? std::max<Int>(at + size, 0) : at;
  };
  const Int begin = index(2, 0);
  const Int end = std::min(index(3, size), size);
  if (begin > end) return std::nullopt;
  return ByteRange{byte_offset(s, static_cast<std::size_t>(begin)),
                   byte_offset(s, static_cast<std::size_t>(end))};
}

Int find_text(Arguments& a, std::string_view name, bool last) {
  const auto args = bind<4>(a, name, {"self", "sub", "start", "end"}, 2);
  const Str& s = self_of(a);
  const std::string& what = need_string(args[1], name).text;
  const auto range = search_range(args, s, name);
  if (!range) return -1;
  const std::string_view text = std::string_view(s.text).substr(0, range->end);
  const std::size_t found = last ? text.rfind(what) : text.find(what, range->begin);
  if (found == std::string_view::npos || found < range->begin) return -1;
  const auto lead = [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; };
  return std::ranges::count_if(text.substr(0, found), lead);
}
Value str_find(Interpreter&, Arguments& a) { return find_text(a, "find", false); }
Value str_rfind(Interpreter&, Arguments& a) { return find_text(a, "rfind", true); }
Value found_or_error(Int index) {
  if (index < 0) value_error("substring not found");
  return index;
}
Value str_index(Interpreter&, Arguments& a) { return found_or_error(find_text(a, "index", false)); }
Value str_rindex(Interpreter&, Arguments& a) { return found_or_error(find_text(a, "rindex", true)); }

Value str_count(Interpreter&, Arguments& a) {
  const auto args = bind<4>(a, "count", {"self", "sub", "start", "end"}, 2);
  const Str& s = self_of(a);
  const std::string& what = need_string(args[1], "count").text;
  const auto range = search_range(args, s, "count");
  if (!range) return 0;
  if (what.empty()) return Int{static_cast<std::int64_t>(code_points(s))} + 1;
  const std::string_view text = std::string_view(s.text).substr(0, range->end);
  Int count = 0;
  for (std::size_t at = text.find(what, range->begin); at != std::string_view::npos;
       at = text.find(what, at + what.size()))
    ++count;
  return count;
}

Value str_join(Interpreter& run, Arguments& a) {
  const auto args = bind<2>(a, "join", {"self", "iterable"}, 2);
  const Str& separator = self_of(a);
  StrBuilder out(run.heap());
  std::size_t i = 0;
  for (const Value& v : iterate(run.heap(), args[1])) {
    if (!v.is_string())
      type_error("sequence item " + std::to_string(i) + ": expected str instance, " +
                 std::string(type_name(v)) + " found");
    if (i++ != 0) out.append(separator);
    out.append(v.str());
  }
  return out.take();
}

Value str_format(Interpreter& run, Arguments& a) {
  const Value self = a.positional[0];
  a.positional.erase(a.positional.begin());
  return brace_format(run, self.str(), a);
}

Value str_removeprefix(Interpreter& run, Arguments& a) {
  const auto args = bind<2>(a, "removeprefix", {"self", "prefix"}, 2);
  const std::string& what = need_string(args[1], "removeprefix").text;
  const Str& s = self_of(a);
  return s.text.starts_with(what) ? substring(run.heap(), s, what.size(), s.text.size()) : args[0];
}

Value str_removesuffix(Interpreter& run, Arguments& a) {
  const auto args = bind<2>(a, "removesuffix", {"self", "suffix"}, 2);
  const std::string& what = need_string(args[1], "removesuffix").text;
  const Str& s = self_of(a);
  return s.text.ends_with(what) ? substring(run.heap(), s, 0, s.text.size() - what.size()) : args[0];
}

Value partition(Interpreter& run, Arguments& a, std::string_view name, bool last) {
  const auto args = bind<2>(a, name, {"self", "sep"}, 2);
  const Str& s = self_of(a);
  const std::string& sep = need_string(args[1], name).text;
  if (sep.empty()) value_error("empty separator");
  const std::size_t at = last ? s.text.rfind(sep) : s.text.find(sep);
  const Value empty = run.heap().string("");
  if (at == std::string::npos)
    return last ? run.heap().tuple({empty, empty, args[0]}) : run.heap().tuple({args[0], empty, empty});
  return run.heap().tuple({substring(run.heap(), s, 0, at), substring(run.heap(), s, at, at + sep.size()),
                           substring(run.heap(), s, at + sep.size(), s.text.size())});
}
Value str_partition(Interpreter& run, Arguments& a) { return partition(run, a, "partition", false); }
Value str_rpartition(Interpreter& run, Arguments& a) { return partition(run, a, "rpartition", true); }

Value pad_method(Interpreter& run, Arguments& a, std::string_view name, int side) {
  const auto args = bind<3>(a, name, {"self", "width", "fillchar"}, 2);
  std::string_view fill = " ";
  if (args.has(2)) {
    fill = need_string(args[2], name).text;
    if (code_points(args[2].str()) != 1) type_error("The fill character must be exactly one character long");
  }
  return pad(run.heap(), self_of(a), need_int(args[1], name), fill, side);
}
Value str_center(Interpreter& run, Arguments& a) { return pad_method(run, a, "center", 0); }
Value str_ljust(Interpreter& run, Arguments& a) { return pad_method(run, a, "ljust", -1); }
Value str_rjust(Interpreter& run, Arguments& a) { return pad_method(run, a, "rjust", 1); }

Value str_zfill(Interpreter& run, Arguments& a) {
  const auto args = bind<2>(a, "zfill", {"self", "width"}, 2);
  const Str& s = self_of(a);
  const std::size_t sign = s.text.starts_with('-') || s.text.starts_with('+') ? 1 : 0;
  StrBuilder out(run.heap());
  out.append(s, 0, sign);
  const Value rest = substring(run.heap(), s, sign, s.text.size());
  out.append(pad(run.heap(), rest.str(), need_int(args[1], "zfill") - static_cast<int>(sign), "0", 1).str());
  return out.take();
}

Value str_expandtabs(Interpreter& run, Arguments& a) {
  const auto args = bind<2>(a, "expandtabs", {"self", "tabsize"}, 1);
  const Int tab = args.has(1) ? need_int(args[1], "expandtabs") : Int{8};
  if (tab > 1000) value_error("expandtabs() of more than 1000 columns");
  const Str& s = self_of(a);
  StrBuilder out(run.heap());
  Int column = 0;
  for (std::size_t at = 0; at < s.text.size();) {
    const utf8::Decoded d = utf8::decode(std::string_view(s.text).substr(at));
    if (d.code_point == '\t') {
      const Int spaces = tab > 0 ? tab - column % tab : Int{0};
      for (Int i = 0; i < spaces; ++i) out.append(" ");
      column += spaces;
    } else {
      out.append(s, at, at + d.length);
      column = d.code_point == '\n' || d.code_point == '\r' ? Int{0} : column + 1;
    }
    at += d.length;
  }
  return out.take();
}

Value str_encode(Interpreter&, Arguments& a) { return {Kind::kBytes, a.positional[0].object()}; }
Value bytes_decode(Interpreter& run, Arguments& a) {
  const Str& s = a.positional[0].str();
  if (!utf8::valid(s.text)) value_error("'utf-8' codec can't decode the bytes");
  return substring(run.heap(), s, 0, s.text.size());
}

Value seq_count(Interpreter& run, Arguments& a) {
  const auto args = bind<2>(a, "count", {"self", "value"}, 2);
  run.budget().step(args[0].seq().items.size());
  return Int{std::ranges::count_if(args[0].seq().items, [&](const Value& v) { return equal(v, args[1]); })};
}

Value seq_index(Interpreter& run, Arguments& a) {
  const auto args = bind<2>(a, "index", {"self", "value"}, 2);
  const auto& items = args[0].seq().items;
  run.budget().step(items.size());
  const auto found = std::ranges::find_if(items, [&](const Value& v) { return equal(v, args[1]); });
  if (found == items.end()) value_error("the value is not in the list");
  return Int{found - items.begin()};
}

Value copy(Interpreter&, Arguments& a) { return a.positional[0]; }

Value dict_get(Interpreter& run, Arguments& a) {
  const auto args = bind<3>(a, "get", {"self", "key", "default"}, 2);
  if (const Value* v = find_key(run.heap(), args[0].dict(), args[1])) return *v;
  return args.has(2) ? args[2] : Value::none();
}

Value dict_items(Interpreter& run, Arguments& a) {
  std::vector<Value> items;
  for (const auto& [k, v] : a.positional[0].dict().members) items.push_back(run.heap().tuple({k, v}));
  return run.heap().view(std::move(items), "dict_items");
}
Value dict_keys(Interpreter& run, Arguments& a) {
  return run.heap().view(iterate(run.heap(), a.positional[0]), "dict_keys");
}
Value dict_values(Interpreter& run, Arguments& a) {
  std::vector<Value> items;
  for (const auto& member : a.positional[0].dict().members) items.push_back(member.second);
  return run.heap().view(std::move(items), "dict_values");
}

constexpr Entry kStringMethods[] = {
    {"strip", str_strip},
    {"lstrip", str_lstrip},
    {"rstrip", str_rstrip},
    {"split", str_split},
    {"rsplit", str_rsplit},
    {"splitlines", str_splitlines},
    {"startswith", str_startswith},
    {"endswith", str_endswith},
    {"replace", str_replace},
    {"upper", str_case<Case::kUpper>},
    {"lower", str_case<Case::kLower>},
    {"casefold", str_case<Case::kLower>},
    {"title", str_case<Case::kTitle>},
    {"capitalize", str_case<Case::kCapitalize>},
    {"swapcase", str_case<Case::kSwap>},
    {"find", str_find},
    {"rfind", str_rfind},
    {"index", str_index},
    {"rindex", str_rindex},
    {"count", str_count},
    {"join", str_join},
    {"format", str_format},
    {"removeprefix", str_removeprefix},
    {"removesuffix", str_removesuffix},
    {"partition", str_partition},
    {"rpartition", str_rpartition},
    {"center", str_center},
    {"ljust", str_ljust},
    {"rjust", str_rjust},
    {"zfill", str_zfill},
    {"expandtabs", str_expandtabs},
    {"encode", str_encode},
    {"isalpha", str_class<Class::kAlpha>},
    {"isdigit", str_class<Class::kDigit>},
    {"isdecimal", str_class<Class::kDecimal>},
    {"isnumeric", str_class<Class::kDigit>},
    {"isalnum", str_class<Class::kAlnum>},
    {"isupper", str_class<Class::kUpper>},
    {"islower", str_class<Class::kLower>},
    {"isspace", str_class<Class::kSpace>},
    {"istitle", str_class<Class::kTitle>},
    {"isascii", str_class<Class::kAscii>},
};
constexpr Entry kSequenceMethods[] = {{"count", seq_count}, {"index", seq_index}, {"copy", copy}};
constexpr Entry kDictMethods[] = {
    {"get", dict_get}, {"items", dict_items}, {"keys", dict_keys}, {"values", dict_values}, {"copy", copy}};
constexpr Entry kBytesMethods[] = {{"decode", bytes_decode}};

constexpr std::string_view kMutators[] = {"append", "clear",   "extend",     "insert", "pop",   "popitem",
                                          "remove", "reverse", "setdefault", "sort",   "update"};

bool blocked(const Value& object, std::string_view name) {
  if (name.starts_with("__") && name.ends_with("__")) return true;
  if (std::ranges::find(kMutators, name) == std::end(kMutators)) return false;
  if (object.is(Kind::kDict))
    return name == "clear" || name == "pop" || name == "popitem" || name == "setdefault" || name == "update";
  return object.is(Kind::kList) && name != "popitem" && name != "setdefault" && name != "update";
}

std::span<const Entry> methods_of(const Value& object) {
  switch (object.kind()) {
    case Kind::kString:
      return kStringMethods;
    case Kind::kBytes:
      return kBytesMethods;
    case Kind::kList:
      return kSequenceMethods;
    case Kind::kTuple:
      return std::span(kSequenceMethods).first(2);
    case Kind::kDict:
      return kDictMethods;
    default:
      return {};
  }
}

}  // namespace

std::optional<Value> find_method(Interpreter& run, const Value& object, std::string_view name) {
  if (blocked(object, name))
    return run.heap().undefined("access to attribute '" + std::string(name) + "' of '" +
                                    std::string(type_name(object)) + "' object is unsafe.",
                                /*unsafe=*/true);
  if (object.is(Kind::kCallable)) return object.get<Callable>().attribute(run, name);
  const std::span<const Entry> methods = methods_of(object);
  const auto found = std::ranges::find(methods, name, &Entry::name);
  if (found == methods.end()) return std::nullopt;
  return make_function(run.heap(), name, found->native, object);
}

}  // namespace met::text::jinja
