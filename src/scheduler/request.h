// The engine's front door: what a client submits, what it gets back. Rules R1 to R13 of
// docs/scheduler-and-engine.md.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "core/histogram.h"
#include "sampling/constraint.h"
#include "sampling/params.h"

namespace met::scheduler {

using TokenId = std::int32_t;

/// One sequence to generate. Token ids, masks and numbers only (rule E3).
struct Request {
  std::vector<TokenId> prompt;
  sampling::SamplingParams sampling;
  std::int64_t max_tokens = 16;                            ///< clamped to max_seq_len - prompt (R13)
  std::vector<TokenId> eos_ids;                            ///< end with reason `eos`; empty with ignore_eos
  std::vector<TokenId> stop_ids;                           ///< end with reason `stop_token`
  std::shared_ptr<const sampling::Constraint> constraint;  ///< null: every token may follow
  bool prompt_logprobs = false;                            ///< P9: neither uses nor publishes hits
  int prompt_logprobs_top = 0;
  int priority = 0;                        ///< lower runs first (S22)
  std::uint64_t tenant = 0;                ///< from authentication; part of the cache salt (B3)
  std::string cache_salt;                  ///< adds to, never replaces, the tenant's salt
  std::optional<std::int64_t> timeout_us;  ///< from acceptance (R7)
  bool probe = false;  ///< computes nothing: ends at once with the hit that it would have now; `n` is 1
  int n = 1;           ///< sequences forked from one prompt (B6); events carry `choice`
};

enum class FinishReason { kEos, kStopToken, kStopText, kLength, kContext, kTimeout, kRepetition };
std::string_view name(FinishReason reason);

struct TokenLogprob {
  TokenId id = 0;
  float logprob = 0;
};
/// Log-probabilities of one position, after temperature-free softmax of the raw logits.
struct PositionLogprobs {
  float chosen = 0;
  std::vector<TokenLogprob> top;  ///< best first
  std::int64_t rank = 0;          ///< of the chosen: likelier tokens, plus 1
};

/// What the engine tells about one sequence. Exactly one terminal event, the last (R2).
struct Event {
  enum class Kind { kAccepted, kProgress, kPromptLogprobs, kTokens, kFinished, kCancelled, kFailed };
  Kind kind = Kind::kAccepted;
  int choice = 0;
  std::vector<TokenId> ids;  ///< kTokens: in position order, each once (R3)
  std::vector<PositionLogprobs>
      logprobs;  ///< kTokens: one an id when asked; kPromptLogprobs: positions 1 … prompt-1
  std::int64_t prompt_computed =
      0;                    ///< kProgress; kFinished of a probe: tokens of the leading blocks in the cache
  std::int64_t cached = 0;  ///< kProgress and kFinished: tokens of the first admission's hit (R12)
  FinishReason reason = FinishReason::kEos;  ///< kFinished
  std::int64_t completion_tokens = 0;        ///< kFinished: ids emitted
  Error error;                               ///< kFailed
  bool terminal() const { return kind >= Kind::kFinished; }
};

/// A running request's handle; destroying it cancels (R6). Used from one thread at a time; the engine writes
/// from its own.
class Generation {
 public:
  virtual ~Generation() = default;
  /// The next event if there is one. Never blocks. A request of n choices ends after n terminal events.
  virtual std::optional<Event> poll() = 0;
  /// Blocks for the next event; used by the shell, not by the server.
  virtual Event wait() = 0;
  /// Called from the engine's thread whenever an event was added to an empty channel; must return at once and
  /// not call back into the engine. Setting it calls it when events are already there.
  virtual void on_ready(std::function<void()> wake) = 0;
  /// Ends the sequence as if it had ended after `ids` emitted ids; later ids are dropped (E3, R9).
  virtual void stop_at(int choice, std::int64_t ids, FinishReason reason) = 0;
  virtual void cancel() = 0;
};

/// Why a sequence did not advance in a step.
enum class WaitReason : std::uint8_t {
  kCapacity,  ///< blocks
  kRows,      ///< device rows
  kBudget,    ///< tokens of the step
  kProducer,  ///< the choice that computes its prompt
  kConsumer,  ///< its event channel is full
  kResume,    ///< parked sequences go first
  kLimit,     ///< its last token is in flight
  kGrammar,   ///< what may follow depends on a token in flight (E8)
  kDeadline,  ///< a running stream's next token goes first (S10)
  kSwap,      ///< its blocks are on their way through the swap tiers
  kWave,      ///< the rows it may go with (P6), or the window in which more of them come (P7)
};
inline constexpr int kWaitReasons = 11;

/// Terminals as `vllm:request_success_total` counts them.
enum class EndClass : std::uint8_t { kStop, kLength, kAbort, kError, kTimeout, kRepetition };
inline constexpr int kEndClasses = 6;
/// Tokens computed, by class (S21).
enum class TokenClass : std::uint8_t { kDecode, kPrefill, kRecomputed, kPadded, kOvershoot };
inline constexpr int kTokenClasses = 5;
std::string_view name(EndClass end);
std::string_view name(TokenClass token);
std::string_view name(WaitReason reason);

/// What section 15 of the contract observes, since the start. Times in seconds.
struct Statistics {
  std::int64_t prompt_tokens = 0;
  std::int64_t prompt_tokens_cached = 0;  ///< of prompt_tokens, those of the first admission's hit
  std::int64_t generation_tokens = 0;
  std::int64_t corrupted = 0;  ///< requests that failed for logits that are not finite (F3)
  std::array<std::int64_t, kEndClasses> ended{};
  std::array<std::int64_t, kTokenClasses> tokens{};
  std::array<std::int64_t, kWaitReasons> waits{};  ///< gauge: sequences that did not advance in the last tick
  std::int64_t evictions = 0;                      ///< cached blocks given up
  std::int64_t preemptions_swap = 0;               ///< of all, those that swapped (S17)
  std::int64_t swap_out_bytes = 0;                 ///< to the host pool
  std::int64_t swap_in_bytes = 0;
  std::int64_t disk_out_bytes = 0;  ///< from the host pool to disk (S25)
  std::int64_t disk_in_bytes = 0;
  std::int64_t spill_failures = 0;
  std::int64_t checkpoints_stored = 0;  ///< of recurrent state (H4)
  std::int64_t checkpoints_restored = 0;
  std::int64_t checkpoints_evicted = 0;
  std::int64_t steps_replayed = 0;  ///< captured graphs (G6)
  std::int64_t steps_eager = 0;     ///< kernel by kernel
  std::array<std::int64_t, kWaitReasons>
      async_drains{};  ///< at depth 2: ticks without a step behind the one in flight, by why (E8)
  std::int64_t async_rows_held = 0;   ///< and rows left out of a step for a token in flight
  std::int64_t last_decode_rows = 0;  ///< gauge: of the last step
  std::int64_t last_prefill_rows = 0;
  bool slai_infeasible = false;  ///< gauge: decode alone misses the deadline (S12)
  double device_idle_s = 0;      ///< gaps between steps while work existed
  Histogram time_to_first_token{kSecondBounds};
  Histogram inter_token_latency{kSecondBounds};
  Histogram time_per_output_token{kSecondBounds};
  Histogram e2e_latency{kSecondBounds};
  Histogram queue_time{kSecondBounds};
  Histogram prefill_time{kSecondBounds};
  Histogram decode_time{kSecondBounds};
  Histogram inference_time{kSecondBounds};
  Histogram request_prompt_tokens{kCountBounds};
  Histogram request_generation_tokens{kCountBounds};
  Histogram request_generation_most{kCountBounds};   ///< of a request's choices the longest
  Histogram request_prefill_computed{kCountBounds};  ///< prompt tokens without those of the hit
  Histogram request_max_tokens{kCountBounds};
  Histogram request_n{kCountBounds};
  Histogram iteration_tokens{kCountBounds};
  Histogram step_decode{kSecondBounds};   ///< steps of decode rows alone
  Histogram step_prefill{kSecondBounds};  ///< steps of prefill rows alone
  Histogram step_mixed{kSecondBounds};
  Histogram tick_host{kSecondBounds};  ///< host work of a tick, waiting for the device left out
};

/// Numbers that a scrape reads without touching the engine (rules E2, O2).
struct Snapshot {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  std::int64_t prefilling = 0;  ///< of `running`; the others decode
  std::int64_t parked = 0;      ///< of `waiting`: to be recomputed
  std::int64_t swapped = 0;     ///< of `waiting`: in the swap tiers; the others are queued
  std::int64_t blocks_total = 0;
  std::int64_t blocks_free = 0;
  std::int64_t blocks_evictable = 0;
  std::int64_t blocks_referenced = 0;
  std::int64_t swap_blocks_used = 0;  ///< places of the host pool
  std::int64_t disk_blocks_used = 0;
  std::int64_t state_slots_used =
      0;  ///< of device rows, where the model has recurrent state; else none are counted
  std::int64_t state_slots_total = 0;
  std::int64_t checkpoint_slots_used = 0;
  std::int64_t checkpoint_slots_total = 0;
  std::int64_t preemptions = 0;
  std::int64_t steps = 0;
  std::int64_t ticks = 0;
  std::int64_t prefix_queries = 0;  ///< tokens
  std::int64_t prefix_hits = 0;     ///< tokens
  std::int64_t prefix_requests = 0;
  std::int64_t prefix_requests_hit = 0;  ///< of them, those that found a part of their prompt
  std::int64_t overshoot_tokens = 0;
  std::int64_t last_progress_us = 0;  ///< monotonic time of the last settled step
  std::int64_t now_us = 0;
  bool faulted = false;
  bool draining = false;
  Statistics stats;
};

/// What a front end may call from any thread.
class Client {
 public:
  virtual ~Client() = default;
  /// Accepts or refuses at once (R1): kInvalidArgument names the field, kUnavailable when full or draining.
  virtual Result<std::unique_ptr<Generation>> submit(Request request) = 0;
  virtual std::shared_ptr<const Snapshot> snapshot() const = 0;
  virtual std::int64_t max_seq_len() const = 0;
  /// Stops accepting, lets live requests run until the deadline, then cancels them (F7). Returns when all
  /// have ended.
  virtual void drain(std::int64_t timeout_us) = 0;
};

}  // namespace met::scheduler
