// What a TOML file of the tree may hold, as rows: everything else is an error that names file and key.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.h"

namespace met::closure {

enum class Kind { kString, kInt, kNumber, kBool, kStrings };

/// One allowed key. `path` is dotted; `*` stands for any one key, `name[]` for each table of an array.
struct SchemaRow {
  std::string_view path;
  Kind kind;
  bool required = false;
};

/// Errors: an unknown key, a value of the wrong kind, a missing required key. Required rows have no wildcard.
Result<> check_schema(const json::Value& root, std::span<const SchemaRow> rows, const std::string& file);

/// Reads and parses a file and checks it. `name` is what messages call it.
Result<json::Value> read_manifest(const std::filesystem::path& path, const std::string& name,
                                  std::span<const SchemaRow> rows);

/// The whole file. Errors: kIo.
Result<std::string> read_text(const std::filesystem::path& path);

// Values of a checked document at a dotted path.
const json::Value* at(const json::Value& root, std::string_view path);
std::string string_at(const json::Value& root, std::string_view path);
int int_at(const json::Value& root, std::string_view path);
std::vector<std::string> strings_at(const json::Value& root, std::string_view path);

}  // namespace met::closure
