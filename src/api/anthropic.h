// Anthropic's Messages: a body becomes a chat, an answer becomes content blocks.
// Source: the public reference of POST /v1/messages and /v1/messages/count_tokens.
#pragma once

#include <memory>

#include "api/encoder.h"
#include "api/request.h"

namespace met::api {

/// POST /v1/messages. Errors: kInvalidArgument or kUnsupported naming the field; kNotFound with field "model".
/// A last assistant message is continued.
Result<GenerationRequest> parse_messages(const json::Value& body, const ParseContext& context);
/// POST /v1/messages/count_tokens: the same prompt, nothing is generated.
Result<GenerationRequest> parse_count_tokens(const json::Value& body, const ParseContext& context);

/// Events message_start, content_block_*, message_delta, message_stop.
std::unique_ptr<Encoder> messages_stream(AnswerHead head, const GenerationRequest& request,
                                         const Prepared& prepared);
/// The message object.
std::unique_ptr<Encoder> messages_collect(AnswerHead head, const GenerationRequest& request,
                                          const Prepared& prepared);

}  // namespace met::api
