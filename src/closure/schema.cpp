#include "closure/schema.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "closure/toml.h"

namespace met::closure {
namespace {

std::pair<std::string_view, std::string_view> split(std::string_view path) {
  const auto dot = path.find('.');
  if (dot == std::string_view::npos) return {path, {}};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

bool has_kind(const json::Value& v, Kind kind) {
  switch (kind) {
    case Kind::kString:
      return v.is_string();
    case Kind::kInt:
      return v.is_int();
    case Kind::kNumber:
      return v.is_number();
    case Kind::kBool:
      return v.is_bool();
    case Kind::kStrings:
      return v.is_array() && std::ranges::all_of(v.as_array(), [](const auto& e) { return e.is_string(); });
  }
  return false;
}

std::string_view kind_name(Kind kind) {
  constexpr std::string_view kNames[] = {"a string", "an integer", "a number", "a boolean",
                                         "an array of strings"};
  return kNames[static_cast<int>(kind)];
}

struct Tail {
  std::string_view path;  // what is left of a row's path below the current table
  const SchemaRow* row;
};

class Checker {
 public:
  explicit Checker(const std::string& file) : file_(file) {}

  Result<> table(const json::Value& value, const std::vector<Tail>& rows, const std::string& prefix) {
    for (const auto& [key, member] : value.as_object()) MET_TRY(entry(key, member, rows, prefix));
    return {};
  }

 private:
  Result<> entry(const std::string& key, const json::Value& value, const std::vector<Tail>& rows,
                 const std::string& prefix) {
    const std::string name = prefix + key;
    std::vector<Tail> below;
    const SchemaRow* leaf = nullptr;
    bool array = false;
    for (const Tail& tail : rows) {
      auto [head, rest] = split(tail.path);
      const bool is_array = head.ends_with("[]");
      if (is_array) head.remove_suffix(2);
      if (head != "*" && head != key) continue;
      if (rest.empty()) leaf = tail.row;
      if (!rest.empty()) below.push_back({rest, tail.row});
      array |= is_array;
    }
    if (leaf && has_kind(value, leaf->kind)) return {};
    if (leaf && below.empty())
      return invalid(file_, "key " + name + " must be " + std::string(kind_name(leaf->kind)) + ", not " +
                                std::string(value.type_name()));
    if (below.empty()) return invalid(file_, "unknown key " + name);
    if (array) return tables(value, below, name);
    if (!value.is_object()) return invalid(file_, "key " + name + " must be a table");
    return table(value, below, name + ".");
  }

  Result<> tables(const json::Value& value, const std::vector<Tail>& rows, const std::string& name) {
    if (!value.is_array()) return invalid(file_, "key " + name + " must be an array of tables");
    for (const auto& element : value.as_array()) {
      if (!element.is_object()) return invalid(file_, "key " + name + " must be an array of tables");
      MET_TRY(table(element, rows, name + "[]."));
      for (const Tail& tail : rows)
        if (tail.row->required && !element.find(tail.path))
          return invalid(file_, "key " + name + "[]." + std::string(tail.path) + " is missing");
    }
    return {};
  }

  const std::string& file_;
};

}  // namespace

Result<> check_schema(const json::Value& root, std::span<const SchemaRow> rows, const std::string& file) {
  std::vector<Tail> tails;
  for (const SchemaRow& row : rows) tails.push_back({row.path, &row});
  MET_TRY(Checker(file).table(root, tails, ""));
  for (const SchemaRow& row : rows)
    if (row.required && row.path.find("[]") == std::string_view::npos && !at(root, row.path))
      return invalid(file, "key " + std::string(row.path) + " is missing");
  return {};
}

Result<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return fail(ErrorCode::kIo, "cannot be read", path.string());
  return std::string(std::istreambuf_iterator<char>(in), {});
}

Result<json::Value> read_manifest(const std::filesystem::path& path, const std::string& name,
                                  std::span<const SchemaRow> rows) {
  MET_ASSIGN(const std::string text, read_text(path));
  MET_ASSIGN(json::Value root, parse_toml(text, name));
  MET_TRY(check_schema(root, rows, name));
  return root;
}

const json::Value* at(const json::Value& root, std::string_view path) {
  const auto [head, rest] = split(path);
  const json::Value* value = root.find(head);
  return value == nullptr || rest.empty() ? value : at(*value, rest);
}

std::string string_at(const json::Value& root, std::string_view path) {
  const json::Value* v = at(root, path);
  return v ? v->as_string() : std::string();
}

int int_at(const json::Value& root, std::string_view path) {
  const json::Value* v = at(root, path);
  return v ? static_cast<int>(v->as_int()) : 0;
}

std::vector<std::string> strings_at(const json::Value& root, std::string_view path) {
  std::vector<std::string> out;
  if (const json::Value* v = at(root, path))
    for (const auto& e : v->as_array()) out.push_back(e.as_string());
  return out;
}

}  // namespace met::closure
