#include "bench/request_trace.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/concat.h"
#include "core/json.h"

namespace met::bench {
namespace {

/// Tokens that one of a line's hash_ids stands for, as in the traces that have them.
constexpr std::int64_t kHashTokens = 512;
constexpr std::int64_t kTokensMax = 100'000'000;
constexpr std::size_t kRequestsMax = 20'000'000;
/// Texts that nobody else has, by line.
constexpr std::uint64_t kOwnTexts = std::uint64_t{1} << 62;

std::uint64_t mixed(std::uint64_t value) {  // SplitMix64's finalizer
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

Result<std::int64_t> integer(const json::Object& line, std::string_view key, std::int64_t least,
                             std::int64_t most, std::int64_t otherwise) {
  const json::Value* value = line.find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_int() || value->as_int() < least || value->as_int() > most)
    return invalid(std::string(key),
                   concat(key, " is no integer from ", std::to_string(least), " to ", std::to_string(most)));
  return value->as_int();
}

/// Milliseconds as microseconds.
Result<std::int64_t> moment(const json::Object& line, std::string_view key, std::int64_t otherwise) {
  constexpr double kMost = 1e12;
  const json::Value* value = line.find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number() || !(value->as_number() >= 0) || value->as_number() > kMost)
    return invalid(std::string(key), concat(key, " is no number of milliseconds from 0 to 1e12"));
  return static_cast<std::int64_t>(std::llround(value->as_number() * 1000));
}

Result<void> add_hash_ids(const json::Value& list, TracedRequest& request) {
  if (!list.is_array()) return invalid("hash_ids", "hash_ids is no array");
  std::int64_t left = request.prompt_tokens;
  for (const json::Value& id : list.as_array()) {
    if (!id.is_int() || id.as_int() < 0) return invalid("hash_ids", "an id is no integer of at least 0");
    if (left == 0) break;
    request.prompt.push_back({static_cast<std::uint64_t>(id.as_int()), std::min(left, kHashTokens)});
    left -= request.prompt.back().tokens;
  }
  return {};
}

Result<void> add_prompt(const json::Value& list, TracedRequest& request) {
  const auto wrong = [] {
    return invalid("prompt", "prompt is no array of pairs [text, tokens] of integers from 0 on");
  };
  if (!list.is_array()) return wrong();
  std::int64_t sum = 0;
  for (const json::Value& pair : list.as_array()) {
    if (!pair.is_array() || pair.as_array().size() != 2) return wrong();
    const json::Value& text = pair.as_array()[0];
    const json::Value& tokens = pair.as_array()[1];
    if (!text.is_int() || text.as_int() < 0 || !tokens.is_int() || tokens.as_int() < 0) return wrong();
    if (tokens.as_int() > request.prompt_tokens - sum)
      return invalid("prompt", "the pieces of prompt are longer than input_length");
    sum += tokens.as_int();
    request.prompt.push_back({static_cast<std::uint64_t>(text.as_int()), tokens.as_int()});
  }
  return {};
}

Result<TracedRequest> read_line(std::string_view text, std::uint64_t number) {
  MET_ASSIGN(const json::Value value, json::parse(text, {.depth_max = 4, .values_max = 1'000'000}));
  if (!value.is_object()) return invalid("", "the line is no JSON object");
  const json::Object& line = value.as_object();
  for (const std::string_view key : {"timestamp", "input_length", "output_length"})
    if (!line.contains(key)) return invalid(std::string(key), concat(key, " is missing"));
  TracedRequest out;
  MET_ASSIGN(out.at_us, moment(line, "timestamp", 0));
  MET_ASSIGN(out.prompt_tokens, integer(line, "input_length", 1, kTokensMax, 0));
  MET_ASSIGN(out.output_tokens, integer(line, "output_length", 0, kTokensMax, 0));
  MET_ASSIGN(const std::int64_t priority, integer(line, "priority", -1000, 1000, 0));
  out.priority = static_cast<int>(priority);
  constexpr std::int64_t kAny = std::numeric_limits<std::int64_t>::max();
  MET_ASSIGN(const std::int64_t tenant, integer(line, "tenant", 0, kAny, 0));
  out.tenant = static_cast<std::uint64_t>(tenant);
  MET_ASSIGN(out.leaves_after_us, moment(line, "cancel_after", -1));
  const std::uint64_t own = kOwnTexts + 2 * number;
  MET_ASSIGN(const std::int64_t output,
             integer(line, "output_text", 0, kAny, static_cast<std::int64_t>(own)));
  out.output_text = static_cast<std::uint64_t>(output);
  const json::Value* hash_ids = line.find("hash_ids");
  const json::Value* prompt = line.find("prompt");
  if (hash_ids != nullptr && prompt != nullptr)
    return invalid("prompt", "a line has hash_ids or prompt, not both");
  if (hash_ids != nullptr) MET_TRY(add_hash_ids(*hash_ids, out));
  if (prompt != nullptr) MET_TRY(add_prompt(*prompt, out));
  std::int64_t named = 0;
  for (const TextPiece& piece : out.prompt) named += piece.tokens;
  if (named < out.prompt_tokens) out.prompt.push_back({own + 1, out.prompt_tokens - named});
  return out;
}

}  // namespace

scheduler::TokenId token_of(std::uint64_t text, std::int64_t place) {
  const std::uint64_t bits = mixed(mixed(text + 1) + static_cast<std::uint64_t>(place));
  return static_cast<scheduler::TokenId>(bits & 0x3FFFFFFFU);
}

Result<std::vector<TracedRequest>> read_trace(std::string_view jsonl) {
  std::vector<TracedRequest> out;
  for (std::uint64_t number = 1; !jsonl.empty(); ++number) {
    const std::size_t end = std::min(jsonl.find('\n'), jsonl.size());
    const std::string_view line = jsonl.substr(0, end);
    jsonl.remove_prefix(std::min(end + 1, jsonl.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    if (out.size() == kRequestsMax)
      return invalid("", concat("a trace has at most ", std::to_string(kRequestsMax), " requests"));
    auto request = read_line(line, number);
    if (!request)
      return std::unexpected(Error{request.error().code,
                                   concat("line ", std::to_string(number), ": ", request.error().message),
                                   request.error().field});
    out.push_back(std::move(*request));
  }
  std::ranges::stable_sort(out, {}, &TracedRequest::at_us);
  return out;
}

std::string write_line(const TracedRequest& request) {
  json::Object line{{"timestamp", static_cast<double>(request.at_us) / 1000}};
  line.append("input_length", request.prompt_tokens);
  line.append("output_length", request.output_tokens);
  json::Array pieces;
  for (const TextPiece& piece : request.prompt)
    pieces.emplace_back(
        json::Array{json::Value(static_cast<std::int64_t>(piece.text)), json::Value(piece.tokens)});
  line.append("prompt", std::move(pieces));
  line.append("output_text", static_cast<std::int64_t>(request.output_text));
  if (request.priority != 0) line.append("priority", request.priority);
  if (request.tenant != 0) line.append("tenant", static_cast<std::int64_t>(request.tenant));
  if (request.leaves_after_us >= 0)
    line.append("cancel_after", static_cast<double>(request.leaves_after_us) / 1000);
  return json::write(line) + "\n";
}

}  // namespace met::bench
