#include "tests/scheduler/simulation.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>

namespace met::scheduler::testing {
namespace {

EngineConfig engine_config(const SimOptions& options) {
  EngineConfig config;
  config.plan = options.plan;
  config.max_num_seqs = options.max_num_seqs;
  config.vocab_size = 1 << 20;
  config.prefix_caching = options.prefix_caching;
  config.cache_identity = "scripted";
  config.channel_tokens = options.channel_tokens;
  config.slow_consumer_us = options.slow_consumer_us;
  config.step_timeout_us = options.step_timeout_us;
  config.block_bytes = 1;
  config.swap_block_ns = options.swap_block_ns;
  return config;
}

/// The device never asks it: its masks would hold every id.
class AnyText final : public sampling::Constraint {
 public:
  std::unique_ptr<sampling::ConstraintState> begin() const override { return nullptr; }
};

void append(std::string& line, std::string_view separator, std::string text) {
  if (!line.empty()) line += separator;
  line += text;
}

}  // namespace

SimOptions small_options(int blocks, int batch, int depth) {
  SimOptions options;
  options.plan = {.depth = depth,
                  .block_tokens = 4,
                  .blocks_total = blocks + 1,
                  .max_batch_size = batch,
                  .max_seq_len = std::min(4 * blocks - 1, 64),
                  .max_prefill_tokens = 16,
                  .mixed_prefill_tokens = 8,
                  .kv_admit_watermark = 8,
                  .chunk_grid_tokens = 4,
                  .prompt_logprobs_tokens = 8};
  return options;
}

Simulation::Simulation(const SimOptions& options)
    : options_(options), config_(engine_config(options)), door_(config_), invariants_(options.plan) {
  const Result<> valid = validate(options.plan);
  MET_CHECK(valid.has_value(), valid ? "" : valid.error().message);
  device_ = std::make_unique<ScriptedDevice>(options.plan, options.device, clock_);
  if (options.plan.disk_blocks > 0)
    spill_ = std::make_unique<ScriptedSpill>(*device_, options.plan.disk_blocks);
  executor_ = std::make_unique<InlineExecutor>(*device_, clock_);
  loop_ =
      std::make_unique<EngineLoop>(config_, door_.inbox(), *executor_, clock_, door_.open(), spill_.get());
}

Simulation::~Simulation() = default;

void Simulation::submit(const std::string& name, const Ask& ask) {
  Client client;
  client.ask = ask;
  Request& request = client.request;
  for (int i = 0; i < ask.prompt; ++i) {
    const int text = i < ask.shared ? ask.family : 100 + static_cast<int>(names_.size());
    request.prompt.push_back(2000 + 64 * text + i % 64);
  }
  request.max_tokens = ask.max_tokens;
  request.eos_ids = ask.eos;
  request.stop_ids = ask.stop;
  request.n = ask.n;
  request.tenant = ask.tenant;
  request.priority = ask.priority;
  request.probe = ask.probe;
  request.prompt_logprobs = ask.prompt_logprobs;
  if (ask.logprobs) request.sampling.logprobs = 0;
  if (ask.grammar) request.constraint = std::make_shared<AnyText>();
  if (ask.timeout_us >= 0) request.timeout_us = ask.timeout_us;
  auto handle = door_.submit(request, clock_);
  commands_.push_back((handle ? "submit " : "refused ") + name);
  if (!handle) return;
  client.handle = std::move(*handle);
  client.got.resize(static_cast<std::size_t>(ask.n));
  names_.push_back(name);
  clients_[name] = std::move(client);
}

void Simulation::cancel(const std::string& name) {
  commands_.push_back("cancel " + name);
  if (clients_.at(name).handle) clients_.at(name).handle->cancel();
}

void Simulation::stop_at(const std::string& name, std::int64_t ids, int choice) {
  commands_.push_back("stop_at " + name + " " + std::to_string(ids));
  clients_.at(name).stopped = true;
  if (clients_.at(name).handle) clients_.at(name).handle->stop_at(choice, ids, FinishReason::kStopText);
}

void Simulation::destroy(const std::string& name) {
  commands_.push_back("destroy " + name);
  clients_.at(name).handle.reset();
}

void Simulation::read(const std::string& name, bool reads) { clients_.at(name).reads = reads; }

void Simulation::shutdown(std::int64_t timeout_us) {
  commands_.push_back("shutdown");
  door_.inbox().drain(clock_.now_us() + timeout_us);
}

void Simulation::at(int tick, std::function<void(Simulation&)> command) {
  script_.emplace(tick, std::move(command));
}

bool Simulation::tick() {
  for (auto [next, end] = script_.equal_range(ticks_); next != end; ++next) next->second(*this);
  script_.erase(ticks_);
  SeqIndex oldest = -1;
  const std::vector<Sequence>& sequences = loop_->sequences();
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& s = sequences[i];
    if (!s.record || s.device_row < 0 || s.state == SeqState::kEnding || s.state == SeqState::kParked ||
        s.state == SeqState::kSwapped)
      continue;
    if (oldest < 0 || s.admission < sequences[static_cast<std::size_t>(oldest)].admission)
      oldest = static_cast<SeqIndex>(i);
  }
  std::string line = std::to_string(ticks_) + " now=" + std::to_string(clock_.now_us()) + " | ";
  std::string commands;
  for (const std::string& command : commands_) append(commands, "; ", command);
  commands_.clear();
  line += (commands.empty() ? "-" : commands) + " | ";
  const bool moved = loop_->tick();
  invariants_.check(*loop_);
  const Snapshot& numbers = loop_->snapshot();
  EXPECT_EQ(numbers.blocks_free + numbers.blocks_evictable + numbers.blocks_referenced + 1,
            numbers.blocks_total);
  if (!numbers.faulted) {
    for (const Preempt& preempt : loop_->plan().preempt)
      EXPECT_NE(preempt.seq, oldest) << "S15 at tick " << ticks_;
    skips_ = loop_->plan().slai_skipped ? skips_ + 1 : 0;
    EXPECT_LE(skips_, options_.plan.slai_skips_max) << "S11 at tick " << ticks_;
    check_wave();
    check_producer_waits();
    write_plan(line);
  } else {
    line += "fault | ";
  }
  write_settled(line);
  read_events(line);
  line +=
      "free=" + std::to_string(numbers.blocks_free) + " cached=" + std::to_string(numbers.blocks_evictable);
  if (!numbers.faulted) {
    for (const Wait& wait : loop_->plan().waits)
      line += " wait " + name_of(wait.seq) + ":" + std::string(name(wait.reason));
    if (loop_->plan().waits_behind > 0) line += " behind=" + std::to_string(loop_->plan().waits_behind);
  }
  trace_ += line + "\n";
  ++ticks_;
  return moved;
}

std::string Simulation::run(int ticks_max) {
  for (int i = 0; i < ticks_max && (open() > 0 || !script_.empty()); ++i) {
    if (tick() || (spill_ && spill_->busy())) continue;
    const std::int64_t wake_us = loop_->wake_us();
    if (script_.empty() && wake_us >= 0) clock_.set(wake_us);
    if (script_.empty() && wake_us < 0 && open() > 0 && loop_->fault()) {
      ADD_FAILURE() << "the engine sleeps with work:\n" << trace_;
      break;
    }
  }
  for (int i = 0; i < 3; ++i) {  // what is in flight comes back
    if (!tick()) break;
  }
  EXPECT_EQ(open(), 0) << trace_;
  if (loop_->fault()) {
    EXPECT_EQ(loop_->snapshot().blocks_referenced, 0);
    EXPECT_EQ(loop_->snapshot().swap_blocks_used, 0);
    EXPECT_EQ(loop_->snapshot().disk_blocks_used, 0);
    EXPECT_EQ(loop_->steps_in_flight(), 0);
  }
  return trace_;
}

std::string Simulation::name_of(SeqIndex seq) const {
  const Sequence& s = loop_->sequences()[static_cast<std::size_t>(seq)];
  const std::string& name = names_.at(static_cast<std::size_t>(s.number));
  return clients_.at(name).ask.n > 1 ? name + "." + std::to_string(s.choice) : name;
}

/// P4, P6, said apart from the code that decides it.
void Simulation::check_wave() const {
  const PrefillMode mode = options_.plan.prefill;
  std::vector<Row> wave;
  for (const Row& row : loop_->plan().rows)
    if (row.kind == RowKind::kPrefill) wave.push_back(row);
  if (wave.size() < 2 || mode.varlen) return;
  for (const Row& row : wave) {
    EXPECT_EQ(row.begin, wave.front().begin) << "P6 at tick " << ticks_;
    EXPECT_EQ(row.end, wave.front().end) << "P6 at tick " << ticks_;
    EXPECT_TRUE(row.begin > 0 || mode.codispatch || mode.first_chunk) << "P4 at tick " << ticks_;
  }
}

void Simulation::check_producer_waits() {
  for (const Wait& wait : loop_->plan().waits) {
    const Sequence& s = loop_->sequences()[static_cast<std::size_t>(wait.seq)];
    if (wait.reason != WaitReason::kProducer || s.state != SeqState::kQueued) continue;
    EXPECT_LE(++producer_waits_[s.number], options_.plan.producer_ticks_max) << "P10 at tick " << ticks_;
  }
}

void Simulation::write_plan(std::string& line) const {
  const StepPlan& plan = loop_->plan();
  std::string text;
  for (const Preempt& preempt : plan.preempt)
    append(text, "; ",
           "preempt " + name_of(preempt.seq) + (preempt.mode == PreemptMode::kSwap ? " swap" : " recompute"));
  for (const Admit& admit : plan.resume)
    append(text, "; ", "resume " + name_of(admit.seq) + " hit=" + std::to_string(admit.hit_tokens));
  for (const Admit& admit : plan.admit)
    append(text, "; ", "admit " + name_of(admit.seq) + " hit=" + std::to_string(admit.hit_tokens));
  for (const Fork& fork : plan.forks)
    append(text, "; ",
           "fork " + name_of(fork.seq) + " of " + name_of(fork.from) + " at " + std::to_string(fork.tokens));
  if (plan.store >= 0) append(text, "; ", "store " + name_of(plan.store));
  if (plan.load >= 0) append(text, "; ", "load " + name_of(plan.load));
  if (plan.drop >= 0) append(text, "; ", "drop " + name_of(plan.drop));
  if (plan.swap_blocks > 0) append(text, "; ", "swap " + std::to_string(plan.swap_blocks));
  std::string rows;
  for (const Row& row : plan.rows) {
    rows += " " + name_of(row.seq) + "[" + std::to_string(row.begin) + "," + std::to_string(row.end) + ")";
    if (row.capture_at >= 0) rows += "^" + std::to_string(row.capture_at);
    if (row.samples) rows += "*";
  }
  if (!rows.empty()) append(text, "; ", "step" + rows);
  line += (text.empty() ? "-" : text) + " | ";
}

void Simulation::write_settled(std::string& line) const {
  const StepSlot* slot = loop_->settled();
  if (slot == nullptr) {
    line += "- | ";
    return;
  }
  line += "settled";
  std::size_t sample = 0;
  for (const Row& row : slot->plan.rows) {
    if (!row.samples) continue;
    const SampleResult& result = slot->results.samples[sample++];
    line += " " + name_of(row.seq) + "=" + std::to_string(result.id);
    if (result.flags != 0) line += "!" + std::to_string(result.flags);
  }
  line += " | ";
}

void Simulation::read_events(std::string& line) {
  std::string text;
  for (const std::string& name : names_) {
    Client& client = clients_.at(name);
    if (!client.handle || !client.reads) continue;
    while (auto event = client.handle->poll()) take(name, client, std::move(*event), text);
  }
  line += (text.empty() ? "-" : text) + " | ";
}

void Simulation::take(const std::string& name, Client& client, Event event, std::string& line) {
  Got& got = client.got.at(static_cast<std::size_t>(event.choice));
  const std::string who = client.ask.n > 1 ? name + "." + std::to_string(event.choice) : name;
  EXPECT_FALSE(got.terminal) << "R2: an event after the terminal one of " << who;
  EXPECT_EQ(client.accepted, event.kind != Event::Kind::kAccepted) << "accepted comes first, once";
  switch (event.kind) {
    case Event::Kind::kAccepted:
      client.accepted = true;
      return append(line, "; ", name + " accepted");
    case Event::Kind::kProgress:
      return append(
          line, "; ",
          name + " progress " + std::to_string(event.prompt_computed) + "/" + std::to_string(event.cached));
    case Event::Kind::kPromptLogprobs:
      for (const PositionLogprobs& position : event.logprobs) {
        const auto index = static_cast<std::size_t>(++got.prompt_logprobs);
        EXPECT_EQ(position.chosen, -static_cast<float>(client.request.prompt.at(index)));
      }
      return append(line, "; ", name + " prompt_logprobs " + std::to_string(event.logprobs.size()));
    case Event::Kind::kTokens:
      EXPECT_EQ(event.logprobs.size(), client.ask.logprobs ? event.ids.size() : 0U);
      for (std::size_t i = 0; i < event.logprobs.size(); ++i)
        EXPECT_EQ(event.logprobs[i].chosen, -static_cast<float>(event.ids[i]));
      got.ids.insert(got.ids.end(), event.ids.begin(), event.ids.end());
      append(line, "; ", who + " tokens");
      for (const TokenId id : event.ids) line += " " + std::to_string(id);
      return;
    case Event::Kind::kFinished: {
      append(line, "; ",
             who + " finished " + std::string(scheduler::name(event.reason)) + " " +
                 std::to_string(event.completion_tokens));
      break;
    }
    case Event::Kind::kCancelled:
      append(line, "; ", who + " cancelled");
      break;
    case Event::Kind::kFailed:
      append(line, "; ", who + " failed " + std::string(met::name(event.error.code)));
      break;
  }
  got.terminal = std::move(event);
  check_ended(name, got.terminal->choice);
}

/// T3: the text is the solo run's, or a prefix of it when something else ended the request.
void Simulation::check_ended(const std::string& name, int choice) const {
  const Client& client = clients_.at(name);
  const Got& result = got(name, choice);
  const std::vector<TokenId> want = solo(name, choice);
  const std::vector<TokenId>& ids = result.ids;
  ASSERT_LE(ids.size(), want.size()) << name;
  EXPECT_TRUE(std::equal(ids.begin(), ids.end(), want.begin())) << name << " differs from its solo run";
  if (result.terminal->kind != Event::Kind::kFinished) return;
  const FinishReason reason = result.terminal->reason;
  if (client.ask.probe) {
    EXPECT_TRUE(ids.empty());
    return;
  }
  if (reason == FinishReason::kStopText || reason == FinishReason::kTimeout) {
    EXPECT_LE(result.terminal->completion_tokens, std::ssize(ids)) << name;
    return;
  }
  EXPECT_EQ(ids.size(), want.size()) << name << " ended early";
  EXPECT_EQ(result.terminal->completion_tokens, std::ssize(ids));
  if (client.ask.prompt_logprobs && choice == 0 && client.ask.n == 1) {
    EXPECT_EQ(result.prompt_logprobs, client.ask.prompt - 1) << name;
  }
}

const Simulation::Got& Simulation::got(const std::string& name, int choice) const {
  return clients_.at(name).got.at(static_cast<std::size_t>(choice));
}

std::vector<TokenId> Simulation::solo(const std::string& name, int choice) const {
  const Request& request = clients_.at(name).request;
  std::vector<TokenId> context = request.prompt;
  std::vector<TokenId> ids;
  const std::int64_t most =
      std::min(request.max_tokens, options_.plan.max_seq_len - std::ssize(request.prompt));
  while (std::ssize(ids) < most) {
    const TokenId id = next_id(context, choice, options_.device.vocab);
    ids.push_back(id);
    context.push_back(id);
    if (std::ranges::count(request.eos_ids, id) > 0 || std::ranges::count(request.stop_ids, id) > 0) break;
  }
  return ids;
}

std::vector<std::string> Simulation::names() const { return names_; }

std::optional<SeqState> Simulation::state(const std::string& name, int choice) const {
  for (const Sequence& s : loop_->sequences())
    if (s.record && names_.at(static_cast<std::size_t>(s.number)) == name && s.choice == choice)
      return s.state;
  return std::nullopt;
}

void Simulation::tick_until(const std::string& name, SeqState wanted) {
  for (int i = 0; i < 200 && state(name) != wanted; ++i) tick();
  ASSERT_EQ(state(name), wanted) << trace_;
}

void expect_trace(const std::string& name, const std::string& trace) {
  const std::string path = std::string(MET_SOURCE_DIR) + "/tests/scheduler/traces/" + name + ".txt";
  const std::vector<std::string> arguments = ::testing::internal::GetArgvs();
  if (std::ranges::count(arguments, "--update-traces") > 0) {
    std::ofstream(path) << trace;
    return;
  }
  std::ifstream file(path);
  ASSERT_TRUE(file.good()) << path << " is missing; --update-traces writes it";
  std::stringstream want;
  want << file.rdbuf();
  EXPECT_EQ(want.str(), trace) << "the trace of " << name << " changed (T4)";
}

}  // namespace met::scheduler::testing
