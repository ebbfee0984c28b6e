#include <algorithm>

#include "api/encoder.h"

namespace met::api {
namespace {

json::Value ids_json(const std::vector<TokenId>& ids) {
  json::Array out(ids.begin(), ids.end());
  return out;
}

json::Value content_logprobs(const std::vector<TokenEntry>& entries) {
  json::Object out;
  out.append("content", chat_logprobs_json(entries));
  out.append("refusal", nullptr);
  return out;
}

json::Object head_json(const AnswerHead& head, std::string_view object) {
  json::Object out;
  out.append("id", head.id);
  out.append("object", object);
  out.append("created", head.created);
  out.append("model", head.model);
  out.append("system_fingerprint", head.fingerprint);
  return out;
}

class ChatStream final : public Encoder {
 public:
  ChatStream(AnswerHead head, const GenerationRequest& request, const Prepared& prepared)
      : logprobs_(request.logprobs >= 0),
        ids_(request.return_token_ids),
        usage_(request.include_usage),
        continuous_(request.continuous_usage_stats),
        choices_(request.n),
        prompt_ids_(ids_ ? prepared.prompts[0].ids : std::vector<TokenId>{}),
        prompt_tokens_(static_cast<std::int64_t>(prepared.prompts[0].ids.size())) {
    std::string open = json::write(head_json(head, "chat.completion.chunk"));
    open.pop_back();
    prefix_ = "data: " + open + ",\"choices\":[";
    plain_ = !logprobs_ && !ids_ && !continuous_;
  }

  void begin(std::string& out) override {
    for (int i = 0; i < choices_; ++i) {
      json::Object delta;
      delta.append("role", "assistant");
      delta.append("content", "");
      json::Object choice;
      choice.append("index", i);
      choice.append("delta", std::move(delta));
      choice.append("logprobs", nullptr);
      choice.append("finish_reason", nullptr);
      open(out);
      json::write(choice, out);
      close({.prompt_tokens = prompt_tokens_}, out, /*first=*/i == 0);
    }
  }

  void prompt(std::size_t, const std::vector<TokenEntry>&, std::string&) override {}

  void part(const AnswerPart& part, const Usage& so_far, std::string& out) override {
    const bool has_text = !part.text.empty() || !part.entries.empty();
    if (has_text || (!part.finish && ids_ && !part.ids.empty())) text_chunk(part, so_far, out);
    if (part.finish) finish_chunk(part, /*ids_sent=*/has_text, so_far, out);
  }

  void end(const Usage& usage, std::string& out) override {
    if (usage_) {
      out += prefix_;
      out += "],\"usage\":";
      json::write(usage_json(usage), out);
      out += "}\n\n";
    }
    out += "data: [DONE]\n\n";
  }

 private:
  void open(std::string& out) const { out += prefix_; }
  void close(const Usage& so_far, std::string& out, bool first = false) const {
    out += ']';
    if (first && ids_) {
      out += ",\"prompt_token_ids\":";
      json::write(ids_json(prompt_ids_), out);
    }
    if (continuous_) {
      out += ",\"usage\":";
      json::write(usage_json(so_far), out);
    }
    out += "}\n\n";
  }

  void text_chunk(const AnswerPart& part, const Usage& so_far, std::string& out) const {
    open(out);
    out += "{\"index\":";
    out += std::to_string(part.choice);
    out += ",\"delta\":{\"content\":";
    json::write_string(part.text, out);
    if (plain_) {  // the common chunk: nothing but text
      out += "},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
      return;
    }
    out += "},\"logprobs\":";
    json::write(logprobs_ ? content_logprobs(part.entries) : json::Value(), out);
    out += ",\"finish_reason\":null";
    if (ids_) {
      out += ",\"token_ids\":";
      json::write(ids_json(part.ids), out);
    }
    out += '}';
    close(so_far, out);
  }

  void finish_chunk(const AnswerPart& part, bool ids_sent, const Usage& so_far, std::string& out) const {
    json::Object choice;
    choice.append("index", part.choice);
    choice.append("delta", json::Object{});
    choice.append("logprobs", nullptr);
    choice.append("finish_reason", part.finish->reason);
    choice.append("stop_reason", part.finish->stop_reason);
    if (ids_) choice.append("token_ids", ids_sent ? json::Value(json::Array{}) : ids_json(part.ids));
    open(out);
    json::write(choice, out);
    close(so_far, out);
  }

  std::string prefix_;
  bool plain_ = false;
  bool logprobs_;
  bool ids_;
  bool usage_;
  bool continuous_;
  int choices_;
  std::vector<TokenId> prompt_ids_;
  std::int64_t prompt_tokens_;
};

class ChatCollect final : public Encoder {
 public:
  ChatCollect(AnswerHead head, const GenerationRequest& request, const Prepared& prepared)
      : head_(std::move(head)),
        request_(request),
        prompt_ids_(prepared.prompts[0].ids),
        parts_(static_cast<std::size_t>(request.n)) {}

  void begin(std::string&) override {}
  void prompt(std::size_t, const std::vector<TokenEntry>& entries, std::string&) override {
    prompt_logprobs_ = prompt_logprobs_json(entries);
  }
  void part(const AnswerPart& part, const Usage&, std::string&) override {
    AnswerPart& whole = parts_[static_cast<std::size_t>(part.choice)];
    whole.text += part.text;
    whole.ids.insert(whole.ids.end(), part.ids.begin(), part.ids.end());
    whole.entries.insert(whole.entries.end(), part.entries.begin(), part.entries.end());
    if (part.finish) whole.finish = part.finish;
  }

  void end(const Usage& usage, std::string& out) override {
    json::Array choices;
    for (std::size_t i = 0; i < parts_.size(); ++i)
      choices.emplace_back(choice(static_cast<int>(i), parts_[i]));
    json::Object body = head_json(head_, "chat.completion");
    body.append("choices", std::move(choices));
    body.append("usage", usage_json(usage));
    if (request_.prompt_logprobs) body.append("prompt_logprobs", prompt_logprobs_);
    if (request_.return_token_ids) body.append("prompt_token_ids", ids_json(prompt_ids_));
    json::write(body, out);
  }

 private:
  json::Object choice(int index, const AnswerPart& part) const {
    json::Object message;
    message.append("role", "assistant");
    message.append("content", part.text);
    message.append("refusal", nullptr);
    json::Object out;
    out.append("index", index);
    out.append("message", std::move(message));
    out.append("logprobs", request_.logprobs >= 0 ? content_logprobs(part.entries) : json::Value());
    out.append("finish_reason", part.finish ? json::Value(part.finish->reason) : json::Value());
    out.append("stop_reason", part.finish ? part.finish->stop_reason : json::Value());
    if (request_.return_token_ids) out.append("token_ids", ids_json(part.ids));
    return out;
  }

  AnswerHead head_;
  GenerationRequest request_;
  std::vector<TokenId> prompt_ids_;
  std::vector<AnswerPart> parts_;
  json::Value prompt_logprobs_;
};

}  // namespace

std::unique_ptr<Encoder> chat_stream(AnswerHead head, const GenerationRequest& request,
                                     const Prepared& prepared) {
  return std::make_unique<ChatStream>(std::move(head), request, prepared);
}

std::unique_ptr<Encoder> chat_collect(AnswerHead head, const GenerationRequest& request,
                                      const Prepared& prepared) {
  return std::make_unique<ChatCollect>(std::move(head), request, prepared);
}

}  // namespace met::api
