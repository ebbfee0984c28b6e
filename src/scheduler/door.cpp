#include "scheduler/door.h"

#include <algorithm>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "cache/prefix_index.h"
#include "sampling/sampler.h"

namespace met::scheduler {
namespace {

Result<> check_ids(std::string_view field, const std::vector<TokenId>& ids, int vocab_size) {
  for (const TokenId id : ids) {
    if (id < 0 || (vocab_size > 0 && id >= vocab_size))
      return invalid(std::string(field), "token id " + std::to_string(id) + " is outside the vocabulary of " +
                                             std::to_string(vocab_size));
  }
  return {};
}

Result<> check_at_least(std::string_view field, std::int64_t value, std::int64_t least) {
  if (value >= least) return {};
  return invalid(std::string(field), std::string(field) + " is " + std::to_string(value) + ", the least is " +
                                         std::to_string(least));
}

/// Before min_tokens the ids that end are masked: something else must be left.
Result<> check_mask(const Request& request) {
  const std::vector<TokenId>& allowed = request.sampling.allowed_token_ids;
  if (request.sampling.min_tokens == 0 || allowed.empty()) return {};
  const auto ends = [&](TokenId id) {
    return std::ranges::find(request.eos_ids, id) != request.eos_ids.end() ||
           std::ranges::find(request.stop_ids, id) != request.stop_ids.end();
  };
  if (!std::ranges::all_of(allowed, ends)) return {};
  return invalid("allowed_token_ids",
                 "allowed_token_ids holds only ids that end the text, and min_tokens forbids these at first");
}

}  // namespace

Result<> validate(const Request& request, const EngineConfig& config) {
  const std::int64_t prompt = std::ssize(request.prompt);
  if (prompt == 0) return invalid("prompt", "the prompt has no tokens");
  if (prompt >= config.plan.max_seq_len)  // R13
    return invalid("prompt", "the prompt has " + std::to_string(prompt) + " tokens, the context length is " +
                                 std::to_string(config.plan.max_seq_len));
  MET_TRY(check_at_least("max_tokens", request.max_tokens, 0));
  MET_TRY(check_at_least("n", request.n, 1));
  if (request.n > config.plan.max_batch_size)
    return invalid("n", "n is " + std::to_string(request.n) + ", the most is max-batch-size " +
                            std::to_string(config.plan.max_batch_size));
  if (request.probe && request.n != 1) return invalid("n", "a probe has one choice");
  if (request.n > 1 && config.plan.recurrent.on)
    return unsupported("n", "a model with recurrent state gives one choice a request");
  if (request.timeout_us) MET_TRY(check_at_least("timeout", *request.timeout_us, 0));
  MET_TRY(check_at_least("prompt_logprobs", request.prompt_logprobs_top, 0));
  MET_TRY(sampling::validate(request.sampling, config.vocab_size));
  MET_TRY(check_ids("prompt", request.prompt, config.vocab_size));
  MET_TRY(check_mask(request));
  MET_TRY(check_ids("eos_ids", request.eos_ids, 0));
  return check_ids("stop_token_ids", request.stop_ids, 0);
}

std::shared_ptr<Record> make_record(Request request, const EngineConfig& config, std::int64_t now_us,
                                    std::uint64_t number) {
  const std::int64_t room = config.plan.max_seq_len - std::ssize(request.prompt);
  const std::int64_t outputs = std::min(request.max_tokens, room);  // R13
  auto record =
      std::make_shared<Record>(std::move(request), outputs, config.channel_tokens, config.plan.depth);
  const Request& accepted = record->request;
  record->number = number;
  record->accepted_us = now_us;
  if (accepted.timeout_us) {
    record->deadline_us = now_us + *accepted.timeout_us;
  } else if (config.request_timeout_us > 0) {
    record->deadline_us = now_us + config.request_timeout_us;
  }
  // D2: without a seed, bits that nobody can guess and no two requests share.
  const std::uint64_t seed = siphash128(config.cache_key, std::as_bytes(std::span(&number, 1))).low;
  for (int choice = 0; choice < accepted.n; ++choice) {
    record->sampling.push_back(accepted.sampling);
    record->sampling.back().choice = choice;
    if (accepted.constraint) record->sampling.back().min_tokens = 0;  // the masks hold it
    if (!accepted.sampling.seed) record->sampling.back().seed = seed;
  }
  if (config.prefix_caching && !accepted.prompt_logprobs) {
    const cache::ChainHasher hasher(config.cache_key, config.cache_identity);
    record->root = hasher.root(accepted.tenant, accepted.cache_salt);
    record->session = hasher.session(record->root, accepted.prompt);
    hasher.extend(record->root, accepted.prompt, config.plan.block_tokens, record->chain);
  }
  return record;
}

namespace {

class Handle final : public Generation {
 public:
  Handle(std::shared_ptr<Record> record, std::shared_ptr<Inbox> inbox)
      : record_(std::move(record)), inbox_(std::move(inbox)), terminals_left_(record_->request.n) {}
  ~Handle() override {
    record_->channel.on_ready({});
    if (terminals_left_ > 0) inbox_->cancel(record_);  // R6
  }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  std::optional<Event> poll() override {
    std::optional<Event> event = record_->channel.poll();
    if (event && event->terminal()) --terminals_left_;
    return event;
  }
  Event wait() override {
    Event event = record_->channel.wait();
    if (event.terminal()) --terminals_left_;
    return event;
  }
  void on_ready(std::function<void()> wake) override { record_->channel.on_ready(std::move(wake)); }
  void stop_at(int choice, std::int64_t ids, FinishReason reason) override {
    if (choice >= 0 && choice < record_->request.n && ids >= 0)
      inbox_->stop_at(record_, {.choice = choice, .ids = ids, .reason = reason});
  }
  void cancel() override { inbox_->cancel(record_); }

 private:
  std::shared_ptr<Record> record_;
  std::shared_ptr<Inbox> inbox_;
  int terminals_left_;
};

}  // namespace

Result<std::unique_ptr<Generation>> Door::submit(Request request, const Clock& clock) {
  MET_TRY(validate(request, config_));
  const int choices = request.n;
  if (open_.fetch_add(choices, std::memory_order_relaxed) + choices > config_.max_num_seqs) {
    give_up(choices);
    return fail(ErrorCode::kUnavailable,
                "the engine has as many requests as --max-num-seqs " + std::to_string(config_.max_num_seqs) +
                    " allows",
                "max-num-seqs");
  }
  auto record = make_record(std::move(request), config_, clock.now_us(), numbers_.fetch_add(1));
  record->channel.on_room([inbox = inbox_] { inbox->wake(); });
  if (!inbox_->submit(record)) {
    give_up(choices);
    return fail(ErrorCode::kUnavailable, "the engine is shutting down");
  }
  return std::make_unique<Handle>(std::move(record), inbox_);
}

void Door::give_up(int choices) {
  open_.fetch_sub(choices, std::memory_order_relaxed);
  inbox_->wake();  // whoever waits for the last request to end looks again
}

}  // namespace met::scheduler
