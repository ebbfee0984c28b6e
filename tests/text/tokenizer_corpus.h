// Runs one tokenizer over one file of the corpora (records: see the corpora's README).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/sha256.h"
#include "tests/text/corpus.h"
#include "text/tokenizer/stream_decoder.h"
#include "text/tokenizer/tokenizer.h"

namespace met::text::test {

struct CorpusOptions {
  bool compare_decode = true;  ///< false: the library's own rules of decoding are not ours
  bool compare_add = true;
  bool compare_raw = true;
};

/// Counts by kind of check: passed and all.
struct CorpusCounts {
  std::map<std::string, std::pair<int, int>> by_kind;
  std::vector<std::string> failures;  ///< the first few, for messages

  void note(const std::string& kind, bool ok, const std::string& what) {
    auto& [passed, all] = by_kind[kind];
    ++all;
    passed += ok ? 1 : 0;
    if (!ok && failures.size() < 8) failures.push_back(kind + " " + what);
  }
  bool perfect() const {
    return !by_kind.empty() &&
           std::ranges::all_of(by_kind, [](const auto& e) { return e.second.first == e.second.second; });
  }
  std::string summary() const {
    std::string out;
    for (const auto& [kind, n] : by_kind)
      out += " " + kind + " " + std::to_string(n.first) + "/" + std::to_string(n.second);
    return out;
  }
};

inline std::vector<TokenId> ids_of(const json::Value& list) {
  std::vector<TokenId> out;
  for (const json::Value& v : list.as_array()) out.push_back(static_cast<TokenId>(v.as_int()));
  return out;
}

inline std::string show(std::span<const TokenId> ids) {
  std::string out = "[";
  for (std::size_t i = 0; i < ids.size() && i < 40; ++i) out += (i == 0 ? "" : ",") + std::to_string(ids[i]);
  return out + "]";
}

class CorpusRun {
 public:
  CorpusRun(const Tokenizer& tokenizer, CorpusOptions options) : tokenizer_(tokenizer), options_(options) {}

  CorpusCounts run(const std::vector<json::Value>& records, const std::filesystem::path& folder) {
    for (const json::Value& record : records) {
      const std::string& kind = string_of(record, "kind");
      if (kind == "encode") encode(record);
      if (kind == "encode_bytes")
        expect_ids("encode_bytes", record, from_hex(string_of(record, "bytes_hex")), "ids", {});
      if (kind == "doc") document(record, folder);
      if (kind == "stream") stream(record);
    }
    return counts_;
  }

 private:
  void expect_ids(const std::string& kind, const json::Value& record, const std::string& text,
                  std::string_view key, const EncodeOptions& options) {
    const std::vector<TokenId> want = ids_of(*record.find(key));
    const std::vector<TokenId> got = tokenizer_.encode(text, options);
    counts_.note(kind, got == want,
                 string_of(record, "id") + " " + std::string(key) + " '" + text.substr(0, 60) + "'\n  want " +
                     show(want) + "\n  got  " + show(got));
  }

  void encode(const json::Value& record) {
    const std::string& text = string_of(record, "text");
    const char* key = record.find("ids") != nullptr ? "ids" : "ids_nospecial";
    const char* base = key;
    if (record.find("ids") != nullptr) expect_ids("encode", record, text, key, {});
    if (record.find("ids_add") != nullptr && options_.compare_add)
      expect_ids(
          "add", record, text, "ids_add",
          {.add_special = true,  // a library without parsing of special tokens adds to its plain answer
           .added = record.find("ids") != nullptr ? AddedTokens::kAll : AddedTokens::kUnflagged});
    if (record.find("ids_nospecial") != nullptr) key = "ids_nospecial";
    expect_ids("nospecial", record, text, key, {.added = AddedTokens::kUnflagged});
    expect_untrusted(record, text, key);
    if (record.find("ids_raw") != nullptr) key = "ids_raw";
    if (options_.compare_raw) expect_ids("raw", record, text, key, {.added = AddedTokens::kNone});
    if (options_.compare_decode) decode(record, base);
  }

  // The same text as a user's: no special token at all; where the library makes none either, the same ids.
  void expect_untrusted(const json::Value& record, const std::string& text, std::string_view key) {
    const auto special = [&](TokenId id) { return tokenizer_.is_special(id) && id != tokenizer_.unknown(); };
    const ByteRange all{0, text.size()};
    const EncodeOptions options{.untrusted = {&all, 1}};
    if (std::ranges::none_of(ids_of(*record.find(key)), special)) {
      expect_ids("untrusted", record, text, key, options);
    } else {
      const std::vector<TokenId> got = tokenizer_.encode(text, options);
      counts_.note("untrusted", std::ranges::none_of(got, special),
                   string_of(record, "id") + " " + show(got));
    }
  }

  void decode(const json::Value& record, std::string_view base) {
    const std::vector<TokenId> ids = ids_of(*record.find(base));
    const auto check = [&](const std::string& want, bool skip) {
      const std::string got = tokenizer_.decode(ids, skip);
      counts_.note("decode", got == want,
                   string_of(record, "id") + "\n  want '" + want + "'\n  got  '" + got + "'");
    };
    check(string_of(record, record.find("decoded") != nullptr ? "decoded" : "text"), false);
    if (record.find("decoded_skip") != nullptr) check(string_of(record, "decoded_skip"), true);
  }

  void document(const json::Value& record, const std::filesystem::path& folder) {
    const std::vector<TokenId> got = tokenizer_.encode(read_file(folder / string_of(record, "file")));
    const std::vector<TokenId> head = ids_of(*record.find("head"));
    const std::vector<TokenId> tail = ids_of(*record.find("tail"));
    const bool ok = got.size() == static_cast<std::size_t>(record.find("n_ids")->as_int()) &&
                    std::equal(head.begin(), head.end(), got.begin()) &&
                    std::equal(tail.rbegin(), tail.rend(), got.rbegin()) &&
                    sha256_of_ids(got) == string_of(record, "sha256_ids_u32le");
    counts_.note("doc", ok, string_of(record, "id") + " " + std::to_string(got.size()) + " ids");
  }

  void stream(const json::Value& record) {
    StreamDecoder decoder(tokenizer_, record.find("skip_special")->as_bool());
    bool ok = true;
    std::string got;
    std::size_t i = 0;
    for (const TokenId id : ids_of(*record.find("ids"))) {
      const std::string piece = decoder.push(id);
      ok = ok && piece == record.find("pieces")->as_array()[i++].as_string();
      got += piece + "|";
    }
    ok = ok && decoder.flush() == string_of(record, "flush");
    counts_.note("stream", ok, string_of(record, "id") + " " + got);
  }

  static std::string sha256_of_ids(const std::vector<TokenId>& ids) {
    std::string bytes;
    for (const TokenId id : ids)
      for (unsigned shift = 0; shift < 32; shift += 8)
        bytes += static_cast<char>(static_cast<std::uint32_t>(id) >> shift);
    return Sha256().add(bytes).hex();
  }

  const Tokenizer& tokenizer_;
  CorpusOptions options_;
  CorpusCounts counts_;
};

}  // namespace met::text::test
