#include "text/jinja/getter.h"

#include <algorithm>
#include <charconv>

namespace met::text::jinja {

Getter::Getter(Interpreter& run, const Value& attribute, Value fallback)
    : run_(run), fallback_(std::move(fallback)) {
  if (attribute.is_none()) return;
  if (!attribute.is_string()) {
    path_.push_back(attribute);
    return;
  }
  const Value dot = run.heap().string(".");
  for (Value& part : split(run.heap(), attribute.str(), &dot.str(), -1, false)) {
    const std::string& text = part.text();
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
    const bool digits = error == std::errc{} && end == text.data() + text.size() && text[0] != '-';
    path_.push_back(digits ? Value(Int{index}) : std::move(part));
  }
}

Value Getter::operator()(const Value& item) const {
  Value v = item;
  for (const Value& part : path_) {
    v = run_.item(v, part);
    if (v.is_undefined() && !fallback_.is_none()) v = fallback_;
  }
  return v;
}

Value folded(Interpreter& run, const Value& v, bool fold) {
  return fold && v.is_string() ? change_case(run.heap(), v.str(), Case::kLower) : v;
}

Value multi_key(Interpreter& run, const Value& attribute, const Value& item, bool fold) {
  std::vector<Value> keys;
  if (!attribute.is_string()) {
    keys.push_back(folded(run, Getter(run, attribute)(item), fold));
    return run.heap().list(std::move(keys));
  }
  const Value comma = run.heap().string(",");
  for (const Value& part : split(run.heap(), attribute.str(), &comma.str(), -1, false))
    keys.push_back(folded(run, Getter(run, part)(item), fold));
  return run.heap().list(std::move(keys));
}

}  // namespace met::text::jinja
