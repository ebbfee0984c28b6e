#include "core/json.h"

#include <algorithm>
#include <boost/json/basic_parser_impl.hpp>
#include <charconv>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <unordered_map>

#include "core/siphash.h"

namespace met::json {

Object::Object(std::initializer_list<Member> members) : members_(members) {}

const Value* Object::find(std::string_view key) const {
  const auto it = std::ranges::find(members_, key, &Member::first);
  return it == members_.end() ? nullptr : &it->second;
}
Value* Object::find(std::string_view key) { return const_cast<Value*>(std::as_const(*this).find(key)); }

Value& Object::set(std::string key, Value value) {
  if (Value* old = find(key)) return *old = std::move(value);
  return append(std::move(key), std::move(value));
}
Value& Object::append(std::string key, Value value) {
  return members_.emplace_back(std::move(key), std::move(value)).second;
}
bool Object::erase(std::string_view key) {
  return std::erase_if(members_, [&](const Member& m) { return m.first == key; }) > 0;
}
bool operator==(const Object& a, const Object& b) {
  return a.size() == b.size() && std::ranges::all_of(a, [&](const Object::Member& m) {
           const Value* other = b.find(m.first);
           return other != nullptr && *other == m.second;
         });
}

namespace {
std::int64_t narrow(unsigned long long v) { return static_cast<std::int64_t>(v); }
constexpr auto kInt64Max = static_cast<unsigned long long>(std::numeric_limits<std::int64_t>::max());
}  // namespace

Value::Value(unsigned long v) : Value(static_cast<unsigned long long>(v)) {}
Value::Value(unsigned long long v) {
  if (v <= kInt64Max)
    data_ = narrow(v);
  else
    data_ = static_cast<double>(v);
}

std::string_view Value::type_name() const {
  constexpr std::string_view kNames[] = {"null", "boolean", "integer", "number", "string", "array", "object"};
  return kNames[data_.index()];
}

namespace {

// Objects past this size look keys up by hash while parsing, so that a hostile document with many members
// costs n and not n squared.
constexpr std::size_t kLinearMembersMax = 32;

struct Frame {
  Value container;
  std::string key;
  std::unordered_multimap<std::size_t, std::size_t> places;  // hash of key -> member index, big objects only
};

// Receives the events of boost::json::basic_parser and keeps the text of numbers, so that from_chars decides.
class Builder {
 public:
  static constexpr std::size_t max_object_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_array_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_key_size = static_cast<std::size_t>(-1);
  static constexpr std::size_t max_string_size = static_cast<std::size_t>(-1);
  using error_code = boost::json::error_code;
  using string_view = boost::json::string_view;

  explicit Builder(const ParseLimits& limits)
      : values_max_(limits.values_max), unique_keys_(limits.unique_keys) {}
  Value take() { return std::move(root_); }
  const std::string& problem() const { return problem_; }

  bool on_document_begin(error_code&) { return true; }
  bool on_document_end(error_code&) { return true; }
  bool on_object_begin(error_code&) { return open(Value(Object{})); }
  bool on_object_end(std::size_t, error_code& ec) { return close(ec); }
  bool on_array_begin(error_code&) { return open(Value(Array{})); }
  bool on_array_end(std::size_t, error_code& ec) { return close(ec); }
  bool on_key_part(string_view s, std::size_t, error_code&) { return text_.append(s.data(), s.size()), true; }
  bool on_key(string_view s, std::size_t, error_code&) {
    text_.append(s.data(), s.size());
    stack_.back().key = std::exchange(text_, {});
    return true;
  }
  bool on_string_part(string_view s, std::size_t, error_code&) {
    return text_.append(s.data(), s.size()), true;
  }
  bool on_string(string_view s, std::size_t, error_code& ec) {
    text_.append(s.data(), s.size());
    return add(Value(std::exchange(text_, {})), ec);
  }
  bool on_number_part(string_view s, error_code&) { return text_.append(s.data(), s.size()), true; }
  bool on_int64(std::int64_t, string_view s, error_code& ec) { return number(s, ec); }
  bool on_uint64(std::uint64_t, string_view s, error_code& ec) { return number(s, ec); }
  bool on_double(double, string_view s, error_code& ec) { return number(s, ec); }
  bool on_bool(bool v, error_code& ec) { return add(Value(v), ec); }
  bool on_null(error_code& ec) { return add(Value(), ec); }
  bool on_comment_part(string_view, error_code&) { return true; }
  bool on_comment(string_view, error_code&) { return true; }

 private:
  bool number(string_view s, error_code& ec) {
    text_.append(s.data(), s.size());
    const std::string digits = std::exchange(text_, {});
    const char* end = digits.data() + digits.size();
    if (digits.find_first_of(".eE") == std::string::npos) {
      std::int64_t integer = 0;
      if (std::from_chars(digits.data(), end, integer).ec == std::errc{}) return add(Value(integer), ec);
    }
    double real = 0;
    const auto result = std::from_chars(digits.data(), end, real);
    if (result.ec == std::errc::result_out_of_range) {
      // Too small is zero; too large is no number that we can hold.
      real = std::strtod(digits.c_str(), nullptr);
      if (!std::isfinite(real)) return refuse("number " + digits.substr(0, 40) + " is out of range", ec);
    }
    return add(Value(real), ec);
  }
  bool refuse(std::string why, error_code& ec) {
    problem_ = std::move(why);
    ec = boost::json::error::syntax;
    return false;
  }
  bool open(Value container) {
    stack_.push_back({std::move(container), {}, {}});
    return true;
  }
  bool close(error_code& ec) {
    Value done = std::move(stack_.back().container);
    stack_.pop_back();
    return add(std::move(done), ec);
  }
  bool add(Value value, error_code& ec) {
    if (++values_ > values_max_) return refuse("more than " + std::to_string(values_max_) + " values", ec);
    if (stack_.empty()) {
      root_ = std::move(value);
    } else if (Frame& top = stack_.back(); top.container.is_array()) {
      top.container.as_array().push_back(std::move(value));
    } else {
      return add_member(top, std::move(value), ec);
    }
    return true;
  }
  bool add_member(Frame& top, Value value, error_code& ec) {
    Object& object = top.container.as_object();
    Value* old = nullptr;
    if (object.size() < kLinearMembersMax) {
      old = object.find(top.key);
    } else {
      old = find_by_hash(top, object);
    }
    if (old != nullptr) {
      if (unique_keys_) return refuse("the key " + shown(top.key) + " stands in one object twice", ec);
      *old = std::move(value);
      return true;
    }
    if (object.size() >= kLinearMembersMax) top.places.emplace(hash(top.key), object.size());
    object.append(std::move(top.key), std::move(value));
    return true;
  }
  static Value* find_by_hash(Frame& top, Object& object) {
    if (top.places.empty())
      for (std::size_t i = 0; i < object.size(); ++i) top.places.emplace(hash(member(object, i).first), i);
    const auto [first, last] = top.places.equal_range(hash(top.key));
    for (auto it = first; it != last; ++it)
      if (member(object, it->second).first == top.key) return &member(object, it->second).second;
    return nullptr;
  }
  // Keyed by chance once a process, so that nobody can prepare keys that collide.
  static std::size_t hash(std::string_view key) {
    static const SipKey secret = [] {
      SipKey bytes;
      std::random_device device;
      for (auto& b : bytes) b = static_cast<std::uint8_t>(device());
      return bytes;
    }();
    return siphash128(secret, std::as_bytes(std::span(key))).low;
  }
  static Object::Member& member(Object& object, std::size_t i) {
    return *(object.begin() + static_cast<std::ptrdiff_t>(i));
  }
  static std::string shown(std::string_view key) {
    std::string out;
    write_string(key.substr(0, 80), out);
    return out;
  }

  std::size_t values_max_;
  bool unique_keys_;
  std::size_t values_ = 0;
  std::vector<Frame> stack_;
  std::string text_;
  std::string problem_;
  Value root_;
};

}  // namespace

Result<Value> parse(std::string_view text, const ParseLimits& limits) {
  boost::json::parse_options options;
  options.max_depth = limits.depth_max;
  boost::json::basic_parser<Builder> parser(options, limits);
  boost::json::error_code ec;
  const std::size_t used = parser.write_some(false, text.data(), text.size(), ec);
  if (!ec && used < text.size()) ec = boost::json::error::extra_data;
  if (ec) {
    const std::string& problem = parser.handler().problem();
    return fail(ErrorCode::kInvalidArgument, "JSON error at byte " + std::to_string(used) + ": " +
                                                 (problem.empty() ? ec.message() : problem));
  }
  return parser.handler().take();
}

}  // namespace met::json
