// Records of the shared corpora: one JSON value a line.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/json.h"

namespace met::text::test {

inline std::filesystem::path source_dir() { return MET_SOURCE_DIR; }
inline std::filesystem::path shared_corpora() { return source_dir() / "../shared/corpora"; }

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return std::move(text).str();
}

inline std::vector<json::Value> read_records(const std::filesystem::path& path) {
  std::ifstream in(path);
  std::vector<json::Value> records;
  for (std::string line; std::getline(in, line);) {
    auto record = json::parse(line);
    if (record)
      records.push_back(std::move(*record));
    else
      ADD_FAILURE() << path << ": " << record.error().message;
  }
  return records;
}

inline std::string from_hex(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : (c | 32) - 'a' + 10; };
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return out;
}

inline const std::string& string_of(const json::Value& record, std::string_view key) {
  return record.find(key)->as_string();
}

}  // namespace met::text::test
