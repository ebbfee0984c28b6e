#include <algorithm>

#include "api/encoder.h"

namespace met::api {
namespace {

json::Value ids_json(const std::vector<TokenId>& ids) {
  json::Array out(ids.begin(), ids.end());
  return out;
}

json::Value content_logprobs(const std::vector<TokenEntry>& entries, bool as_ids, bool refusal) {
  json::Value list = chat_logprobs_json(entries, as_ids);
  json::Object out;
  out.append("content", refusal ? json::Value() : list);
  out.append("refusal", refusal ? std::move(list) : json::Value());
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
      : head_(std::move(head)),
        logprobs_(request.logprobs >= 0),
        as_ids_(request.tokens_as_ids),
        ids_(request.return_token_ids),
        usage_(request.include_usage),
        continuous_(request.continuous_usage_stats),
        choices_(request.n),
        prompt_ids_(ids_ ? prepared.prompts[0].ids : std::vector<TokenId>{}),
        prompt_tokens_(static_cast<std::int64_t>(prepared.prompts[0].ids.size())) {
    std::string open = json::write(head_json(head_, "chat.completion.chunk"));
    open.pop_back();
    prefix_ = "data: " + open + ",\"choices\":[";
    plain_ = !logprobs_ && !ids_ && !continuous_;
  }

  void begin(const Usage&, std::string& out) override {
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
    const bool tells = !part.text.empty() || (!part.finish && (!part.entries.empty() || has_ids(part)));
    if (tells) delta_chunk(part, so_far, out);
    if (part.finish) finish_chunk(part, /*told=*/tells, so_far, out);
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

  bool has_ids(const AnswerPart& part) const { return ids_ && !part.ids.empty(); }

  json::Value delta_json(const AnswerPart& part) const {
    using Kind = AnswerPart::Kind;
    if (part.refusal) return json::Object{{"refusal", part.text}};
    if (part.kind == Kind::kContent) return json::Object{{"content", part.text}};
    if (part.kind == Kind::kReasoning)
      return json::Object{{"reasoning_content", part.text}, {"reasoning", part.text}};
    json::Object call{{"index", part.call}};
    const char* kind = part.custom ? "custom" : "function";
    const char* arguments = part.custom ? "input" : "arguments";
    if (part.kind == Kind::kCallBegin) {
      call.append("id", part_id("call_", head_, part.choice, part.call));
      call.append("type", kind);
      call.append(kind, json::Object{{"name", part.text}, {arguments, ""}});
    } else {
      call.append(kind, json::Object{{arguments, part.text}});
    }
    return json::Object{{"tool_calls", json::Array{json::Value(std::move(call))}}};
  }

  void delta_chunk(const AnswerPart& part, const Usage& so_far, std::string& out) const {
    open(out);
    out += "{\"index\":";
    out += std::to_string(part.choice);
    out += ",\"delta\":";
    if (plain_ && part.kind == AnswerPart::Kind::kContent &&
        !part.refusal) {  // the common chunk: nothing but text
      out += "{\"content\":";
      json::write_string(part.text, out);
      out += "},\"logprobs\":null,\"finish_reason\":null}]}\n\n";
      return;
    }
    json::write(delta_json(part), out);
    out += ",\"logprobs\":";
    json::write(logprobs_ ? content_logprobs(part.entries, as_ids_, part.refusal) : json::Value(), out);
    out += ",\"finish_reason\":null";
    if (ids_) {
      out += ",\"token_ids\":";
      json::write(ids_json(part.ids), out);
    }
    out += '}';
    close(so_far, out);
  }

  /// `told`: a chunk before it has had the part's ids and log-probabilities.
  void finish_chunk(const AnswerPart& part, bool told, const Usage& so_far, std::string& out) const {
    json::Object choice;
    choice.append("index", part.choice);
    choice.append("delta", json::Object{});
    choice.append("logprobs",
                  logprobs_ && !told ? content_logprobs(part.entries, as_ids_, part.refusal) : json::Value());
    choice.append("finish_reason", part.finish->reason);
    choice.append("stop_reason", part.finish->stop_reason);
    if (ids_) choice.append("token_ids", told ? json::Value(json::Array{}) : ids_json(part.ids));
    open(out);
    json::write(choice, out);
    close(so_far, out);
  }

  AnswerHead head_;
  std::string prefix_;
  bool plain_ = false;
  bool logprobs_;
  bool as_ids_;
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
        answers_(static_cast<std::size_t>(request.n)) {}

  void begin(const Usage&, std::string&) override {}
  void prompt(std::size_t, const std::vector<TokenEntry>& entries, std::string&) override {
    prompt_logprobs_ = prompt_logprobs_json(entries);
  }
  void part(const AnswerPart& part, const Usage&, std::string&) override {
    answers_[static_cast<std::size_t>(part.choice)].add(part);
  }

  void end(const Usage& usage, std::string& out) override {
    json::Array choices;
    for (std::size_t i = 0; i < answers_.size(); ++i)
      choices.emplace_back(choice(static_cast<int>(i), answers_[i]));
    json::Object body = head_json(head_, "chat.completion");
    body.append("choices", std::move(choices));
    body.append("usage", usage_json(usage));
    if (request_.prompt_logprobs) body.append("prompt_logprobs", prompt_logprobs_);
    if (request_.return_token_ids) body.append("prompt_token_ids", ids_json(prompt_ids_));
    json::write(body, out);
  }

 private:
  json::Object message(int index, const Answer& answer) const {
    json::Object out;
    out.append("role", "assistant");
    const bool calls = answer.has(Segment::Kind::kCall);
    const bool content = answer.has(Segment::Kind::kContent);
    const bool refusal = answer.has(Segment::Kind::kRefusal);
    out.append("content", (calls || refusal) && !content ? json::Value()
                                                         : json::Value(answer.text(Segment::Kind::kContent)));
    out.append("refusal", refusal ? json::Value(answer.text(Segment::Kind::kRefusal)) : json::Value());
    if (answer.has(Segment::Kind::kReasoning)) {
      const std::string reasoning = answer.text(Segment::Kind::kReasoning);
      out.append("reasoning_content", reasoning);
      out.append("reasoning", reasoning);
    }
    if (!calls) return out;
    json::Array list;
    for (const Segment& segment : answer.segments) {
      if (segment.kind != Segment::Kind::kCall) continue;
      json::Object call;
      call.append("id", part_id("call_", head_, index, static_cast<int>(list.size())));
      const char* kind = segment.custom ? "custom" : "function";
      call.append("type", kind);
      call.append(
          kind, json::Object{{"name", segment.name}, {segment.custom ? "input" : "arguments", segment.text}});
      list.emplace_back(std::move(call));
    }
    out.append("tool_calls", std::move(list));
    return out;
  }

  json::Object choice(int index, const Answer& answer) const {
    json::Object out;
    out.append("index", index);
    out.append("message", message(index, answer));
    out.append("logprobs", request_.logprobs >= 0 ? content_logprobs(answer.entries, request_.tokens_as_ids,
                                                                     answer.has(Segment::Kind::kRefusal))
                                                  : json::Value());
    out.append("finish_reason", answer.finish ? json::Value(answer.finish->reason) : json::Value());
    out.append("stop_reason", answer.finish ? answer.finish->stop_reason : json::Value());
    if (request_.return_token_ids) out.append("token_ids", ids_json(answer.ids));
    return out;
  }

  AnswerHead head_;
  GenerationRequest request_;
  std::vector<TokenId> prompt_ids_;
  std::vector<Answer> answers_;
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
