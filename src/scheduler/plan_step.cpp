#include <algorithm>
#include <cstddef>
#include <optional>
#include <tuple>
#include <utility>

#include "scheduler/plan.h"

namespace met::scheduler {
namespace {

/// The prefill budget of a step is a multiple of this where a cost model cuts it (S5).
constexpr std::int64_t kCutTokens = 64;
constexpr std::int64_t kUnmeasuredTokens = 128;  // prefill of a step whose cost is not known yet
constexpr std::int64_t kSlaiCutTokens = 256;     // S13
constexpr std::int64_t kRowTokensMax = 65'535;   // a kernel's grid (P1)

std::int64_t align_down(std::int64_t value, std::int64_t grid) { return value / grid * grid; }

/// Recomputed tokens are to stay below this part of all (S26).
constexpr std::int64_t kRecomputedPart = 8;

/// Blocks that a waiting sequence reserves: for the watermark's outputs (S7), and when it resumes at least for those that
/// it is immune for, twice as many each time that it was preempted again (S18).
std::int64_t reserve_blocks(const PlanConfig& config, const WaitView& s) {
  std::int64_t outputs = config.kv_admit_watermark;
  if (s.preemptions > 0) {
    outputs = std::max<std::int64_t>(outputs, config.resume_immunity_tokens);
    outputs <<= std::min(s.preemptions - 1, 20);
  }
  const std::int64_t tokens = std::min(s.len + std::min(s.outputs_left, outputs), config.max_seq_len);
  return tokens / config.block_tokens + 1;
}

/// One plan in the making. The phases run in the order of S4; each takes from `available` and `budget`.
class Planning {
 public:
  Planning(const View& view, const PlanConfig& config, std::int64_t now_us, PlanScratch& scratch,
           StepPlan& plan)
      : view_(view),
        config_(config),
        now_us_(now_us),
        scratch_(scratch),
        plan_(plan),
        available_(view.blocks_free + view.blocks_evictable),
        rows_free_(view.rows_free),
        swap_free_(view.swap_free) {
    scratch_.growth.assign(view.live.size(), 0);
    scratch_.gone.assign(view.live.size(), 0);
    scratch_.advanced.assign(view.live.size(), 0);
    scratch_.refs_less.resize(view.block_refs.size(), 0);
  }
  ~Planning() {
    for (const BlockId block : scratch_.touched) scratch_.refs_less[static_cast<std::size_t>(block)] = 0;
    scratch_.touched.clear();
  }
  Planning(const Planning&) = delete;
  Planning& operator=(const Planning&) = delete;

  void run() {
    decode();
    if (config_.policy == Policy::kSlai) find_slack();
    budget_ = prefill_budget();
    logits_left_ = config_.prompt_logprobs_tokens;
    continue_prefills();
    if (plan_.preempt.empty()) {
      sum_reserved();
      if (recomputes_much()) foresee();
      if (resume()) admit();
    } else if (!view_.queued.empty()) {
      wait_queued(0, WaitReason::kCapacity);
    }
    plan_tiers(view_, config_, swap_free_, plan_);
    finish();
  }

 private:
  struct Span {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    bool empty() const { return end <= begin; }
  };

  bool is_gone(std::size_t i) const { return scratch_.gone[i] != 0; }
  std::int64_t held(std::size_t i) const { return std::ssize(view_.live[i].blocks); }
  void wait(SeqIndex seq, WaitReason reason) { plan_.waits.push_back({seq, reason}); }

  /// Blocks that live sequence i lacks for positions below `end`.
  std::int64_t lacks(std::size_t i, std::int64_t end) const {
    return std::max<std::int64_t>(0, config_.blocks_of(end) - held(i));
  }

  // ---- preemption: S14, S15

  /// The newest admission behind `oldest` that is not immune, else the newest that is; -1: nobody.
  std::ptrdiff_t victim(std::size_t oldest) const {
    for (const bool immune : {false, true}) {
      for (std::size_t i = view_.live.size(); i-- > oldest + 1;) {
        const std::int64_t since = view_.live[i].since_resume;
        const bool is_immune = since >= 0 && since < config_.resume_immunity_tokens;
        if (!is_gone(i) && is_immune == immune) return static_cast<std::ptrdiff_t>(i);
      }
    }
    return -1;
  }

  void preempt(std::size_t i) {
    const LiveView& s = view_.live[i];
    scratch_.gone[i] = 1;
    const PreemptMode mode = preempt_mode(s, config_, view_.cost, swap_free_);
    plan_.preempt.push_back({s.seq, mode});
    if (mode == PreemptMode::kSwap) {
      swap_free_ -= config_.blocks_of(s.planned_len);
      plan_.swap_blocks += config_.blocks_of(s.planned_len);
    }
    for (const BlockId block : s.blocks) {
      const auto b = static_cast<std::size_t>(block);
      if (scratch_.refs_less[b]++ == 0) scratch_.touched.push_back(block);
      if (scratch_.refs_less[b] == view_.block_refs[b]) ++available_;
    }
    if (scratch_.advanced[i] != 0) {  // a decode row that was planned already
      std::erase_if(plan_.rows, [&](const Row& row) { return row.seq == s.seq; });
      available_ += scratch_.growth[i];
      scratch_.growth[i] = 0;
      scratch_.advanced[i] = 0;
    }
  }

  // ---- decode rows

  bool can_decode(const LiveView& s) const {
    return s.state == SeqState::kDecoding && !s.paused && !s.undecided &&
           s.len - s.prompt_len < s.outputs_max;
  }

  void decode() {
    std::int64_t need = 0;
    for (std::size_t i = 0; i < view_.live.size(); ++i)
      if (can_decode(view_.live[i])) need += lacks(i, view_.live[i].len);
    while (need > available_) {
      const std::ptrdiff_t chosen = victim(0);
      if (chosen < 0) break;
      const auto i = static_cast<std::size_t>(chosen);
      if (can_decode(view_.live[i])) need -= lacks(i, view_.live[i].len);
      preempt(i);
    }
    for (std::size_t i = 0; i < view_.live.size(); ++i) {
      const LiveView& s = view_.live[i];
      if (is_gone(i) || s.state != SeqState::kDecoding) continue;
      if (!can_decode(s)) {
        wait(s.seq, s.paused                                ? WaitReason::kConsumer
                    : s.len - s.prompt_len >= s.outputs_max ? WaitReason::kLimit
                                                            : WaitReason::kGrammar);
      } else if (lacks(i, s.len) > available_) {
        wait(s.seq, WaitReason::kCapacity);
      } else {
        add_row(i, RowKind::kDecode, {s.planned_len, s.len}, lacks(i, s.len));
      }
    }
  }

  void add_row(std::size_t i, RowKind kind, Span span, std::int64_t growth) {
    const LiveView& s = view_.live[i];
    plan_.rows.push_back({s.seq, kind, span.end >= s.len && s.outputs_max > 0, span.begin, span.end});
    if (kind == RowKind::kPrefill)
      plan_.rows.back().capture_at = capture_at(config_, span.begin, span.end, s.prompt_len);
    scratch_.growth[i] = growth;
    scratch_.advanced[i] = 1;
    available_ -= growth;
    if (kind == RowKind::kPrefill) count_prefill(span, s.recomputed_to);
  }

  void count_prefill(Span span, std::int64_t recomputed_to) {
    const std::int64_t again = std::clamp<std::int64_t>(recomputed_to - span.begin, 0, span.end - span.begin);
    plan_.tokens.recomputed += again;
    plan_.tokens.prefill += span.end - span.begin - again;
    budget_ -= span.end - span.begin;
    if (!wave_) wave_ = PrefillRow{span.begin, span.end - span.begin};
  }

  /// Whether a prefill row may go with those that are planned (P4, P6).
  bool joins(Span span) const {
    return !wave_ || joins_wave(config_.prefill, *wave_, {span.begin, span.end - span.begin});
  }

  // ---- prefill rows: S5, S24, P1

  std::int64_t prefill_budget() const {
    const bool mixed = !plan_.rows.empty();
    std::int64_t budget = mixed ? config_.mixed_prefill_tokens : config_.prefill_tokens_max();
    const CostModel& cost = view_.cost;
    // Until a step was measured a bounded step is kept short, so that the first prompt cannot hold up a cancel.
    if (cost.prefill_token_ns <= 0)
      return config_.step_max_us > 0 ? std::min(budget, kUnmeasuredTokens) : budget;
    const std::int64_t fixed_ns = mixed ? cost.mixed_ns : 0;
    const auto cut = [&](std::int64_t us, std::int64_t grid = kCutTokens) {
      const std::int64_t tokens =
          align_down(std::max<std::int64_t>(us * 1000 - fixed_ns, 0) / cost.prefill_token_ns, grid);
      budget = std::min(budget, std::max({tokens, grid, std::int64_t{config_.chunk_grid_tokens}}));
    };
    const std::int64_t decode_us = mixed ? cost.decode_step_us : 0;
    if (decode_us > 0) cut(decode_us);  // the whole is then twice a pure decode step
    if (config_.step_max_us > 0) cut(config_.step_max_us - decode_us);
    if (projects_ && streams_) cut(slack_us_, kSlaiCutTokens);  // S13
    return budget;
  }

  /// The next chunk of a sequence whose first `planned` of `len` positions are planned, at most `most`
  /// tokens. It ends on the grid unless it is the last; empty when there is not room enough.
  Span chunk(std::int64_t planned, std::int64_t len, std::int64_t prompt_len, bool prompt_logprobs,
             std::int64_t most) {
    std::int64_t end = std::min(len, planned + std::min({most, budget_, kRowTokensMax}));
    if (prompt_logprobs && planned < prompt_len - 1 && end > planned + logits_left_)
      end = planned + logits_left_;
    if (end < len) end = align_down(end, config_.chunk_grid_tokens);
    return {planned, cut_at_tail(config_, planned, std::max(planned, end), prompt_len)};
  }

  void take_logits(Span span, std::int64_t prompt_len, bool prompt_logprobs) {
    if (prompt_logprobs)
      logits_left_ -= std::clamp<std::int64_t>(prompt_len - 1 - span.begin, 0, span.end - span.begin);
  }

  /// A live sequence with known tokens left to compute, that has its blocks.
  bool wants_prefill(std::size_t i) const {
    const LiveView& s = view_.live[i];
    return s.state == SeqState::kPrefilling && !is_gone(i) && !s.paused && s.fork_from < 0 &&
           s.planned_len < s.len;
  }

  void continue_prefills() {
    std::int64_t left_all = 0;
    for (std::size_t i = 0; i < view_.live.size(); ++i)
      if (wants_prefill(i)) left_all += view_.live[i].len - view_.live[i].planned_len;
    const std::int64_t budget_all = budget_;
    for (std::size_t i = 0; i < view_.live.size(); ++i) {
      const LiveView& s = view_.live[i];
      if (is_gone(i) || s.state != SeqState::kPrefilling) continue;
      if (s.paused || s.planned_len >= s.len) {
        wait(s.seq, s.paused ? WaitReason::kConsumer : WaitReason::kLimit);
      } else if (s.fork_from >= 0) {
        fork(i);
      } else {
        continue_prefill(i, share_of(i, budget_all, left_all));
      }
    }
  }

  /// What one sequence may take: half the budget, or what the `left_all` tokens of all leave of it (S24). Where
  /// waves are not ragged, an equal part for all that stand where it stands, and then the length of the first (P6).
  std::int64_t share_of(std::size_t i, std::int64_t budget_all, std::int64_t left_all) const {
    const LiveView& s = view_.live[i];
    const std::int64_t grid = config_.chunk_grid_tokens;
    if (config_.prefill.varlen)
      return std::max({budget_all / 2, budget_all - (left_all - (s.len - s.planned_len)), grid});
    if (wave_) return wave_->tokens;
    std::int64_t equals = 0;
    for (std::size_t other = i; other < view_.live.size(); ++other)
      equals += wants_prefill(other) && view_.live[other].planned_len == s.planned_len ? 1 : 0;
    return std::max(align_down(budget_all / equals, grid), grid);
  }

  void continue_prefill(std::size_t i, std::int64_t most) {
    const LiveView& s = view_.live[i];
    Span span = chunk(s.planned_len, s.len, s.prompt_len, s.prompt_logprobs, most);
    if (span.empty() || !joins(span)) {
      ++rowless_;
      return wait(s.seq, span.empty() ? WaitReason::kBudget : WaitReason::kWave);
    }
    const std::int64_t grid = config_.chunk_grid_tokens;
    const std::int64_t least_end = std::min(s.len, align_down(s.planned_len, grid) + grid);
    make_room(i, lacks(i, std::min(least_end, span.end)));
    if (lacks(i, span.end) > available_) {
      const std::int64_t fits = (held(i) + available_) * config_.block_tokens;
      span.end = std::max(span.begin, align_down(fits, grid));
      if (span.empty() || !joins(span)) return wait(s.seq, WaitReason::kCapacity);
    }
    add_row(i, RowKind::kPrefill, span, lacks(i, span.end));
    take_logits(span, s.prompt_len, s.prompt_logprobs);
  }

  /// Preempts sequences newer than i until `need` blocks are there or nobody is left.
  void make_room(std::size_t i, std::int64_t need) {
    while (need > available_) {
      const std::ptrdiff_t chosen = victim(i);
      if (chosen < 0) return;
      preempt(static_cast<std::size_t>(chosen));
    }
  }

  void fork(std::size_t i) {
    const LiveView& s = view_.live[i];
    const auto from = std::find_if(view_.live.begin(), view_.live.end(),
                                   [&](const LiveView& other) { return other.seq == s.fork_from; });
    if (from == view_.live.end() || is_gone(static_cast<std::size_t>(from - view_.live.begin())) ||
        from->planned_len < s.fork_len)
      return wait(s.seq, WaitReason::kProducer);
    if (budget_ < s.len - s.fork_len) return wait(s.seq, WaitReason::kBudget);
    if (!joins({s.fork_len, s.len})) return wait(s.seq, WaitReason::kWave);
    const std::int64_t need = config_.blocks_of(s.len) - s.fork_len / config_.block_tokens;
    make_room(i, need);
    if (need > available_) return wait(s.seq, WaitReason::kCapacity);
    plan_.forks.push_back({s.seq, s.fork_from, s.fork_len});
    add_row(i, RowKind::kPrefill, {s.fork_len, s.len}, need);
  }

  // ---- resumes and admissions: S6 to S9, S18

  /// Blocks that live sequence i has behind this step, with those that it shares or will share with the one it forks from.
  std::int64_t has(std::size_t i) const {
    const LiveView& s = view_.live[i];
    return (s.fork_from >= 0 ? s.fork_len / config_.block_tokens : held(i)) + scratch_.growth[i];
  }

  void sum_reserved() {
    for (std::size_t i = 0; i < view_.live.size(); ++i) {
      const LiveView& s = view_.live[i];
      reserved_ += std::max<std::int64_t>(0, s.reserve_blocks - has(i));
    }
  }

  /// S26: what was computed again lately, and what is owed to those that were preempted, is much of all.
  bool recomputes_much() const {
    std::int64_t owed = 0;
    for (const WaitView& s : view_.parked)
      if (s.place == SwapPlace::kNone) owed += std::max<std::int64_t>(0, s.recomputed_to - s.hit_tokens);
    for (const LiveView& s : view_.live) owed += std::max<std::int64_t>(0, s.recomputed_to - s.planned_len);
    return (view_.work.recomputed + owed) * kRecomputedPart > view_.work.computed + owed;
  }

  /// S26: entries are held to what the live sequences are expected to grow to, each until its end.
  void foresee() {
    if (view_.work.outputs == 0 || (view_.parked.empty() && view_.queued.empty())) return;
    foresees_ = true;
    foreseen_room_ = available_;
    scratch_.courses.clear();
    const auto alone = [&](BlockId block) { return view_.block_refs[static_cast<std::size_t>(block)] == 1; };
    for (std::size_t i = 0; i < view_.live.size(); ++i) {
      const LiveView& s = view_.live[i];
      const std::int64_t had = s.len - s.prompt_len;
      const std::int64_t left = std::min(s.outputs_max - had, outputs_behind(had, view_.work.outputs));
      const std::int64_t owned = std::ranges::count_if(s.blocks, alone) + scratch_.growth[i];
      scratch_.courses.add({.left = left, .len = s.len, .held = has(i), .owned = owned});
    }
  }

  /// Of one of the choices of `s` if it enters now; one that was preempted is expected to write twice what it had.
  Course course_of(const WaitView& s, int choice) const {
    const std::int64_t had = s.len - s.prompt_len;
    const std::int64_t mean = view_.work.outputs;
    const std::int64_t outputs =
        s.preemptions > 0 ? std::max(mean - had, 2 * had) : outputs_behind(had, mean);
    const std::int64_t shared = choice == 0 ? s.hit_referenced : (s.prompt_len - 1) / config_.block_tokens;
    return {.left = std::min(s.outputs_left, outputs), .len = s.len, .held = shared, .owned = 0};
  }

  /// Adds the courses of an entry if the blocks last for them and the others, or in any case.
  bool joins_courses(const WaitView& s, bool in_any_case) {
    Courses& all = scratch_.courses;
    for (int choice = 0; choice < s.rows; ++choice) all.add(course_of(s, choice));
    if (in_any_case || all.last(foreseen_room_, config_.block_tokens)) return true;
    for (int choice = s.rows; choice-- > 0;) all.remove(course_of(s, choice));
    return false;
  }

  /// Tokens of the first row of an entry: where waves are not ragged, an equal part for all queued that could go
  /// with it (P6).
  std::int64_t entry_share(const WaitView& s, std::int64_t begin) const {
    if (config_.prefill.varlen) return budget_;
    if (wave_) return wave_->tokens;
    const PrefillRow row{begin, s.len - begin};
    if (!joins_wave(config_.prefill, row, row)) return budget_;
    const auto equals = std::ranges::count_if(
        view_.queued, [&](const WaitView& other) { return other.hit_tokens == begin && other.len == s.len; });
    const std::int64_t grid = config_.chunk_grid_tokens;
    return std::max(align_down(budget_ / std::clamp<std::int64_t>(equals, 1, rows_free_), grid), grid);
  }

  /// P10: what this one would compute is about to be in the index.
  bool waits_for_producer(const WaitView& s) const {
    if (s.producer < 0 || s.producer_ticks >= config_.producer_ticks_max) return false;
    return std::ranges::find(view_.live, s.producer, &LiveView::seq) != view_.live.end() ||
           std::ranges::find(plan_.admit, s.producer, &Admit::seq) != plan_.admit.end();
  }

  /// Takes in one waiting sequence, or says why not.
  bool enter(const WaitView& s, std::vector<Admit>& list, WaitReason& why) {
    if (s.place != SwapPlace::kNone && s.place != SwapPlace::kHost) return why = WaitReason::kSwap, false;
    if (s.rows > rows_free_) return why = WaitReason::kRows, false;
    const std::int64_t begin = std::max(s.hit_tokens, s.swapped_len);
    const bool decodes = begin > s.hit_tokens && begin == s.len - 1;  // a swapped stream goes on
    const Span span = decodes ? Span{begin, s.len}
                              : chunk(begin, s.len, s.prompt_len, s.prompt_logprobs, entry_share(s, begin));
    if (span.empty() && rowless_ > 0) return why = WaitReason::kBudget, false;
    if (!decodes && !span.empty() && !joins(span)) return why = WaitReason::kWave, false;
    const std::int64_t block = config_.block_tokens;
    const std::int64_t each = reserve_blocks(config_, s);
    const std::int64_t followers = (s.rows - 1) * (each - (s.prompt_len - 1) / block);
    const std::int64_t hit = s.hit_tokens / block;
    const bool alone = view_.live.empty() && plan_.resume.empty() && plan_.admit.empty();
    const bool fits = reserved_ + each - s.hit_referenced + followers <= available_;
    if (!alone && !fits) return why = WaitReason::kCapacity, false;  // S8
    if (waits_for_producer(s)) return why = WaitReason::kProducer, false;
    if (foresees_ && !joins_courses(s, alone)) return why = WaitReason::kCapacity, false;
    list.push_back({s.seq, s.hit_tokens, each, s.checkpoint});
    rows_free_ -= s.rows;
    available_ -= hit - s.hit_referenced;
    const std::int64_t growth = config_.blocks_of(span.end) - hit;
    available_ -= growth;
    if (begin > s.hit_tokens) plan_.swap_blocks += config_.blocks_of(begin) - hit;
    const bool samples = span.end >= s.len && s.outputs_left > 0;
    if (decodes) {
      const auto behind = std::ranges::find(plan_.rows, RowKind::kPrefill, &Row::kind);
      plan_.rows.insert(behind, {s.seq, RowKind::kDecode, samples, span.begin, span.end});
    } else if (!span.empty()) {
      plan_.rows.push_back({s.seq, RowKind::kPrefill, samples, span.begin, span.end});
      plan_.rows.back().capture_at = capture_at(config_, span.begin, span.end, s.prompt_len);
      count_prefill(span, s.recomputed_to);
      take_logits(span, s.prompt_len, s.prompt_logprobs);
    }
    if (span.end < s.len) ++rowless_;
    reserved_ += std::max<std::int64_t>(0, each - hit - growth) + followers;
    return true;
  }

  /// True when no parked sequence waits any more.
  bool resume() {
    for (std::size_t i = 0; i < view_.parked.size(); ++i) {
      WaitReason why{};
      if (enter(view_.parked[i], plan_.resume, why)) continue;
      for (; i < view_.parked.size(); ++i) wait(view_.parked[i].seq, why);
      if (!view_.queued.empty()) wait_queued(0, WaitReason::kResume);
      return false;
    }
    return true;
  }

  void admit() {
    if (waits_for_wave()) return wait_queued(0, WaitReason::kWave);
    if (config_.policy == Policy::kSlai) return admit_slai();
    for (std::size_t i = 0; i < view_.queued.size(); ++i) {
      WaitReason why{};
      if (!enter(view_.queued[i], plan_.admit, why)) return wait_queued(i, why);
    }
  }

  /// P7: whether chunk zero of what is queued waits, so that more goes together; the plan wakes when it may go.
  bool waits_for_wave() {
    if (!config_.prefill.codispatch || view_.queued_total < 2 || !view_.live.empty() || !plan_.resume.empty())
      return false;
    std::int64_t first_us = view_.last_arrival_us;
    std::int64_t tokens = 0;
    int rows = 0;
    for (const WaitView& s : view_.queued) {
      first_us = std::min(first_us, s.accepted_us);
      tokens += s.len - s.hit_tokens;
      rows += s.rows;
    }
    const std::int64_t closes_us = std::min(first_us + config_.codispatch_window_us,
                                            view_.last_arrival_us + config_.codispatch_settle_us);
    const bool full = tokens >= budget_ || rows >= rows_free_;
    const bool ends_first = view_.wake_us >= 0 && view_.wake_us <= closes_us;
    if (full || ends_first || now_us_ >= closes_us) return false;
    plan_.wake_us = closes_us;
    return true;
  }

  // ---- SLAI: S10 to S13

  /// How long the prefill of this step may take until a running stream has waited 80 % of the deadline.
  void find_slack() {
    std::int64_t waited_us = 0;
    for (std::size_t i = 0; i < view_.live.size(); ++i) {
      const LiveView& s = view_.live[i];
      // Only a stream with a row here or in flight: a skip for another one could wait for nothing (S20).
      const bool runs = s.state == SeqState::kDecoding && !is_gone(i) && !s.paused &&
                        (scratch_.advanced[i] != 0 || s.undecided);
      if (!runs || s.last_token_us < 0) continue;
      streams_ = true;
      waited_us = std::max(waited_us, now_us_ - s.last_token_us);
    }
    projects_ = view_.cost.decode_step_us > 0 && view_.cost.prefill_token_ns > 0;
    if (projects_) waited_us += view_.step_left_us + view_.cost.decode_step_us;
    plan_.slai_infeasible = streams_ && projects_ && waited_us > config_.tbt_deadline_us;
    slack_us_ = config_.tbt_deadline_us * 4 / 5 - waited_us;
  }

  bool skips_admission() const {
    if (!streams_ || plan_.slai_infeasible || view_.slai_skips >= config_.slai_skips_max) return false;
    const WaitView& head = view_.queued.front();
    if (now_us_ - head.accepted_us >= config_.slai_head_deadlines * config_.tbt_deadline_us) return false;
    if (!projects_) return slack_us_ <= 0;
    const std::int64_t tokens =
        plan_.tokens.prefill + plan_.tokens.recomputed + std::min(budget_, head.len - head.hit_tokens);
    return view_.cost.prefill_us(tokens) > slack_us_;
  }

  /// The head, then the others by the tokens that they have to compute, each if it fits.
  void admit_slai() {
    if (view_.queued.empty()) return;
    if (skips_admission()) {
      plan_.slai_skipped = true;
      return wait_queued(0, WaitReason::kDeadline);
    }
    WaitReason why{};
    if (!enter(view_.queued.front(), plan_.admit, why)) return wait_queued(0, why);
    order_by_need();
    const std::vector<std::size_t>& order = scratch_.order;
    bool any = false;
    for (const std::size_t i : order) {
      if (enter(view_.queued[i], plan_.admit, why)) continue;
      wait(view_.queued[i].seq, why);
      any = true;
    }
    if (any) plan_.waits_behind = view_.queued_total - std::ssize(view_.queued);
  }

  /// The queue behind its head: each tenant's by what they have to compute, at the places of its turns (S10, S23).
  void order_by_need() {
    const auto of = [&](std::size_t i) -> const WaitView& { return view_.queued[i]; };
    std::vector<std::size_t>& order = scratch_.order;
    std::vector<std::size_t>& turns = scratch_.turns;
    turns.clear();
    for (std::size_t i = 1; i < view_.queued.size(); ++i) turns.push_back(i);
    order = turns;
    std::ranges::sort(turns, {}, [&](std::size_t i) { return std::pair(of(i).tenant, i); });
    std::ranges::sort(
        order, {}, [&](std::size_t i) { return std::tuple(of(i).tenant, of(i).len - of(i).hit_tokens, i); });
    std::vector<std::size_t>& placed = scratch_.placed;
    placed.resize(turns.size());
    for (std::size_t k = 0; k < turns.size(); ++k) placed[turns[k] - 1] = order[k];
    order.swap(placed);
  }

  void wait_queued(std::size_t i, WaitReason why) {
    wait(view_.queued[i].seq, why);
    plan_.waits_behind = view_.queued_total - static_cast<std::int64_t>(i) - 1;
  }

  void finish() {
    for (const Row& row : plan_.rows) plan_.decode_rows += row.kind == RowKind::kDecode ? 1 : 0;
    plan_.bucket = bucket_of(plan_.decode_rows, config_.max_batch_size);
    plan_.tokens.decode = plan_.decode_rows;
    plan_.tokens.padded = plan_.bucket - plan_.decode_rows;
  }

  const View& view_;
  const PlanConfig& config_;
  const std::int64_t now_us_;
  PlanScratch& scratch_;
  StepPlan& plan_;
  std::int64_t available_;  ///< blocks free or evictable that this plan has not given away
  int rows_free_;
  std::int64_t swap_free_;          ///< places of the host pool that it has not given away
  std::int64_t budget_ = 0;         ///< prefill tokens left in the step
  std::int64_t logits_left_ = 0;    ///< prompt positions that may still want logits
  bool foresees_ = false;           ///< entries have to last by what sequences write (S26)
  std::int64_t foreseen_room_ = 0;  ///< blocks that were available before the first entry
  std::int64_t reserved_ = 0;       ///< blocks that live sequences may still ask for
  bool streams_ = false;            ///< a running stream waits for its next token (S10)
  bool projects_ = false;           ///< the cost model knows what this step takes (S12)
  std::int64_t slack_us_ = 0;       ///< S13
  std::optional<PrefillRow> wave_;  ///< the first prefill row of the step (P4, P6)
  int rowless_ = 0;                 ///< prefilling sequences that wait for tokens of the next step
};

}  // namespace

void plan_step(const View& view, const PlanConfig& config, std::int64_t now_us, PlanScratch& scratch,
               StepPlan& plan) {
  plan.clear();
  Planning(view, config, now_us, scratch, plan).run();
  if (view.wake_us >= 0 && (plan.wake_us < 0 || view.wake_us < plan.wake_us))
    plan.wake_us = std::max(view.wake_us, now_us);
}

}  // namespace met::scheduler
