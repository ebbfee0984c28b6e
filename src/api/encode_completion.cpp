#include <algorithm>
#include <numeric>

#include "api/encoder.h"
#include "core/concat.h"
#include "core/utf8.h"

namespace met::api {
namespace {

json::Value ids_json(const std::vector<TokenId>& ids) {
  json::Array out(ids.begin(), ids.end());
  return out;
}

std::int64_t code_points(std::string_view text) {
  return std::count_if(text.begin(), text.end(),
                       [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; });
}

/// OpenAI's form for completions: four lists of one length. Keys of `top_logprobs` are texts; a text that
/// names two tokens gives way to the token's id.
json::Value logprobs_json(const std::vector<TokenEntry>& entries, const GenerationRequest& request,
                          std::int64_t& offset) {
  const bool as_ids = request.tokens_as_ids;
  json::Array tokens;
  json::Array logprobs;
  json::Array tops;
  json::Array offsets;
  for (const TokenEntry& entry : entries) {
    tokens.emplace_back(token_name(entry.token, as_ids));
    offsets.emplace_back(offset);
    offset += code_points(entry.token.text);
    if (!entry.scored) {
      logprobs.emplace_back(nullptr);
      tops.emplace_back(nullptr);
      continue;
    }
    logprobs.emplace_back(static_cast<double>(entry.token.logprob));
    json::Object top;
    const auto add = [&](const ScoredToken& token) {
      std::string key = token_name(token, as_ids || top.contains(token.text));
      top.set(std::move(key), static_cast<double>(token.logprob));
    };
    bool listed = false;
    for (const ScoredToken& other : entry.top) {
      listed |= other.id == entry.token.id;
      add(other);
    }
    if (!listed && request.logprobs > 0) add(entry.token);
    tops.emplace_back(std::move(top));
  }
  json::Object out;
  out.append("tokens", std::move(tokens));
  out.append("token_logprobs", std::move(logprobs));
  out.append("top_logprobs", std::move(tops));
  out.append("text_offset", std::move(offsets));
  return out;
}

json::Object head_json(const AnswerHead& head) {
  json::Object out;
  out.append("id", head.id);
  out.append("object", "text_completion");
  out.append("created", head.created);
  out.append("model", head.model);
  out.append("system_fingerprint", head.fingerprint);
  return out;
}

/// What both forms share: how many candidates, and what a prompt echoes.
class CompletionEncoder : public Encoder {
 protected:
  CompletionEncoder(AnswerHead head, const GenerationRequest& request, const Prepared& prepared)
      : head_(std::move(head)),
        request_(request),
        prompts_(prepared.prompts),
        prompt_entries_(prepared.prompts.size()) {}

  void prompt(std::size_t index, const std::vector<TokenEntry>& entries, std::string&) override {
    prompt_entries_[index] = entries;
  }
  int candidates() const { return request_.best_of.value_or(request_.n); }
  std::size_t prompt_of(int choice) const { return static_cast<std::size_t>(choice / candidates()); }
  bool scores() const { return request_.logprobs >= 0; }
  /// Of the prompt, what is echoed.
  std::vector<TokenEntry> echoed(std::size_t index) const {
    const std::vector<TokenEntry>& all = prompt_entries_[index];
    const std::size_t begin = std::min(prompts_[index].text_begin, all.size());
    const std::size_t end = std::min(begin + prompts_[index].text_count, all.size());
    return {all.begin() + static_cast<std::ptrdiff_t>(begin), all.begin() + static_cast<std::ptrdiff_t>(end)};
  }

  AnswerHead head_;
  GenerationRequest request_;
  std::vector<Prompt> prompts_;
  std::vector<std::vector<TokenEntry>> prompt_entries_;
};

class CompletionStream final : public CompletionEncoder {
 public:
  CompletionStream(AnswerHead head, const GenerationRequest& request, const Prepared& prepared)
      : CompletionEncoder(std::move(head), request, prepared),
        offsets_(prompts_.size() * static_cast<std::size_t>(candidates())),
        begun_(offsets_.size()),
        ids_told_(offsets_.size()) {
    std::string open = json::write(head_json(head_));
    open.pop_back();
    prefix_ = "data: " + open + ",\"choices\":[";
    plain_ = !scores() && !request_.return_token_ids && !request_.continuous_usage_stats;
  }

  void begin(const Usage&, std::string&) override {}

  void part(const AnswerPart& part, const Usage& so_far, std::string& out) override {
    if (!begun_[static_cast<std::size_t>(part.choice)]) first(part.choice, so_far, out);
    const bool has_text = !part.text.empty() || !part.entries.empty();
    if (has_text || (!part.finish && request_.return_token_ids && !part.ids.empty()))
      chunk(part.choice, part.text, part.entries, part.ids, nullptr, so_far, out);
    if (!part.finish) return;
    chunk(part.choice, "", {}, has_text ? std::vector<TokenId>{} : part.ids, &*part.finish, so_far, out);
  }

  void end(const Usage& usage, std::string& out) override {
    if (request_.include_usage) {
      out += prefix_;
      out += "],\"usage\":";
      json::write(usage_json(usage), out);
      out += "}\n\n";
    }
    out += "data: [DONE]\n\n";
  }

 private:
  /// The echoed prompt goes first, whole.
  void first(int choice, const Usage& so_far, std::string& out) {
    begun_[static_cast<std::size_t>(choice)] = true;
    if (request_.echo)
      chunk(choice, prompts_[prompt_of(choice)].text, echoed(prompt_of(choice)), {}, nullptr, so_far, out);
  }

  void chunk(int index, std::string_view text, const std::vector<TokenEntry>& entries,
             const std::vector<TokenId>& ids, const Finish* finish, const Usage& so_far, std::string& out) {
    if (plain_ && finish == nullptr) return plain_chunk(index, text, out);
    json::Object choice;
    choice.append("index", index);
    choice.append("text", text);
    choice.append("logprobs",
                  scores() && !entries.empty()
                      ? logprobs_json(entries, request_, offsets_[static_cast<std::size_t>(index)])
                      : json::Value());
    choice.append("finish_reason", finish != nullptr ? json::Value(finish->reason) : json::Value());
    choice.append("stop_reason", finish != nullptr ? finish->stop_reason : json::Value());
    if (request_.return_token_ids) {
      choice.append("token_ids", ids_json(ids));
      if (!ids_told_[static_cast<std::size_t>(index)]) {
        ids_told_[static_cast<std::size_t>(index)] = true;
        choice.append("prompt_token_ids", ids_json(prompts_[prompt_of(index)].ids));
      }
    }
    out += prefix_;
    json::write(choice, out);
    out += ']';
    if (request_.continuous_usage_stats) {
      out += ",\"usage\":";
      json::write(usage_json(so_far), out);
    }
    out += "}\n\n";
  }

  /// The common chunk: nothing but text.
  void plain_chunk(int index, std::string_view text, std::string& out) const {
    out += prefix_;
    out += "{\"index\":";
    out += std::to_string(index);
    out += ",\"text\":";
    json::write_string(text, out);
    out += ",\"logprobs\":null,\"finish_reason\":null,\"stop_reason\":null}]}\n\n";
  }

  std::string prefix_;
  bool plain_ = false;
  std::vector<std::int64_t> offsets_;
  std::vector<bool> begun_;
  std::vector<bool> ids_told_;  // its prompt's ids went out
};

class CompletionCollect final : public CompletionEncoder {
 public:
  CompletionCollect(AnswerHead head, const GenerationRequest& request, const Prepared& prepared)
      : CompletionEncoder(std::move(head), request, prepared),
        answers_(prompts_.size() * static_cast<std::size_t>(candidates())) {}

  void begin(const Usage&, std::string&) override {}
  void part(const AnswerPart& part, const Usage&, std::string&) override {
    answers_[static_cast<std::size_t>(part.choice)].add(part);
  }

  void end(const Usage& usage, std::string& out) override {
    json::Array choices;
    for (std::size_t p = 0; p < prompts_.size(); ++p)
      for (const std::size_t candidate : best(p))
        choices.emplace_back(choice(static_cast<int>(choices.size()), p, answers_[candidate]));
    json::Object body = head_json(head_);
    body.append("choices", std::move(choices));
    body.append("usage", usage_json(usage));
    json::write(body, out);
  }

 private:
  static double mean(const Answer& answer) {
    return answer.ids.empty() ? 0 : answer.logprob_sum / static_cast<double>(answer.ids.size());
  }

  /// Indexes of the n candidates with the highest log-probability a token, best first; in order where all are
  /// kept.
  std::vector<std::size_t> best(std::size_t prompt_index) const {
    std::vector<std::size_t> order(static_cast<std::size_t>(candidates()));
    std::iota(order.begin(), order.end(), prompt_index * order.size());
    if (order.size() > static_cast<std::size_t>(request_.n)) {
      std::stable_sort(order.begin(), order.end(),
                       [&](std::size_t a, std::size_t b) { return mean(answers_[a]) > mean(answers_[b]); });
      order.resize(static_cast<std::size_t>(request_.n));
    }
    return order;
  }

  json::Object choice(int index, std::size_t prompt_index, const Answer& answer) const {
    std::vector<TokenEntry> entries = request_.echo ? echoed(prompt_index) : std::vector<TokenEntry>{};
    entries.insert(entries.end(), answer.entries.begin(), answer.entries.end());
    std::int64_t offset = 0;
    json::Object out;
    out.append("index", index);
    const std::string text = answer.text(Segment::Kind::kContent);
    out.append("text", request_.echo ? prompts_[prompt_index].text + text : text);
    out.append("logprobs", scores() ? logprobs_json(entries, request_, offset) : json::Value());
    out.append("finish_reason", answer.finish ? json::Value(answer.finish->reason) : json::Value());
    out.append("stop_reason", answer.finish ? answer.finish->stop_reason : json::Value());
    if (request_.prompt_logprobs)
      out.append("prompt_logprobs", prompt_logprobs_json(prompt_entries_[prompt_index]));
    if (request_.return_token_ids) {
      out.append("token_ids", ids_json(answer.ids));
      out.append("prompt_token_ids", ids_json(prompts_[prompt_index].ids));
    }
    return out;
  }

  std::vector<Answer> answers_;
};

}  // namespace

std::unique_ptr<Encoder> completion_stream(AnswerHead head, const GenerationRequest& request,
                                           const Prepared& prepared) {
  return std::make_unique<CompletionStream>(std::move(head), request, prepared);
}

std::unique_ptr<Encoder> completion_collect(AnswerHead head, const GenerationRequest& request,
                                            const Prepared& prepared) {
  return std::make_unique<CompletionCollect>(std::move(head), request, prepared);
}

}  // namespace met::api
