// Objects: declared members in order, then patterned and other ones.
#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "core/concat.h"
#include "core/utf8.h"
#include "grammar/regex.h"
#include "grammar/schema.h"
#include "grammar/trie.h"

namespace met::grammar {
namespace {

using V = json::Value;

constexpr std::int64_t kCountedStatesMax = 20'000;
constexpr std::size_t kNameBytesMax = 1U << 16;
constexpr std::size_t kNameMax = 512;
constexpr std::size_t kDeclaredMax = 5000;
constexpr std::size_t kRunMax = 16;

bool is_closed(const Together& schemas) {
  return std::ranges::find(schemas, &SchemaReader::nothing()) != schemas.end() ||
         std::ranges::any_of(schemas, [](const V* s) { return s->is_bool() && !s->as_bool(); });
}

/// `more`: any text of characters of `plain`.
Node outside(const Trie& trie, const CharSet& plain, const Node& more) {
  CharSet taken;
  std::vector<Node> out;
  if (!trie.ends) out.push_back(empty_text());
  for (const auto& [c, below] : trie.next) {
    taken.add(c, c);
    std::string one;
    utf8::append(c, one);
    out.push_back(all({text(one), outside(below, plain, more)}));
  }
  out.push_back(all({chars(plain.intersect(taken.complement())), more}));
  return any(std::move(out));
}

}  // namespace

Node other_keys(const std::vector<std::string>& names, const CharSet& plain, const Node& more) {
  Trie trie;
  for (const std::string& name : names) insert(trie, name, plain);
  return outside(trie, plain, more);
}

/// What an object may hold, as key and value together.
struct SchemaLowering::Members {
  struct One {
    Node node;
    bool required = false;
  };
  std::vector<One> declared;
  std::int64_t required = 0;
  Node more = never();    ///< any other member
  bool keywords = false;  ///< they are arguments of a call that is no JSON object
};

Result<> SchemaLowering::add_declared(const Shape& s, const std::string& where, Members& out) {
  std::vector<std::string> names;
  for (const Property& property : s.properties) names.push_back(property.name);
  const PropertyIndex index(s);
  for (const std::string& name : s.required)
    if (index.find(name) == nullptr) names.push_back(name);
  for (const std::string& name : names) {
    MET_TRY(reader_.spend(where, 1 + std::ssize(s.patterns)));
    Node node = never();
    bool named = true;
    if (s.names) {
      MET_ASSIGN(named, reader_.holds(*s.names, V(name)));
    }
    const Together schemas = s.about(name, index.find(name));
    if (named && !is_closed(schemas)) {
      MET_ASSIGN(const Node name_node, key(name, where, out.keywords));
      MET_ASSIGN(node, out.keywords ? argument(name_node, schemas, member_types(document_, name))
                                    : json_member(name_node, schemas));
    }
    const bool required = s.required.contains(name);
    if (!required && node->kind == Expr::Kind::kNever) continue;
    out.declared.push_back({std::move(node), required});
    out.required += required ? 1 : 0;
  }
  return {};
}

Result<> SchemaLowering::add_patterned(const Shape& s, const std::string& where, Members& out) {
  if (out.keywords)
    return unsupported(where + "/patternProperties",
                       "names of arguments cannot be held to a pattern in this model's calls");
  std::vector<Node> members;
  std::vector<std::string> prefixes;
  for (std::size_t i = 0; i < s.patterns.size(); ++i) {
    const Property& entry = s.patterns[i];
    const RegexNode& regex = entry.regex;
    MET_TRY(reader_.spend(where, 1 + std::ssize(s.properties)));
    const std::string prefix = literal_prefix(regex);
    for (std::size_t j = 0; j < i; ++j) {
      if (s.patterns[j].schemas == entry.schemas) continue;
      const std::string& other = prefixes[j];
      if (prefix.starts_with(other) || other.starts_with(prefix))
        return unsupported(where + "/patternProperties",
                           "keys may match two of the patterns: begin each with ^ and another literal");
    }
    prefixes.push_back(prefix);
    if (s.names) return unsupported(where + "/propertyNames", "it is not enforced beside patternProperties");
    if (is_closed(entry.schemas)) continue;
    const bool hidden = std::ranges::any_of(
        s.properties, [&](const Property& p) { return matches(regex, p.name, Unanchored::kSearch); });
    if (hidden) continue;  // its keys would have to differ from the declared ones: they are not offered
    MET_ASSIGN(const Node content, value(entry.schemas));
    MET_ASSIGN(const Node matching, pattern_string(regex, 0, kNoEnd));
    members.push_back(member(matching, content));
  }
  out.more = any(std::move(members));
  return {};
}

Result<> SchemaLowering::add_others(const Shape& s, const std::string& where, Members& out) {
  const bool silent = !s.others;
  const bool wanted = s.min_properties > static_cast<std::int64_t>(out.declared.size());
  // Who declares properties and says nothing of others means these; who declares none means any.
  if (silent && !s.properties.empty() && !wanted) return {};
  const Together schemas = s.others.value_or(Together{});
  if (is_closed(schemas)) return {};
  Node name = free_key({}, out.keywords);
  if (s.names) {
    if (out.keywords)
      return unsupported(where + "/propertyNames",
                         "names of arguments cannot be held to a schema in this model's calls");
    for (const Property& property : s.properties) {
      MET_ASSIGN(const bool named, reader_.holds(*s.names, V(property.name)));
      if (named) return {};
    }
    MET_ASSIGN(const std::vector<Shape> shapes, reader_.shapes(*s.names));
    std::vector<Node> keys;
    for (Shape one : shapes) {
      one.types &= kString;
      if (one.types == 0) continue;
      const std::string place = where + "/propertyNames";
      MET_ASSIGN(Node node, one.values ? listed_values(one, place) : string_value(one, place));
      keys.push_back(std::move(node));
    }
    name = any(std::move(keys));
  } else if (!out.declared.empty() || !s.properties.empty()) {
    std::vector<std::string> names;
    std::size_t bytes = 0;
    for (const Property& property : s.properties) names.push_back(property.name);
    names.insert(names.end(), s.required.begin(), s.required.end());
    for (const std::string& taken : names) {
      bytes += taken.size();
      if (taken.size() > kNameMax || bytes > kNameBytesMax) return {};
    }
    name = free_key(std::move(names), out.keywords);
  }
  MET_ASSIGN(Node more, out.keywords ? argument(name, schemas, member_types(document_, std::nullopt))
                                     : json_member(name, schemas));
  const int number = rules_.add("more");
  rules_.define(number, std::move(more));
  out.more = rule(number);
  return {};
}

Result<SchemaLowering::Members> SchemaLowering::members_of(const Shape& s, const std::string& where,
                                                           bool keywords) {
  if (s.properties.size() + s.required.size() > 2 * kDeclaredMax)
    return unsupported(where + "/properties", concat("there are more than ", kDeclaredMax));
  Members out;
  out.keywords = keywords;
  MET_TRY(add_declared(s, where, out));
  if (!s.patterns.empty()) {
    MET_TRY(add_patterned(s, where, out));
  } else {
    MET_TRY(add_others(s, where, out));
  }
  return out;
}

/// Members `first` to `last` where their number does not matter: at least one of them, by halves. What may follow a
/// member is then a few rules deep, not as many as there are members behind it.
SchemaLowering::Run SchemaLowering::run_of(const Members& m, std::size_t first, std::size_t last) {
  const bool open = m.more->kind != Expr::Kind::kNever;
  if (first == m.declared.size() && open)
    return {all({m.more, repeat(all({separator(m.keywords), m.more}), 0, kNoEnd)}), true};
  if (first == last) return {never(), true};
  if (last - first == 1) return {m.declared[first].node, !m.declared[first].required};
  const std::size_t middle = first + (last - first) / 2;
  Run left = run_of(m, first, middle);
  Run right = run_of(m, middle, last);
  const auto make_rule = [&](Node& node) {
    if (node->kind == Expr::Kind::kNever) return;
    const int number = rules_.add("members");
    rules_.define(number, std::move(node));
    node = rule(number);
  };
  // What is used twice, and runs that grow long, become rules: the text stays short, and so do sequences, whose
  // lengths the engine takes squared.
  const std::size_t count = last - middle;
  if (count > 1 && (left.may_be_absent || count >= kRunMax)) make_rule(right.some);
  if (count >= kRunMax) make_rule(left.some);
  const Node follows = all({separator(m.keywords), right.some});
  Node some = all({left.some, right.may_be_absent ? maybe(follows) : follows});
  if (left.may_be_absent) some = any({std::move(some), right.some});
  return {std::move(some), left.may_be_absent && right.may_be_absent};
}

Result<Node> SchemaLowering::member_list(const Shape& s, const Members& m, const std::string& where) {
  const auto total = static_cast<std::int64_t>(m.declared.size());
  const bool open = m.more->kind != Expr::Kind::kNever;
  const std::int64_t least = std::max(s.min_properties, m.required);
  const bool counts_least = s.min_properties > m.required;
  const bool counts_most = s.max_properties != kNoEnd && (open || s.max_properties < total);
  const bool counts = counts_least || counts_most;
  // Free keys may repeat, and equal ones are one member: of what the least asks for they give at most one.
  if (counts_least && open && least > total + 1)
    return unsupported(where + "/minProperties",
                       "keys that are not declared may repeat, so their number is not enforced beyond 1");
  // Beyond `cap` members the number no longer matters.
  const std::int64_t cap = counts_most ? s.max_properties : least;
  if (!counts) return run_of(m, 0, m.declared.size() + (open ? 1 : 0)).some;
  if (total * (cap + 1) > kCountedStatesMax)
    return unsupported(where + (counts_most ? "/maxProperties" : "/minProperties"),
                       "with so many properties it is not enforced");
  // How many members may stand before declared member i.
  std::vector<std::set<std::int64_t>> before(m.declared.size() + 1);
  before[0] = {0};
  const auto next_count = [&](std::int64_t count) { return std::min(count + 1, cap); };
  const auto is_full = [&](std::int64_t count) { return counts_most && count == s.max_properties; };
  for (std::size_t i = 0; i < m.declared.size(); ++i) {
    for (const std::int64_t count : before[i]) {
      if (!is_full(count)) before[i + 1].insert(next_count(count));
      if (!m.declared[i].required) before[i + 1].insert(count);
    }
  }
  const auto at_end = [&](std::int64_t count) -> Node {
    const std::int64_t need = std::max<std::int64_t>(least - count, 0);
    if (need > 1 && open) return never();
    const std::int64_t room = counts_most ? s.max_properties - count : kNoEnd;
    if (room == 0) return need == 0 ? empty_text() : never();
    if (count > 0) return repeat(all({separator(m.keywords), m.more}), need, room);
    const std::int64_t rest_room = room == kNoEnd ? kNoEnd : room - 1;
    return all({m.more, repeat(all({separator(m.keywords), m.more}), std::max<std::int64_t>(need - 1, 0),
                               rest_room)});
  };
  // What may stand from member i on, from the back: no recursion is as deep as the object is wide.
  std::map<std::int64_t, Node> from;
  for (const std::int64_t count : before.back()) from[count] = at_end(count);
  for (std::size_t i = m.declared.size(); i-- > 0;) {
    const Members::One& one = m.declared[i];
    std::map<std::int64_t, Node> here;
    for (const std::int64_t count : before[i]) {
      Node taken = never();
      if (!is_full(count))
        taken = all({count > 0 ? separator(m.keywords) : empty_text(), one.node, from[next_count(count)]});
      Node node = one.required ? taken : any({taken, from[count]});
      if (node->kind != Expr::Kind::kNever && (!one.required || i % kRunMax == 0)) {
        const int number = rules_.add("members");
        rules_.define(number, std::move(node));
        node = rule(number);
      }
      here[count] = std::move(node);
    }
    from = std::move(here);
  }
  return from[0];
}

Result<Node> SchemaLowering::object_value(const Shape& s, const std::string& where) {
  const bool says_nothing = s.properties.empty() && s.patterns.empty() && !s.others && !s.names &&
                            s.required.empty() && s.min_properties == 0 && s.max_properties == kNoEnd;
  if (says_nothing) return any_object();
  if (s.max_properties != kNoEnd && s.max_properties < s.min_properties) return never();
  MET_ASSIGN(const Members members, members_of(s, where, /*keywords=*/false));
  MET_ASSIGN(const Node list, member_list(s, members, where));
  const bool may_be_empty = members.required == 0 && s.min_properties == 0;
  Node body = all({list, blank()});
  if (s.max_properties == 0) body = never();
  if (may_be_empty) body = maybe(std::move(body));
  return all({text("{"), blank(), std::move(body), text("}")});
}

Result<Node> SchemaLowering::keyword_arguments(const Shape& s, const std::string& where) {
  if (s.max_properties != kNoEnd && s.max_properties < s.min_properties) return never();
  MET_ASSIGN(const Members members, members_of(s, where, /*keywords=*/true));
  MET_ASSIGN(Node list, member_list(s, members, where));
  if (s.max_properties == 0) list = never();
  return members.required == 0 && s.min_properties == 0 ? maybe(std::move(list)) : list;
}

}  // namespace met::grammar
