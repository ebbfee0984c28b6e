#include "api/encoder.h"

#include <cmath>

#include "core/concat.h"

namespace met::api {
namespace {

json::Value bytes_json(const std::string& bytes) {
  json::Array out;
  for (const char c : bytes) out.emplace_back(static_cast<int>(static_cast<unsigned char>(c)));
  return out;
}

json::Object chat_token(const ScoredToken& token, bool as_ids) {
  json::Object out;
  out.append("token", token_name(token, as_ids));
  out.append("logprob", static_cast<double>(token.logprob));
  out.append("bytes", bytes_json(token.bytes));
  return out;
}

}  // namespace

void Encoder::fail(const ApiError& error, std::string& out) {
  out += "data: ";
  json::write(error_body(error), out);
  out += "\n\ndata: [DONE]\n\n";
}

void Encoder::keepalive(std::string& out) { out += ": keep-alive\n\n"; }

json::Value usage_json(const Usage& usage) {
  json::Object details;
  details.append("cached_tokens", usage.cached_tokens);
  details.append("audio_tokens", 0);
  json::Object completion{{"reasoning_tokens", usage.reasoning_tokens}};
  for (const char* none : {"accepted_prediction_tokens", "rejected_prediction_tokens", "audio_tokens"})
    completion.append(none, 0);
  json::Object out;
  out.append("prompt_tokens", usage.prompt_tokens);
  out.append("completion_tokens", usage.completion_tokens);
  out.append("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  out.append("prompt_tokens_details", std::move(details));
  out.append("completion_tokens_details", std::move(completion));
  const double decode_s = usage.total_s - usage.first_token_s;
  const auto ms = [](double seconds) { return std::round(seconds * 1e6) / 1e3; };
  out.append("time_to_first_token_ms", ms(usage.first_token_s));
  out.append("decode_time_ms", ms(decode_s));
  out.append("total_time_ms", ms(usage.total_s));
  const double later = static_cast<double>(usage.completion_tokens) - 1;
  out.append("response_tokens_per_second",
             decode_s > 0 && later > 0 ? std::round(later / decode_s * 1e3) / 1e3 : 0.0);
  return out;
}

std::string part_id(std::string_view prefix, const AnswerHead& head, int choice, int index) {
  const std::size_t digits =
      head.id.rfind('_') == std::string::npos ? head.id.rfind('-') : head.id.rfind('_');
  const std::string_view random = std::string_view(head.id).substr(digits + 1);
  return concat(prefix, random.substr(0, 24), choice, "x", index);
}

json::Value prompt_logprobs_json(const std::vector<TokenEntry>& entries) {
  json::Array out;
  for (const TokenEntry& entry : entries) {
    if (!entry.scored) {
      out.emplace_back(nullptr);
      continue;
    }
    json::Object position;
    const auto add = [&](const ScoredToken& token, std::int64_t rank) {
      json::Object info;
      info.append("logprob", static_cast<double>(token.logprob));
      info.append("rank", rank);
      info.append("decoded_token", token.text);
      position.set(std::to_string(token.id), std::move(info));
    };
    add(entry.token, entry.rank);
    for (std::size_t i = 0; i < entry.top.size(); ++i) add(entry.top[i], static_cast<std::int64_t>(i) + 1);
    out.emplace_back(std::move(position));
  }
  return out;
}

std::string token_name(const ScoredToken& token, bool as_ids) {
  return as_ids ? concat("token_id:", token.id) : token.text;
}

json::Value chat_logprobs_json(const std::vector<TokenEntry>& entries, bool as_ids) {
  json::Array out;
  for (const TokenEntry& entry : entries) {
    json::Object token = chat_token(entry.token, as_ids);
    json::Array top;
    for (const ScoredToken& other : entry.top) top.emplace_back(chat_token(other, as_ids));
    token.append("top_logprobs", std::move(top));
    out.emplace_back(std::move(token));
  }
  return out;
}

}  // namespace met::api
