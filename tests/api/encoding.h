// Parts of answers for encoders, and what they wrote.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "api/encoder.h"

namespace met::testing {

inline const api::AnswerHead kHead{
    .id = "x_0123456789abcdef", .created = 1'700'000'000, .model = "m", .fingerprint = "fp"};
inline constexpr api::Usage kUsage{
    .prompt_tokens = 10, .completion_tokens = 9, .cached_tokens = 3, .reasoning_tokens = 2};

/// Reasoning, text, a call with arguments in pieces, a call without any, the end.
inline std::vector<api::AnswerPart> thinking_text_and_two_calls() {
  using Kind = api::AnswerPart::Kind;
  return {{.kind = Kind::kReasoning, .text = "let me "},
          {.kind = Kind::kReasoning, .text = "see"},
          {.kind = Kind::kContent, .text = "Look"},
          {.kind = Kind::kContent, .text = "ing."},
          {.kind = Kind::kCallBegin, .call = 0, .text = "weather"},
          {.kind = Kind::kCallArguments, .call = 0, .text = "{\"city\":"},
          {.kind = Kind::kCallArguments, .call = 0, .text = "\"Rome\"}"},
          {.kind = Kind::kCallEnd, .call = 0},
          {.kind = Kind::kCallBegin, .call = 1, .text = "time"},
          {.kind = Kind::kCallEnd, .call = 1},
          {.finish = api::Finish{"tool_calls", {}}}};
}

inline std::string written(api::Encoder& encoder, const std::vector<api::AnswerPart>& parts) {
  std::string out;
  encoder.begin(kUsage, out);
  for (const api::AnswerPart& part : parts) encoder.part(part, kUsage, out);
  encoder.end(kUsage, out);
  return out;
}

/// The data of typed events; checks that each event's name is its data's type.
inline std::vector<json::Value> events_of(const std::string& stream) {
  std::vector<json::Value> out;
  std::size_t from = 0;
  while (from < stream.size()) {
    const std::size_t end = stream.find("\n\n", from);
    EXPECT_NE(end, std::string::npos) << "an event without its end";
    if (end == std::string::npos) break;
    const std::string event = stream.substr(from, end - from);
    from = end + 2;
    if (event.starts_with(":")) continue;
    const std::size_t line = event.find("\ndata: ");
    EXPECT_TRUE(event.starts_with("event: ") && line != std::string::npos) << event;
    const auto data = json::parse(event.substr(line + 7));
    EXPECT_TRUE(data) << event;
    out.push_back(*data);
    EXPECT_EQ(json::Value(event.substr(7, line - 7)), *data->find("type"));
  }
  return out;
}

}  // namespace met::testing
