#include "text/jinja/value.h"

#include <algorithm>
#include <cmath>

#include "core/utf8.h"
#include "text/jinja/strings.h"

namespace met::text::jinja {

namespace {

constexpr int kContainerDepthMax = 200;  // bounds every recursion over a value, destructors included

int depth_of(const Value& v) {
  if (v.is_sequence()) return v.seq().depth;
  if (v.is(Kind::kDict)) return v.dict().depth;
  return 0;
}

int nested(int depth) {
  if (depth >= kContainerDepthMax)
    raise(FailureKind::kLimit,
          "containers nest deeper than " + std::to_string(kContainerDepthMax) + " levels");
  return depth + 1;
}

int depth_over(const std::vector<Value>& items) {
  int depth = 0;
  for (const Value& v : items) depth = std::max(depth, depth_of(v));
  return nested(depth);
}

bool is_ascii(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

}  // namespace

std::optional<Value> Callable::attribute(Interpreter&, std::string_view) const { return std::nullopt; }

void Heap::adopt(Object& object, std::size_t bytes) const {
  if (budget_ == nullptr) return;
  budget_->take(bytes);
  object.budget = budget_;
  object.charged = bytes;
}

Value Heap::string(std::string text, std::vector<ByteRange> untrusted, bool markup) const {
  auto s = std::make_shared<Str>();
  adopt(*s, sizeof(Str) + text.capacity() + untrusted.capacity() * sizeof(ByteRange));
  scan(text.size());
  s->ascii = is_ascii(text);
  s->text = std::move(text);
  s->untrusted = std::move(untrusted);
  s->markup = markup;
  return {Kind::kString, std::move(s)};
}

Value Heap::sequence(Kind kind, std::vector<Value> items) const {
  auto seq = std::make_shared<Seq>();
  adopt(*seq, sizeof(Seq) + items.capacity() * sizeof(Value));
  scan(items.size());
  seq->depth = depth_over(items);
  seq->items = std::move(items);
  return {kind, std::move(seq)};
}

Value Heap::dict(std::vector<std::pair<Value, Value>> members) const {
  auto dict = std::make_shared<Dict>();
  adopt(*dict, sizeof(Dict) + members.capacity() * 2 * sizeof(Value));
  int depth = 0;
  for (const auto& [k, v] : members) depth = std::max({depth, depth_of(k), depth_of(v)});
  dict->depth = nested(depth);
  dict->members = std::move(members);
  return {Kind::kDict, std::move(dict)};
}

Value Heap::iterator(std::vector<Value> items, std::string_view type) const {
  auto it = std::make_shared<Iterator>();
  adopt(*it, sizeof(Iterator) + items.capacity() * sizeof(Value));
  depth_over(items);
  it->items = std::move(items);
  it->type = type;
  return {Kind::kIterator, std::move(it)};
}

Value Heap::view(std::vector<Value> items, std::string_view type) const {
  auto view = std::make_shared<View>();
  adopt(*view, sizeof(View) + items.capacity() * sizeof(Value));
  depth_over(items);
  view->items = std::move(items);
  view->type = type;
  return {Kind::kView, std::move(view)};
}

Value Heap::range(std::int64_t start, std::int64_t stop, std::int64_t step) const {
  auto range = std::make_shared<Range>();
  range->start = start;
  range->stop = stop;
  range->step = step;
  const Int span = step > 0 ? Int{stop} - start : Int{start} - stop;
  const Int stride = step > 0 ? Int{step} : -Int{step};
  range->size = span <= 0 ? 0 : static_cast<std::int64_t>((span + stride - 1) / stride);
  return {Kind::kRange, std::move(range)};
}

Value Heap::undefined(std::string message, bool unsafe) const {
  auto info = std::make_shared<UndefinedInfo>();
  info->message = std::move(message);
  info->unsafe = unsafe;
  return {Kind::kUndefined, std::move(info)};
}

std::string_view type_name(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
      return "Undefined";
    case Kind::kNone:
      return "NoneType";
    case Kind::kBool:
      return "bool";
    case Kind::kInt:
      return "int";
    case Kind::kFloat:
      return "float";
    case Kind::kString:
      return "str";
    case Kind::kBytes:
      return "bytes";
    case Kind::kList:
      return "list";
    case Kind::kTuple:
      return "tuple";
    case Kind::kDict:
      return "dict";
    case Kind::kRange:
      return "range";
    case Kind::kIterator:
      return v.get<Iterator>().type;
    case Kind::kView:
      return v.get<View>().type;
    case Kind::kNamespace:
      return "Namespace";
    case Kind::kCallable:
      break;
  }
  return "function";
}

std::string object_name(const Value& v) {
  if (v.is_none()) return "None";
  return std::string(type_name(v)) + " object";
}

bool truthy(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return false;
    case Kind::kBool:
    case Kind::kInt:
      return v.as_int() != 0;
    case Kind::kFloat:
      return v.as_float() != 0.0;
    case Kind::kString:
    case Kind::kBytes:
      return !v.text().empty();
    case Kind::kList:
    case Kind::kTuple:
      return !v.seq().items.empty();
    case Kind::kDict:
      return !v.dict().members.empty();
    case Kind::kRange:
      return v.get<Range>().size != 0;
    case Kind::kView:
      return !v.get<View>().items.empty();
    case Kind::kIterator:
    case Kind::kNamespace:
    case Kind::kCallable:
      break;
  }
  return true;
}

bool equal(const Value& a, const Value& b, int depth) {
  nested(depth);
  if (a.is_number() && b.is_number()) {
    if (a.is_int() && b.is_int()) return a.as_int() == b.as_int();
    return a.as_float() == b.as_float();
  }
  if (a.kind() != b.kind()) return false;
  switch (a.kind()) {
    case Kind::kUndefined:
    case Kind::kNone:
      return true;
    case Kind::kString:
    case Kind::kBytes:
      return a.text() == b.text();
    case Kind::kList:
    case Kind::kTuple:
      return std::ranges::equal(a.seq().items, b.seq().items,
                                [&](const Value& x, const Value& y) { return equal(x, y, depth + 1); });
    case Kind::kDict: {
      const auto& x = a.dict().members;
      const auto& y = b.dict().members;
      if (x.size() != y.size()) return false;
      return std::ranges::all_of(x, [&](const auto& member) {
        return std::ranges::any_of(y, [&](const auto& other) {
          return equal(member.first, other.first, depth + 1) && equal(member.second, other.second, depth + 1);
        });
      });
    }
    case Kind::kRange: {
      const auto& x = a.get<Range>();
      const auto& y = b.get<Range>();
      return x.size == y.size && (x.size == 0 || (x.start == y.start && (x.size == 1 || x.step == y.step)));
    }
    default:
      return a.object() == b.object();
  }
}

int compare(const Value& a, const Value& b, std::string_view op, int depth) {
  nested(depth);
  require_defined(a);
  require_defined(b);
  if (a.is_number() && b.is_number()) {
    if (a.is_int() && b.is_int()) return a.as_int() < b.as_int() ? -1 : a.as_int() > b.as_int();
    return a.as_float() < b.as_float() ? -1 : a.as_float() > b.as_float();
  }
  if (a.is_string() && b.is_string()) {
    const int order = a.text().compare(b.text());  // UTF-8 orders as code points do
    return order < 0 ? -1 : order > 0;
  }
  if (a.is_sequence() && a.kind() == b.kind()) {
    const auto& x = a.seq().items;
    const auto& y = b.seq().items;
    for (std::size_t i = 0; i < std::min(x.size(), y.size()); ++i)
      if (!equal(x[i], y[i], depth + 1)) return compare(x[i], y[i], op, depth + 1);
    return x.size() < y.size() ? -1 : x.size() > y.size();
  }
  type_error("'" + std::string(op) + "' not supported between instances of '" + std::string(type_name(a)) +
             "' and '" + std::string(type_name(b)) + "'");
}

void require_defined(const Value& v) {
  if (!v.is_undefined()) return;
  if (v.object() == nullptr) raise(FailureKind::kUndefined, "the value is undefined");
  const auto& info = v.get<UndefinedInfo>();
  raise(info.unsafe ? FailureKind::kSecurity : FailureKind::kUndefined, info.message);
}

std::string int_text(Int v) {
  if (v == 0) return "0";
  const bool negative = v < 0;
  std::string digits;
  while (v != 0) {
    const int digit = static_cast<int>(v % 10);
    digits += static_cast<char>('0' + (digit < 0 ? -digit : digit));
    v /= 10;
  }
  if (negative) digits += '-';
  std::ranges::reverse(digits);
  return digits;
}

std::optional<std::size_t> length(const Value& v) {
  switch (v.kind()) {
    case Kind::kUndefined:
      return 0;
    case Kind::kString:
      return code_points(v.str());
    case Kind::kBytes:
      return v.text().size();
    case Kind::kList:
    case Kind::kTuple:
      return v.seq().items.size();
    case Kind::kDict:
      return v.dict().members.size();
    case Kind::kRange:
      return static_cast<std::size_t>(v.get<Range>().size);
    case Kind::kView:
      return v.get<View>().items.size();
    default:
      return std::nullopt;
  }
}

std::vector<Value> iterate(const Heap& heap, const Value& v) {
  std::vector<Value> items;
  switch (v.kind()) {
    case Kind::kUndefined:
      return items;
    case Kind::kString:
      return characters(heap, v.str());
    case Kind::kList:
    case Kind::kTuple:
      heap.scan(v.seq().items.size());
      return v.seq().items;
    case Kind::kDict:
      for (const auto& member : v.dict().members) items.push_back(member.first);
      break;
    case Kind::kRange: {
      const auto& r = v.get<Range>();
      heap.step(static_cast<std::uint64_t>(r.size));
      for (std::int64_t i = 0; i < r.size; ++i) items.emplace_back(Int{r.start} + Int{r.step} * i);
      break;
    }
    case Kind::kIterator: {
      const auto& it = v.get<Iterator>();
      items.assign(it.items.begin() + static_cast<std::ptrdiff_t>(it.next), it.items.end());
      it.next = it.items.size();
      break;
    }
    case Kind::kView:
      items = v.get<View>().items;
      break;
    case Kind::kBytes:
      for (const char c : v.text()) items.emplace_back(int{static_cast<unsigned char>(c)});
      break;
    default:
      type_error("'" + std::string(type_name(v)) + "' object is not iterable");
  }
  heap.scan(items.size());
  return items;
}

const Value* find_key(const Heap& heap, const Dict& dict, const Value& key) {
  heap.scan(dict.members.size() * 8);
  if (key.is(Kind::kList) || key.is(Kind::kDict))
    type_error("unhashable type: '" + std::string(type_name(key)) + "'");
  if (key.is_string()) return find_key(dict, key.text());
  for (const auto& [k, v] : dict.members)
    if (equal(k, key)) return &v;
  return nullptr;
}

const Value* find_key(const Dict& dict, std::string_view key) {
  for (const auto& [k, v] : dict.members)
    if (k.is_string() && k.text() == key) return &v;
  return nullptr;
}

void set_key(const Heap& heap, std::vector<std::pair<Value, Value>>& members, Value key, Value value) {
  heap.scan(members.size() * 8);
  if (key.is(Kind::kList) || key.is(Kind::kDict))
    type_error("unhashable type: '" + std::string(type_name(key)) + "'");
  for (auto& [k, v] : members) {
    if (equal(k, key)) {
      v = std::move(value);
      return;
    }
  }
  members.emplace_back(std::move(key), std::move(value));
}

}  // namespace met::text::jinja
