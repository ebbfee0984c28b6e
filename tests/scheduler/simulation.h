// The real tick loop over the scripted device, with virtual time, no thread and no sleep; writes a trace and
// checks the invariants of T3 after every tick. Rules T1 to T3.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "scheduler/door.h"
#include "scheduler/engine_loop.h"
#include "tests/scheduler/invariants.h"
#include "tests/scheduler/scripted_device.h"

namespace met::scheduler::testing {

struct SimOptions {
  PlanConfig plan;
  int max_num_seqs = 64;
  bool prefix_caching = true;
  int channel_tokens = 1024;
  std::int64_t slow_consumer_us = 5'000'000;
  std::int64_t step_timeout_us = 60'000'000;
  std::int64_t swap_block_ns = 0;  ///< as measured at start
  DeviceScript device;
};

/// The defaults of small scenarios: blocks of 4 tokens, steps of at most 16 prefill tokens.
SimOptions small_options(int blocks, int batch = 4, int depth = 1);

/// A request as a scenario writes it.
struct Ask {
  int prompt = 4;  ///< tokens
  std::int64_t max_tokens = 4;
  int shared = 0;  ///< leading prompt tokens that all requests of one `family` have in common
  int family = 0;
  int n = 1;
  std::vector<TokenId> eos;
  std::vector<TokenId> stop;
  std::int64_t timeout_us = -1;
  bool prompt_logprobs = false;
  bool logprobs = false;
  bool grammar = false;  ///< what may follow is decided on the host (E8); here it is everything
  std::uint64_t tenant = 0;
  int priority = 0;
  bool probe = false;
};

class Simulation {
 public:
  explicit Simulation(const SimOptions& options);
  ~Simulation();

  // Commands, run before the tick that comes next.
  void submit(const std::string& name, const Ask& ask);
  void cancel(const std::string& name);
  void stop_at(const std::string& name, std::int64_t ids, int choice = 0);
  void destroy(const std::string& name);
  void read(const std::string& name, bool reads);
  void shutdown(std::int64_t timeout_us);

  /// A command before tick `tick` of run().
  void at(int tick, std::function<void(Simulation&)> command);
  /// One tick, checked. False when the engine would sleep.
  bool tick();
  /// Ticks until every request has ended and no command is left; at most `ticks_max`. Gives the trace.
  std::string run(int ticks_max = 1000);

  const std::string& trace() const { return trace_; }
  EngineLoop& loop() { return *loop_; }
  ScriptedDevice& device() { return *device_; }
  ScriptedSpill& spill() { return *spill_; }
  VirtualClock& clock() { return clock_; }
  int ticks() const { return ticks_; }
  int open() { return door_.open().load(); }
  /// What the client of a choice has got.
  struct Got {
    std::vector<TokenId> ids;
    std::int64_t prompt_logprobs = 0;
    std::optional<Event> terminal;
  };
  const Got& got(const std::string& name, int choice = 0) const;
  /// What it would get alone: ids up to the end by eos, stop token, max_tokens or context.
  std::vector<TokenId> solo(const std::string& name, int choice = 0) const;
  std::vector<std::string> names() const;
  /// State of a choice's sequence, or nothing once it has left the table.
  std::optional<SeqState> state(const std::string& name, int choice = 0) const;
  /// Ticks until `name` is in `state`; at most 200.
  void tick_until(const std::string& name, SeqState state);

 private:
  struct Client {
    Ask ask;
    Request request;
    std::unique_ptr<Generation> handle;
    std::vector<Got> got;
    bool reads = true;
    bool accepted = false;
    bool stopped = false;  ///< by stop_at: it may end before its solo text
  };

  std::string name_of(SeqIndex seq) const;
  void check_wave() const;
  void check_producer_waits();
  void write_plan(std::string& line) const;
  void write_settled(std::string& line) const;
  void read_events(std::string& line);
  void take(const std::string& name, Client& client, Event event, std::string& line);
  void check_ended(const std::string& name, int choice) const;

  SimOptions options_;
  EngineConfig config_;
  VirtualClock clock_;
  Door door_;
  Invariants invariants_;
  std::unique_ptr<ScriptedDevice> device_;
  std::unique_ptr<ScriptedSpill> spill_;  ///< null: no places on disk
  std::unique_ptr<InlineExecutor> executor_;
  std::unique_ptr<EngineLoop> loop_;
  std::vector<std::string> names_;  ///< by number of acceptance
  std::map<std::string, Client> clients_;
  std::multimap<int, std::function<void(Simulation&)>> script_;
  std::vector<std::string> commands_;  ///< since the last tick
  std::string trace_;
  int ticks_ = 0;
  std::map<std::uint64_t, int> producer_waits_;  ///< of each queued request
  int skips_ = 0;                                ///< ticks in a row without an admission round (S11)
};

/// Compares with tests/scheduler/traces/<name>.txt; with --update-traces on the command line it writes the
/// file.
void expect_trace(const std::string& name, const std::string& trace);

}  // namespace met::scheduler::testing
