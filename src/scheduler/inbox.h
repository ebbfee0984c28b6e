// The way in: requests and what clients say about them later, as mail to the engine's thread. Rules E2, E11.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "core/siphash.h"
#include "scheduler/channel.h"
#include "scheduler/plan.h"
#include "scheduler/request.h"

namespace met::scheduler {

/// End a choice as if it had ended after `ids` ids (E3).
struct StopAt {
  int choice = 0;
  std::int64_t ids = 0;
  FinishReason reason = FinishReason::kStopText;
};

/// A request that was accepted, shared by its handle and the engine. Fixed once posted, but for the channel,
/// which locks for itself, and the mail, which the inbox guards.
struct Record {
  Record(Request accepted, std::int64_t outputs, std::int64_t ids_max, int depth)
      : request(std::move(accepted)),
        outputs_max(outputs),
        channel(request.n, ids_max, std::min(outputs, ids_max + depth), request.sampling.logprobs >= 0) {}

  Request request;
  std::uint64_t number = 0;                        ///< of its acceptance
  std::vector<sampling::SamplingParams> sampling;  ///< one for each choice, with seed (D2)
  const std::int64_t outputs_max;                  ///< max_tokens after the clamp (R13)
  std::int64_t accepted_us = 0;
  std::int64_t deadline_us = -1;  ///< -1: none
  Hash128 root{};                 ///< of its identities (B3)
  std::uint64_t session = 0;      ///< of the prompt's beginning and its root (H9)
  std::vector<Hash128> chain;     ///< of the prompt's whole blocks
  Channel channel;

  struct Mail {
    bool posted = false;  ///< it lies in the inbox
    bool fresh = false;
    bool cancel = false;
    std::vector<StopAt> stops;
  };
  Mail mail;

  std::int64_t outputs_most = 0;    ///< the engine's alone: of the choices that have ended, the longest
  std::vector<SeqIndex> sequences;  ///< the engine's alone: of each choice that has not ended, else -1
};

/// Each request lies in it at most once, so that it holds no more than there are accepted requests.
class Inbox {
 public:
  explicit Inbox(std::size_t requests_max);

  struct Letter {
    std::shared_ptr<Record> record;
    bool fresh = false;
    bool cancel = false;
    std::vector<StopAt> stops;
  };

  // Any thread.
  /// False when the engine takes no more requests: draining or gone.
  bool submit(const std::shared_ptr<Record>& record);
  void cancel(const std::shared_ptr<Record>& record);
  void stop_at(const std::shared_ptr<Record>& record, const StopAt& stop);
  void wake();
  /// Refuses new requests from now on; live ones end at `deadline_us` at the latest. The earliest call wins.
  void drain(std::int64_t deadline_us);
  bool draining() const;

  // The engine's thread.
  /// Replaces the content of `letters` by what came since the last call.
  void take(std::vector<Letter>& letters);
  std::optional<std::int64_t> drain_deadline() const;
  /// Sleeps until something comes, or `timeout_us` have passed; negative: no limit.
  void sleep(std::int64_t timeout_us);
  /// Nothing is taken any more; what lies here is given up.
  void close();

 private:
  void post(const std::shared_ptr<Record>& record);  ///< with the lock held

  mutable std::mutex mutex_;  ///< guards what follows and each record's mail
  std::condition_variable arrived_;
  std::vector<std::shared_ptr<Record>> posted_;
  std::optional<std::int64_t> drain_deadline_us_;
  bool woken_ = false;
  bool closed_ = false;
};

}  // namespace met::scheduler
