// Anthropic's message object and its events.
#include "api/anthropic.h"
#include "api/sse.h"

namespace met::api {
namespace {

json::Object usage_of(const Usage& usage) {
  json::Object out;
  out.append("input_tokens", usage.prompt_tokens - usage.cached_tokens);  // without those read from the cache
  out.append("cache_creation_input_tokens", 0);
  out.append("cache_read_input_tokens", usage.cached_tokens);
  out.append("output_tokens", usage.completion_tokens);
  return out;
}

/// A time limit pauses the turn: sent back, it is continued.
std::string_view stop_reason(const Finish& finish) {
  if (finish.reason == "length" || finish.reason == "repetition") return "max_tokens";
  if (finish.reason == "tool_calls") return "tool_use";
  if (finish.reason == "timeout") return "pause_turn";
  return finish.stop_reason.is_string() ? "stop_sequence" : "end_turn";
}

json::Value stop_sequence(const Finish& finish) {
  return finish.reason == "stop" && finish.stop_reason.is_string() ? finish.stop_reason : json::Value();
}

json::Object message_json(const AnswerHead& head, json::Array content, const std::optional<Finish>& finish,
                          const Usage& usage) {
  json::Object out;
  out.append("id", head.id);
  out.append("type", "message");
  out.append("role", "assistant");
  out.append("model", head.model);
  out.append("content", std::move(content));
  out.append("stop_reason", finish ? json::Value(stop_reason(*finish)) : json::Value());
  out.append("stop_sequence", finish ? stop_sequence(*finish) : json::Value());
  out.append("usage", usage_of(usage));
  return out;
}

/// What vouches for a block of reasoning when it is sent back. Nothing checks it here: the client that holds it
/// may as well write the text.
std::string signature(const AnswerHead& head, int index) { return part_id("sig_", head, 0, index); }

json::Value tool_use_id(const AnswerHead& head, int call) { return part_id("toolu_", head, 0, call); }

class MessagesCollect final : public Encoder {
 public:
  MessagesCollect(AnswerHead head, std::optional<json::Value> edits)
      : head_(std::move(head)), edits_(std::move(edits)) {}

  void begin(const Usage&, std::string&) override {}
  void prompt(std::size_t, const std::vector<TokenEntry>&, std::string&) override {}
  void part(const AnswerPart& part, const Usage&, std::string&) override { answer_.add(part); }
  void end(const Usage& usage, std::string& out) override {
    json::Array content;
    int calls = 0;
    for (const Segment& segment : answer_.segments)
      content.push_back(block(segment, static_cast<int>(content.size()), calls));
    json::Object message = message_json(head_, std::move(content), answer_.finish, usage);
    if (edits_) message.append("context_management", *edits_);
    json::write(message, out);
  }

 private:
  json::Value block(const Segment& segment, int index, int& calls) const {
    json::Object out;
    switch (segment.kind) {
      case Segment::Kind::kContent:
      case Segment::Kind::kRefusal:
        out.append("type", "text");
        out.append("text", segment.text);
        break;
      case Segment::Kind::kReasoning:
        out.append("type", "thinking");
        out.append("thinking", segment.text);
        out.append("signature", signature(head_, index));
        break;
      case Segment::Kind::kCall: {
        Result<json::Value> input = json::parse(segment.text);
        out.append("type", "tool_use");
        out.append("id", tool_use_id(head_, calls++));
        out.append("name", segment.name);
        out.append("input", input && input->is_object() ? std::move(*input) : json::Value(json::Object{}));
        break;
      }
    }
    return out;
  }

  AnswerHead head_;
  std::optional<json::Value> edits_;  // of the context, where the request speaks of them
  Answer answer_;
};

class MessagesStream final : public Encoder {
 public:
  MessagesStream(AnswerHead head, std::optional<json::Value> edits)
      : head_(std::move(head)), edits_(std::move(edits)) {}

  void begin(const Usage& so_far, std::string& out) override {
    sse_begin("message_start", out);
    sse_member("message", json::Value(message_json(head_, {}, std::nullopt, so_far)), out);
    sse_end(out);
  }
  void prompt(std::size_t, const std::vector<TokenEntry>&, std::string&) override {}

  void part(const AnswerPart& part, const Usage&, std::string& out) override {
    using Kind = AnswerPart::Kind;
    switch (part.kind) {
      case Kind::kContent:
        if (!part.text.empty()) delta(Block::kText, part.text, out);
        break;
      case Kind::kReasoning:
        if (!part.text.empty()) delta(Block::kThinking, part.text, out);
        break;
      case Kind::kCallBegin:
        close(out);
        open_call(part.text, out);
        break;
      case Kind::kCallArguments:
        if (!part.text.empty()) delta(Block::kCall, part.text, out);
        break;
      case Kind::kCallEnd:
        close(out);
        break;
    }
    if (part.finish) finish_ = part.finish;
  }

  void end(const Usage& usage, std::string& out) override {
    close(out);
    json::Object change;
    change.append("stop_reason", finish_ ? json::Value(stop_reason(*finish_)) : json::Value());
    change.append("stop_sequence", finish_ ? stop_sequence(*finish_) : json::Value());
    sse_begin("message_delta", out);
    sse_member("delta", json::Value(std::move(change)), out);
    sse_member("usage", json::Value(usage_of(usage)), out);
    if (edits_) sse_member("context_management", *edits_, out);
    sse_end(out);
    sse_begin("message_stop", out);
    sse_end(out);
  }

  void fail(const ApiError& error, std::string& out) override {
    out += "event: error\ndata: ";
    json::write(error_body(error, Dialect::kAnthropic), out);
    out += "\n\n";
  }

  void keepalive(std::string& out) override {
    sse_begin("ping", out);
    sse_end(out);
  }

 private:
  enum class Block { kNone, kText, kThinking, kCall };

  void open(Block block, json::Object content, std::string& out) {
    open_ = block;
    sse_begin("content_block_start", out);
    sse_member("index", index_, out);
    sse_member("content_block", json::Value(std::move(content)), out);
    sse_end(out);
  }

  void open_call(const std::string& name, std::string& out) {
    json::Object content{{"type", "tool_use"}};
    content.append("id", tool_use_id(head_, calls_++));
    content.append("name", name);
    content.append("input", json::Object{});
    open(Block::kCall, std::move(content), out);
  }

  void delta(Block block, const std::string& text, std::string& out) {
    if (open_ != block) {
      close(out);
      if (block == Block::kText) open(block, {{"type", "text"}, {"text", ""}}, out);
      if (block == Block::kThinking)
        open(block, {{"type", "thinking"}, {"thinking", ""}, {"signature", ""}}, out);
    }
    const char* kind = block == Block::kText       ? "\"text_delta\",\"text\":"
                       : block == Block::kThinking ? "\"thinking_delta\",\"thinking\":"
                                                   : "\"input_json_delta\",\"partial_json\":";
    sse_begin("content_block_delta", out);
    sse_member("index", index_, out);
    out += ",\"delta\":{\"type\":";
    out += kind;
    json::write_string(text, out);
    out += '}';
    sse_end(out);
  }

  void close(std::string& out) {
    if (open_ == Block::kNone) return;
    if (open_ == Block::kThinking) {
      sse_begin("content_block_delta", out);
      sse_member("index", index_, out);
      sse_member("delta",
                 json::Value(json::Object{{"type", "signature_delta"},
                                          {"signature", signature(head_, static_cast<int>(index_))}}),
                 out);
      sse_end(out);
    }
    sse_begin("content_block_stop", out);
    sse_member("index", index_++, out);
    sse_end(out);
    open_ = Block::kNone;
  }

  AnswerHead head_;
  std::optional<json::Value> edits_;
  std::optional<Finish> finish_;
  Block open_ = Block::kNone;
  std::int64_t index_ = 0;
  int calls_ = 0;
};

std::optional<json::Value> edits_of(const GenerationRequest& request, const Prepared& prepared) {
  if (!request.context_edits) return std::nullopt;
  return applied_edits_json(prepared.edits);
}

}  // namespace

std::unique_ptr<Encoder> messages_stream(AnswerHead head, const GenerationRequest& request,
                                         const Prepared& prepared) {
  return std::make_unique<MessagesStream>(std::move(head), edits_of(request, prepared));
}

std::unique_ptr<Encoder> messages_collect(AnswerHead head, const GenerationRequest& request,
                                          const Prepared& prepared) {
  return std::make_unique<MessagesCollect>(std::move(head), edits_of(request, prepared));
}

}  // namespace met::api
