#include "text/jinja/template.h"

#include <algorithm>
#include <new>

#include "text/jinja/interpreter.h"
#include "text/jinja/parser.h"

namespace met::text::jinja {

struct Template::Compiled {
  Tree tree;
};

Template::Template() = default;
Template::~Template() = default;

Error RenderError::error() const {
  if (kind == FailureKind::kRaised) return {ErrorCode::kInvalidArgument, message, "chat_template"};
  return {ErrorCode::kInvalidArgument,
          "line " + std::to_string(line) + ", column " + std::to_string(column) + ": " + message,
          "chat_template"};
}

namespace {

RenderError to_error(const Failure& f) { return {f.kind, f.message, f.line, f.column}; }

Value convert(const Heap& heap, const json::Value& from, bool untrusted) {
  const auto string = [&](const std::string& text) {
    std::vector<ByteRange> marks;
    if (untrusted && !text.empty()) marks.push_back({0, text.size()});
    return heap.string(text, std::move(marks));
  };
  if (from.is_null()) return Value::none();
  if (from.is_bool()) return from.as_bool();
  if (from.is_int()) return Int{from.as_int()};
  if (from.is_double()) return from.as_number();
  if (from.is_string()) return string(from.as_string());
  if (from.is_array()) {
    std::vector<Value> items;
    items.reserve(from.as_array().size());
    for (const json::Value& v : from.as_array()) items.push_back(convert(heap, v, untrusted));
    return heap.list(std::move(items));
  }
  std::vector<std::pair<Value, Value>> members;
  members.reserve(from.as_object().size());
  for (const auto& [key, value] : from.as_object())
    members.emplace_back(string(key), convert(heap, value, untrusted));
  return heap.dict(std::move(members));
}

}  // namespace

std::expected<std::shared_ptr<const Template>, RenderError> Template::compile(std::string_view source,
                                                                              const Limits& limits) {
  try {
    std::shared_ptr<Template> t(new Template);
    t->compiled_ = std::make_unique<Compiled>(Compiled{parse(source, limits)});
    t->limits_ = limits;
    for (const Unknown& u : t->compiled_->tree.unknown)
      t->warnings_.push_back("line " + std::to_string(u.at.line) + ", column " + std::to_string(u.at.column) +
                             ": there is no " + u.what);
    return t;
  } catch (const Failure& failure) {
    return std::unexpected(to_error(failure));
  } catch (const std::bad_alloc&) {
    return std::unexpected(RenderError{FailureKind::kLimit, "out of memory", 0, 0});
  }
}

std::expected<Rendered, RenderError> Template::render(const std::vector<Variable>& variables,
                                                      const std::tm& now) const {
  try {
    Interpreter run(compiled_->tree, limits_, now);
    for (const Variable& v : variables)
      if (mentions(v.name)) run.set_global(v.name, convert(run.heap(), *v.value, v.untrusted));
    StrBuilder out(run.heap());
    run.run(out);
    return Rendered{out.text(), out.untrusted()};
  } catch (const Failure& failure) {
    return std::unexpected(to_error(failure));
  } catch (const std::bad_alloc&) {
    return std::unexpected(RenderError{FailureKind::kLimit, "out of memory", 0, 0});
  }
}

bool Template::mentions(std::string_view name) const {
  return std::ranges::find(compiled_->tree.symbols, name) != compiled_->tree.symbols.end();
}

}  // namespace met::text::jinja
