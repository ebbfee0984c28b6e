#include "bench/simulator.h"

#include <algorithm>
#include <memory>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/door.h"
#include "scheduler/engine_loop.h"

namespace met::bench {
namespace {

using scheduler::Event;
constexpr std::int64_t kNever = -1;

/// A request at its replica, as its client sees it.
struct Client {
  std::unique_ptr<scheduler::Generation> handle;
  std::int64_t last_us = -1;  ///< of its last token
};

/// The parts of one serving process, without its threads.
struct Replica {
  Replica(const SimulationOptions& options, std::span<const TracedRequest> trace)
      : door(options.engine),
        device(options.time, trace, options.engine.plan.max_batch_size, clock),
        executor(device, clock),
        loop(options.engine, door.inbox(), executor, clock, door.open()) {}

  VirtualClock clock;
  scheduler::Door door;
  SimulatedDevice device;
  scheduler::InlineExecutor executor;
  scheduler::EngineLoop loop;
  std::vector<std::size_t> heard;  ///< requests with events to read
  std::int64_t ready_us = kNever;  ///< when it ticks next; kNever: it sleeps
  std::int64_t skips = 0;
};

/// Something that happens at a moment. Of one moment: arrivals, then clients that leave, then ticks by replica.
struct Moment {
  enum class Kind : std::uint8_t { kLeaves, kTick };
  std::int64_t at_us = 0;
  Kind kind = Kind::kTick;
  std::size_t index = 0;  ///< of the request or replica
  friend auto operator<=>(const Moment&, const Moment&) = default;
};

class Simulation {
 public:
  Simulation(std::span<const TracedRequest> trace, const SimulationOptions& options)
      : trace_(trace), options_(options), clients_(trace.size()), home_(trace.size()) {
    for (int i = 0; i < options.replicas; ++i) replicas_.push_back(std::make_unique<Replica>(options, trace));
    router_ = make_router(options.router);
    by_tenant_ =
        std::ranges::any_of(trace, [&](const TracedRequest& r) { return r.tenant != trace[0].tenant; });
  }

  Result<Simulated> run() {
    out_.requests = std::ssize(trace_);
    std::size_t next = 0;
    while (next < trace_.size() || !moments_.empty()) {
      if (next < trace_.size() && (moments_.empty() || trace_[next].at_us <= moments_.top().at_us)) {
        arrive(next++);
        continue;
      }
      const Moment moment = moments_.top();
      moments_.pop();
      if (moment.kind == Moment::Kind::kLeaves) {
        leave(moment);
      } else if (replicas_[moment.index]->ready_us == moment.at_us) {
        tick(moment.index);
      }
    }
    return sum();
  }

 private:
  void plan_tick(std::size_t index, std::int64_t at_us) {
    Replica& replica = *replicas_[index];
    if (replica.ready_us != kNever && replica.ready_us <= at_us) return;
    replica.ready_us = at_us;
    moments_.push({at_us, Moment::Kind::kTick, index});
  }

  /// A tick begins when the one before it has ended.
  void wake(std::size_t index, std::int64_t at_us) {
    plan_tick(index, std::max(at_us, replicas_[index]->clock.now_us()));
  }

  void arrive(std::size_t index) {
    const TracedRequest& traced = trace_[index];
    loads_.clear();
    for (const auto& replica : replicas_) loads_.push_back(replica->door.open().load());
    const std::size_t chosen = router_->choose(traced, loads_);
    Replica& replica = *replicas_[chosen];
    arrival_.set(traced.at_us);
    auto handle = replica.door.submit(request_of(traced, index), arrival_);
    if (!handle) {
      ++(handle.error().code == ErrorCode::kUnavailable ? out_.refused : out_.too_long);
      return;
    }
    router_->placed(traced, chosen);
    home_[index] = chosen;
    clients_[index].handle = std::move(*handle);
    clients_[index].handle->on_ready([&replica, index] { replica.heard.push_back(index); });
    if (traced.leaves_after_us >= 0)
      moments_.push({traced.at_us + traced.leaves_after_us, Moment::Kind::kLeaves, index});
    wake(chosen, traced.at_us);
  }

  static scheduler::Request request_of(const TracedRequest& traced, std::size_t index) {
    scheduler::Request request;
    request.prompt.reserve(static_cast<std::size_t>(traced.prompt_tokens));
    for (const TextPiece& piece : traced.prompt)
      for (std::int64_t i = 0; i < piece.tokens; ++i) request.prompt.push_back(token_of(piece.text, i));
    request.max_tokens = traced.output_tokens;
    request.priority = traced.priority;
    request.tenant = traced.tenant;
    request.sampling.temperature = 0;
    request.sampling.seed = index;
    return request;
  }

  void leave(const Moment& moment) {
    Client& client = clients_[moment.index];
    if (client.handle == nullptr) return;
    client.handle.reset();
    ++out_.left;
    wake(home_[moment.index], moment.at_us);
  }

  void tick(std::size_t index) {
    Replica& replica = *replicas_[index];
    replica.clock.set(replica.ready_us);
    replica.ready_us = kNever;
    const bool moved = replica.loop.tick();
    replica.skips = replica.loop.plan().slai_skipped ? replica.skips + 1 : 0;
    out_.skips_most = std::max(out_.skips_most, replica.skips);
    out_.waiting_most = std::max(out_.waiting_most, replica.loop.snapshot().waiting);
    const std::int64_t now_us = replica.clock.now_us();
    last_us_ = std::max(last_us_, now_us);
    for (const std::size_t request : std::exchange(replica.heard, {})) read(request, now_us);
    if (moved) return plan_tick(index, now_us);
    if (const std::int64_t wake_us = replica.loop.wake_us(); wake_us >= 0)
      plan_tick(index, std::max(wake_us, now_us));
  }

  void read(std::size_t index, std::int64_t now_us) {
    Client& client = clients_[index];
    if (client.handle == nullptr) return;
    const TracedRequest& traced = trace_[index];
    const auto observe = [&](FineHistogram Latencies::* which, std::int64_t us) {
      (out_.all.*which).add(us);
      if (by_tenant_) (out_.tenants[traced.tenant].*which).add(us);
    };
    while (const auto event = client.handle->poll()) {
      if (event->kind == Event::Kind::kTokens) {
        out_.output_tokens += std::ssize(event->ids);
        if (client.last_us < 0) {
          observe(&Latencies::first_token, now_us - traced.at_us);
        } else {
          observe(&Latencies::between_tokens, now_us - client.last_us);
        }
        client.last_us = now_us;
      }
      if (!event->terminal()) continue;
      const bool whole =
          event->kind == Event::Kind::kFinished && event->completion_tokens == traced.output_tokens;
      ++(whole ? out_.finished : out_.ended_early);
      if (whole) observe(&Latencies::whole, now_us - traced.at_us);
      client.handle.reset();
      return;
    }
  }

  Result<Simulated> sum() {
    double queued_s = 0;
    std::int64_t admitted = 0;
    for (const auto& replica : replicas_) {
      const scheduler::Snapshot& s = replica->loop.snapshot();
      if (replica->door.open().load() != 0 || s.blocks_referenced != 0 || s.swap_blocks_used != 0 ||
          s.blocks_free + s.blocks_evictable + 1 != s.blocks_total)
        return fail(ErrorCode::kInternal, "a replica ends with blocks or requests that nobody holds");
      out_.prompt_tokens += s.prefix_queries;
      out_.hit_tokens += s.prefix_hits;
      out_.preemptions += s.preemptions;
      out_.swaps += s.stats.preemptions_swap;
      out_.steps += s.steps;
      out_.evictions += s.stats.evictions;
      out_.states_stored += s.stats.checkpoints_stored;
      out_.states_restored += s.stats.checkpoints_restored;
      const auto tokens = [&](scheduler::TokenClass c) {
        return s.stats.tokens[static_cast<std::size_t>(c)];
      };
      out_.recomputed_tokens += tokens(scheduler::TokenClass::kRecomputed);
      out_.computed_tokens += tokens(scheduler::TokenClass::kRecomputed) +
                              tokens(scheduler::TokenClass::kPrefill) +
                              tokens(scheduler::TokenClass::kDecode);
      out_.busy_us += replica->device.busy_us();
      queued_s += s.stats.queue_time.sum;
      admitted += s.stats.queue_time.count;
    }
    out_.queued_s = admitted == 0 ? 0 : queued_s / static_cast<double>(admitted);
    out_.duration_us = trace_.empty() ? 0 : std::max<std::int64_t>(0, last_us_ - trace_.front().at_us);
    return std::move(out_);
  }

  const std::span<const TracedRequest> trace_;
  const SimulationOptions& options_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  std::vector<Client> clients_;  ///< behind the replicas, whose inboxes their handles use
  std::vector<std::size_t> home_;
  std::unique_ptr<ReplicaRouter> router_;
  std::priority_queue<Moment, std::vector<Moment>, std::greater<>> moments_;
  std::vector<int> loads_;
  VirtualClock arrival_;  ///< at the last one, which its replica's clock may have passed within a step
  bool by_tenant_ = false;
  std::int64_t last_us_ = 0;
  Simulated out_;
};

}  // namespace

Result<Simulated> simulate(std::span<const TracedRequest> trace, const SimulationOptions& options) {
  MET_TRY(scheduler::validate(options.engine.plan));
  if (options.replicas < 1) return invalid("--replicas", "there is no replica");
  return Simulation(trace, options).run();
}

}  // namespace met::bench
