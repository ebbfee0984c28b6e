// OpenAI's Responses: a body and its history become a chat, an answer becomes output items and typed events.
// Source: the public reference of POST /v1/responses and its streaming events.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "api/encoder.h"
#include "api/items.h"
#include "api/request.h"

namespace met::api {

/// A body that was checked as far as it can be without its history.
struct ResponseRequest {
  json::Array
      input;  ///< items of this request, in their stored form; references among them until they are resolved
  std::optional<std::string> previous_response_id;
  std::optional<std::string> conversation_id;
  std::optional<std::string> instructions;
  bool store = true;
  bool background = false;
  /// Functions that the request groups, by the name that the model knows: where a call of one belongs.
  struct Grouped {
    std::string name;
    std::string space;
  };
  std::map<std::string, Grouped, std::less<>> namespaces;
  bool seals_reasoning = false;  ///< include "reasoning.encrypted_content"
  bool truncates = false;        ///< truncation "auto": old items may go to make the context fit
  json::Object echo;             ///< what the response object repeats
  json::Object chat;             ///< the lowered body, without messages
  std::vector<std::string> ignored;
};

/// Errors: kInvalidArgument or kUnsupported naming the field; kNotFound with field "model".
Result<ResponseRequest> parse_response(const json::Value& body, const ParseContext& context);

/// `items`: the history, then the request's own.
Result<GenerationRequest> lower_response(const ResponseRequest& request, std::span<const Item> items,
                                         const ParseContext& context);

enum class ResponseStatus { kQueued, kInProgress, kCompleted, kIncomplete, kFailed, kCancelled };

/// Writes the response object, or its events with their numbers. Both are made by one walk over the parts.
class ResponseEncoder final : public Encoder {
 public:
  ResponseEncoder(AnswerHead head, const ResponseRequest& request, const GenerationRequest& generation);

  void begin(const Usage& so_far, std::string& out) override;
  void prompt(std::size_t, const std::vector<TokenEntry>&, std::string&) override {}
  void part(const AnswerPart& part, const Usage& so_far, std::string& out) override;
  void end(const Usage& usage, std::string& out) override;
  void fail(const ApiError& error, std::string& out) override;
  /// Ends a background response; nothing is written.
  void cancel();

  /// The object as it is now.
  json::Value object() const;
  const json::Array& output() const { return output_; }
  ResponseStatus status() const { return status_; }

 private:
  enum class Open { kNone, kMessage, kRefusal, kReasoning, kCall };

  void event(std::string_view type, std::string& out);
  void whole(std::string_view type, std::string& out);
  void open_item(Open kind, json::Object item, std::string& out);
  void open_text(Open kind, std::string& out);
  void open_call(const AnswerPart& begin, std::string& out);
  void text(Open kind, const AnswerPart& part, std::string& out);
  void close(std::string_view status, std::string& out);
  void close_text(std::string_view status, std::string& out);
  void close_call(std::string_view status, std::string& out);
  json::Value part_json() const;
  void start(std::string& out);

  AnswerHead head_;
  json::Object echo_;
  bool stream_;
  bool background_;
  bool as_ids_;
  bool logprobs_;
  bool seals_reasoning_;
  std::map<std::string, ResponseRequest::Grouped, std::less<>> namespaces_;
  ResponseStatus status_ = ResponseStatus::kInProgress;
  json::Array output_;  // items that are complete
  json::Value error_;
  json::Value incomplete_;
  std::optional<Usage> usage_;
  std::optional<Finish> finish_;
  std::int64_t sequence_ = 0;
  // the open item
  Open open_ = Open::kNone;
  json::Object item_;
  std::string item_id_;
  std::string text_;
  std::vector<TokenEntry> entries_;
};

}  // namespace met::api
