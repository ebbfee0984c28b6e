// OpenAI's response object and its events.
#include <utility>

#include "api/responses.h"
#include "api/sealed.h"
#include "api/sse.h"

namespace met::api {
namespace {

std::string_view name(ResponseStatus status) {
  switch (status) {
    case ResponseStatus::kQueued:
      return "queued";
    case ResponseStatus::kInProgress:
      return "in_progress";
    case ResponseStatus::kCompleted:
      return "completed";
    case ResponseStatus::kIncomplete:
      return "incomplete";
    case ResponseStatus::kFailed:
      return "failed";
    case ResponseStatus::kCancelled:
      return "cancelled";
  }
  return "failed";
}

json::Value usage_of(const Usage& usage) {
  json::Object out;
  out.append("input_tokens", usage.prompt_tokens);
  out.append("input_tokens_details",
             json::Object{{"cached_tokens", usage.cached_tokens}, {"cache_write_tokens", 0}});
  out.append("output_tokens", usage.completion_tokens);
  out.append("output_tokens_details", json::Object{{"reasoning_tokens", usage.reasoning_tokens}});
  out.append("total_tokens", usage.prompt_tokens + usage.completion_tokens);
  return out;
}

bool ended(ResponseStatus status) {
  return status != ResponseStatus::kQueued && status != ResponseStatus::kInProgress;
}

}  // namespace

ResponseEncoder::ResponseEncoder(AnswerHead head, const ResponseRequest& request,
                                 const GenerationRequest& generation)
    : head_(std::move(head)),
      echo_(request.echo),
      stream_(generation.stream),
      background_(request.background),
      as_ids_(generation.tokens_as_ids),
      logprobs_(generation.logprobs >= 0),
      seals_reasoning_(request.seals_reasoning),
      namespaces_(request.namespaces),
      status_(request.background ? ResponseStatus::kQueued : ResponseStatus::kInProgress) {
  echo_.append("model", head_.model);
  echo_.append("temperature", generation.sampling.temperature);
  echo_.append("top_p", generation.sampling.top_p);
}

json::Value ResponseEncoder::object() const {
  json::Object out;
  out.append("id", head_.id);
  out.append("object", "response");
  out.append("created_at", head_.created);
  out.append("status", name(status_));
  out.append("error", error_);
  out.append("incomplete_details", incomplete_);
  out.append("output", output_);
  out.append("usage", usage_ ? usage_of(*usage_) : json::Value());
  for (const auto& [key, value] : echo_) out.append(key, value);
  return out;
}

// ---- events

void ResponseEncoder::event(std::string_view type, std::string& out) {
  sse_begin(type, out);
  sse_member("sequence_number", sequence_++, out);
}

void ResponseEncoder::whole(std::string_view type, std::string& out) {
  if (!stream_) return;
  event(type, out);
  sse_member("response", object(), out);
  sse_end(out);
}

void ResponseEncoder::begin(const Usage&, std::string& out) {
  whole("response.created", out);
  whole(background_ ? "response.queued" : "response.in_progress", out);
}

void ResponseEncoder::start(std::string& out) {
  if (status_ != ResponseStatus::kQueued) return;
  status_ = ResponseStatus::kInProgress;
  whole("response.in_progress", out);
}

void ResponseEncoder::part(const AnswerPart& part, const Usage&, std::string& out) {
  using Kind = AnswerPart::Kind;
  start(out);
  switch (part.kind) {
    case Kind::kContent:
      if (!part.text.empty()) text(part.refusal ? Open::kRefusal : Open::kMessage, part, out);
      break;
    case Kind::kReasoning:
      if (!part.text.empty()) text(Open::kReasoning, part, out);
      break;
    case Kind::kCallBegin:
      close("completed", out);
      open_call(part, out);
      break;
    case Kind::kCallArguments:
      if (open_ != Open::kCall || part.text.empty()) break;
      text_ += part.text;
      if (!stream_) break;
      event(part.custom ? "response.custom_tool_call_input.delta" : "response.function_call_arguments.delta",
            out);
      sse_member("item_id", item_id_, out);
      sse_member("output_index", std::ssize(output_), out);
      sse_member("delta", part.text, out);
      sse_end(out);
      break;
    case Kind::kCallEnd:
      close(part.finish && part.finish->cut() ? "incomplete" : "completed", out);
      break;
  }
  if (part.finish) finish_ = part.finish;
}

void ResponseEncoder::open_item(Open kind, json::Object item, std::string& out) {
  open_ = kind;
  item_id_ = item.find("id")->as_string();
  item_ = std::move(item);
  text_.clear();
  entries_.clear();
  if (!stream_) return;
  event("response.output_item.added", out);
  sse_member("output_index", std::ssize(output_), out);
  sse_member("item", json::Value(item_), out);
  sse_end(out);
}

void ResponseEncoder::open_call(const AnswerPart& begin, std::string& out) {
  const int index = static_cast<int>(output_.size());
  json::Object item{{"id", part_id(begin.custom ? "ctc_" : "fc_", head_, 0, index)},
                    {"type", begin.custom ? "custom_tool_call" : "function_call"}};
  item.append("status", "in_progress");
  item.append("call_id", part_id("call_", head_, 0, index));
  const auto grouped = namespaces_.find(begin.text);
  item.append("name", grouped == namespaces_.end() ? begin.text : grouped->second.name);
  if (grouped != namespaces_.end()) item.append("namespace", grouped->second.space);
  item.append(begin.custom ? "input" : "arguments", "");
  open_item(Open::kCall, std::move(item), out);
}

/// The open text as a content part.
json::Value ResponseEncoder::part_json() const {
  if (open_ == Open::kRefusal) return json::Object{{"type", "refusal"}, {"refusal", text_}};
  json::Object out{{"type", open_ == Open::kMessage ? "output_text" : "reasoning_text"}, {"text", text_}};
  if (open_ != Open::kMessage) return out;
  out.append("annotations", json::Array{});
  out.append("logprobs", logprobs_ ? chat_logprobs_json(entries_, as_ids_) : json::Value(json::Array{}));
  return out;
}

void ResponseEncoder::open_text(Open kind, std::string& out) {
  const bool message = kind != Open::kReasoning;
  json::Object item{{"id", part_id(message ? "msg_" : "rs_", head_, 0, static_cast<int>(output_.size()))}};
  item.append("type", message ? "message" : "reasoning");
  item.append("status", "in_progress");
  if (message) {
    item.append("role", "assistant");
  } else {
    item.append("summary", json::Array{});
  }
  item.append("content", json::Array{});
  open_item(kind, std::move(item), out);
  if (!stream_) return;
  event("response.content_part.added", out);
  sse_member("item_id", item_id_, out);
  sse_member("output_index", std::ssize(output_), out);
  sse_member("content_index", 0, out);
  sse_member("part", part_json(), out);
  sse_end(out);
}

void ResponseEncoder::text(Open kind, const AnswerPart& part, std::string& out) {
  if (open_ != kind) {
    close("completed", out);
    open_text(kind, out);
  }
  text_ += part.text;
  entries_.insert(entries_.end(), part.entries.begin(), part.entries.end());
  if (!stream_) return;
  const bool message = kind == Open::kMessage;
  event(message                  ? "response.output_text.delta"
        : kind == Open::kRefusal ? "response.refusal.delta"
                                 : "response.reasoning_text.delta",
        out);
  sse_member("item_id", item_id_, out);
  sse_member("output_index", std::ssize(output_), out);
  sse_member("content_index", 0, out);
  sse_member("delta", part.text, out);
  if (message)
    sse_member("logprobs", logprobs_ ? chat_logprobs_json(part.entries, as_ids_) : json::Value(json::Array{}),
               out);
  sse_end(out);
}

void ResponseEncoder::close_text(std::string_view status, std::string& out) {
  const bool message = open_ == Open::kMessage;
  const json::Value part = part_json();
  item_.set("content", json::Array{part});
  if (seals_reasoning_ && open_ == Open::kReasoning) item_.set("encrypted_content", sealed(text_));
  item_.set("status", status);
  if (!stream_) return;
  const auto place = [&] {
    sse_member("item_id", item_id_, out);
    sse_member("output_index", std::ssize(output_), out);
    sse_member("content_index", 0, out);
  };
  const bool refusal = open_ == Open::kRefusal;
  event(message   ? "response.output_text.done"
        : refusal ? "response.refusal.done"
                  : "response.reasoning_text.done",
        out);
  place();
  sse_member(refusal ? "refusal" : "text", text_, out);
  if (message) sse_member("logprobs", *part.find("logprobs"), out);
  sse_end(out);
  event("response.content_part.done", out);
  place();
  sse_member("part", part, out);
  sse_end(out);
}

void ResponseEncoder::close_call(std::string_view status, std::string& out) {
  const bool custom = item_.find("input") != nullptr;
  const char* arguments = custom ? "input" : "arguments";
  item_.set(arguments, text_);
  item_.set("status", status);
  if (!stream_) return;
  event(custom ? "response.custom_tool_call_input.done" : "response.function_call_arguments.done", out);
  sse_member("item_id", item_id_, out);
  sse_member("output_index", std::ssize(output_), out);
  if (!custom) sse_member("name", item_.find("name")->as_string(), out);
  sse_member(arguments, text_, out);
  sse_end(out);
}

void ResponseEncoder::close(std::string_view status, std::string& out) {
  if (open_ == Open::kNone) return;
  open_ == Open::kCall ? close_call(status, out) : close_text(status, out);
  open_ = Open::kNone;
  if (stream_) {
    event("response.output_item.done", out);
    sse_member("output_index", std::ssize(output_), out);
    sse_member("item", json::Value(item_), out);
    sse_end(out);
  }
  output_.emplace_back(std::move(item_));
}

void ResponseEncoder::end(const Usage& usage, std::string& out) {
  start(out);
  usage_ = usage;
  const std::string_view reason = finish_ ? finish_->reason : "stop";
  if (open_ == Open::kNone && output_.empty()) open_text(Open::kMessage, out);
  close(finish_ && finish_->cut() ? "incomplete" : "completed", out);
  status_ = ResponseStatus::kCompleted;
  if (reason == "length" || reason == "repetition") {
    status_ = ResponseStatus::kIncomplete;
    incomplete_ = json::Object{{"reason", reason == "length" ? "max_output_tokens" : "repetition"}};
  } else if (reason == "timeout") {
    status_ = ResponseStatus::kFailed;
    error_ = json::Object{{"code", "server_error"}, {"message", "the request's time limit has passed"}};
  }
  if (stream_) {
    whole(std::string("response.") + std::string(name(status_)), out);
  } else {
    json::write(object(), out);
  }
}

void ResponseEncoder::fail(const ApiError& error, std::string& out) {
  close("incomplete", out);
  status_ = ResponseStatus::kFailed;
  error_ = json::Object{{"code", error.status == 429 ? "rate_limit_exceeded" : "server_error"},
                        {"message", error.message}};
  whole("response.failed", out);
}

void ResponseEncoder::cancel() {
  if (ended(status_)) return;
  std::string unsent;
  const bool stream = std::exchange(stream_, false);
  close("incomplete", unsent);
  stream_ = stream;
  status_ = ResponseStatus::kCancelled;
}

}  // namespace met::api
