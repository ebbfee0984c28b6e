// One sequence under a grammar, and the part of its output before the grammar begins.
#include <dlpack/dlpack.h>
#include <xgrammar/matcher.h>

#include <algorithm>
#include <optional>
#include <string_view>

#include "grammar/engine.h"
#include "grammar/meter.h"

namespace met::grammar {
namespace {

using Id = std::int32_t;

void set_bit(std::span<std::uint32_t> allowed, Id id) {
  allowed[static_cast<std::size_t>(id) / 32] |= 1U << (static_cast<std::size_t>(id) % 32);
}

/// The engine's matcher with its exceptions turned into a state that allows nothing.
class Matcher {
 public:
  Matcher(const xgrammar::CompiledGrammar& grammar, const Limits& limits)
      : limits_(&limits), matcher_(grammar) {}

  bool failed() const { return failed_; }
  bool over_bound() const { return over_bound_; }
  bool completed() const { return matcher_.IsCompleted(); }

  bool accept(Id id) {
    return guarded([&] { return matcher_.AcceptToken(id); });
  }
  bool accept(const std::string& text) {
    return guarded([&] { return matcher_.AcceptString(text); });
  }
  void rewind(int steps) {
    if (steps > 0) guarded([&] { return matcher_.Rollback(steps), true; });
  }
  /// Inside which string every path of the grammar is; nothing where it cannot be said. Two strings that differ, live
  /// at once, are never told apart again.
  std::optional<LengthBound> string_bound() {
    if (failed_ || mixed_) return std::nullopt;
    const std::optional<float> mark = matcher_.GetTemperature();
    mixed_ = take_engine_warning().has_value();
    if (!mark || mixed_) return std::nullopt;
    return bound_of_mark(static_cast<std::uint32_t>(*mark));
  }

  /// For each tail, whether it may follow the string's end, reached by `begin`; nothing if it cannot end so.
  std::optional<std::vector<bool>> tails_behind(const std::string& begin,
                                                const std::vector<std::string>& tails) {
    std::vector<bool> out(tails.size());
    const auto try_all = [&] {
      if (!matcher_.AcceptString(begin)) return false;
      for (std::size_t i = 0; i < tails.size(); ++i) {
        out[i] = tails[i].empty() || matcher_.AcceptString(tails[i]);
        if (out[i] && !tails[i].empty()) matcher_.Rollback(1);
      }
      matcher_.Rollback(1);
      return true;
    };
    if (!guarded(try_all)) return std::nullopt;
    return out;
  }

  /// Whether the mask says anything; every bit is clear after a failure.
  bool fill(std::span<std::uint32_t> allowed) {
    std::int64_t shape[] = {static_cast<std::int64_t>(allowed.size())};
    DLTensor tensor{.data = allowed.data(),
                    .device = {kDLCPU, 0},
                    .ndim = 1,
                    .dtype = {kDLInt, 32, 1},
                    .shape = shape,
                    .strides = nullptr,
                    .byte_offset = 0};
    bool says = true;
    if (!guarded([&] { return says = matcher_.FillNextTokenBitmask(&tensor), true; }))
      std::ranges::fill(allowed, 0U);
    return says;
  }

 private:
  template <class Work>
  bool guarded(Work work) {
    if (failed_) return false;
    try {
      const Budget budget(limits_->mask_ms * 1000, limits_->mask_bytes);
      const bool done = work();
      take_engine_warning();
      return done;
    } catch (const OverBudget&) {
      failed_ = over_bound_ = true;
      return false;
    } catch (const std::exception&) {
      failed_ = true;
      return false;
    }
  }

  const Limits* limits_;
  xgrammar::GrammarMatcher matcher_;
  bool failed_ = false;
  bool over_bound_ = false;
  bool mixed_ = false;
};

class State final : public sampling::ConstraintState {
 public:
  explicit State(std::shared_ptr<const MatcherSource> source)
      : source_(std::move(source)), matcher_(source_->grammar, source_->limits) {
    reset_phase();
  }

  bool fill(std::span<std::uint32_t> allowed) override {
    switch (phase_) {
      case Phase::kThought:
        std::ranges::fill(allowed, ~0U);
        forbid(source_->vocabulary->end_ids, allowed);
        forbid(source_->more_end_ids, allowed);
        return true;
      case Phase::kEnded:
        std::ranges::fill(allowed, 0U);
        allow_ends(allowed);
        return true;
      case Phase::kUndecided:
        fill_undecided(allowed);
        return true;
      case Phase::kGrammar:
        break;
    }
    if (fill_string(allowed)) {
      forbid_more_ends(allowed);
      return true;
    }
    const bool says = matcher_.fill(allowed);
    if (matcher_.failed()) return true;
    const bool completed = matcher_.completed();
    if (says && completed) allow_more_ends(allowed);
    if (completed || source_->more_end_ids.empty()) return says;
    if (!says) std::ranges::fill(allowed, ~0U);
    forbid_more_ends(allowed);
    return true;
  }

  bool accept(Id id) override {
    if (refused_ || !take(id)) {
      refused_ = true;
      return false;
    }
    ids_.push_back(id);
    if (source_->strings) {
      places_.push_back(place());
      if (known(id)) places_.back().take(bytes_of(id));
    }
    return true;
  }

  void rewind(std::int64_t count) override {
    const auto keep = static_cast<std::size_t>(std::max<std::int64_t>(std::ssize(ids_) - count, 0));
    std::vector<Id> kept(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(keep));
    const bool inside = phase_ == Phase::kGrammar && !refused_ && keep >= grammar_from_;
    tails_of_ = -1;
    if (inside) {
      matcher_.rewind(static_cast<int>(ids_.size() - keep));
      ids_ = std::move(kept);
      places_.resize(std::min(places_.size(), keep));
      return;
    }
    places_.clear();
    matcher_ = Matcher(source_->grammar, source_->limits);
    ids_.clear();
    refused_ = false;
    reset_phase();
    for (const Id id : kept) accept(id);
  }

  bool over_bound() const override { return matcher_.over_bound(); }

 private:
  enum class Phase {
    kUndecided,  ///< `seen_` is a beginning of `open`, and what the grammar has taken if it still can
    kThought,    ///< `seen_` is the tail of the thought
    kGrammar,
    kEnded,  ///< an end id was taken
  };

  void reset_phase() {
    seen_.clear();
    grammar_alive_ = true;
    grammar_from_ = 0;
    switch (source_->start.when) {
      case Start::When::kAtOnce:
        phase_ = Phase::kGrammar;
        break;
      case Start::When::kAfterClose:
        phase_ = Phase::kThought;
        break;
      case Start::When::kAfterThought:
        phase_ = Phase::kUndecided;
        break;
    }
  }

  const std::string& bytes_of(Id id) const {
    return source_->vocabulary->tokens[static_cast<std::size_t>(id)];
  }
  bool is_end(Id id) const {
    return std::ranges::find(source_->vocabulary->end_ids, id) != source_->vocabulary->end_ids.end() ||
           std::ranges::binary_search(source_->more_end_ids, id);
  }
  bool known(Id id) const {
    return id >= 0 && static_cast<std::size_t>(id) < source_->vocabulary->tokens.size();
  }

  StringPlace place() const { return places_.empty() ? StringPlace() : places_.back(); }

  /// The mask inside a bounded string; false: it is not one, or nothing is known of it.
  bool fill_string(std::span<std::uint32_t> allowed) {
    if (!source_->strings) return false;
    const std::optional<LengthBound> bound = matcher_.string_bound();
    const StringPlace here = place();
    if (!bound || here.string() == 0) return false;
    if (tails_of_ != here.string()) {
      // Behind the string's end the same may follow wherever it ends: asked once, between two characters.
      if (here.part() != StringPlace::Part::kBetween) return false;
      const auto missing = static_cast<std::size_t>(std::max<std::int64_t>(bound->least - here.begun(), 0));
      auto tails = matcher_.tails_behind(std::string(missing, 'a') + '"', source_->strings->tails());
      if (!tails) return false;
      tails_ = std::move(*tails);
      tails_of_ = here.string();
    }
    source_->strings->fill(here, *bound, tails_, allowed);
    return true;
  }

  bool take(Id id) {
    switch (phase_) {
      case Phase::kThought:
        return !is_end(id) && (!known(id) || take_thought(bytes_of(id)));
      case Phase::kUndecided:
        return take_undecided(id);
      case Phase::kEnded:
        return is_end(id);
      case Phase::kGrammar:
        break;
    }
    if (is_end(id) && matcher_.completed()) {
      phase_ = Phase::kEnded;
      return true;
    }
    return matcher_.accept(id);
  }

  bool take_undecided(Id id) {
    if (!known(id)) return false;
    const std::string& open = source_->start.open;
    seen_ += bytes_of(id);
    if (seen_.starts_with(open)) {
      phase_ = Phase::kThought;
      const std::string rest = seen_.substr(open.size());
      seen_.clear();
      if (matcher_used_) matcher_ = Matcher(source_->grammar, source_->limits);
      return take_thought(rest);
    }
    if (is_end(id) && grammar_alive_ && matcher_.completed()) {
      phase_ = Phase::kEnded;
      return true;
    }
    matcher_used_ = true;
    grammar_alive_ = grammar_alive_ && matcher_.accept(id);
    if (open.starts_with(seen_)) return true;
    phase_ = Phase::kGrammar;  // not a thought; ids so far belong to the grammar
    return grammar_alive_;
  }

  bool take_thought(std::string_view bytes) {
    seen_ += bytes;
    const std::string& close = source_->start.close;
    const std::size_t at = seen_.find(close);
    if (at == std::string::npos) {
      if (seen_.size() >= close.size()) seen_.erase(0, seen_.size() - close.size() + 1);
      return true;
    }
    phase_ = Phase::kGrammar;
    grammar_from_ = ids_.size() + 1;
    // A token that closes the thought may go on; blanks there separate it from the answer.
    const std::string rest = seen_.substr(at + close.size());
    const bool blank = rest.find_first_not_of(" \t\r\n") == std::string::npos;
    return blank || matcher_.accept(rest);
  }

  void fill_undecided(std::span<std::uint32_t> allowed) {
    std::ranges::fill(allowed, 0U);
    if (grammar_alive_) {
      if (!matcher_.fill(allowed)) std::ranges::fill(allowed, ~0U);
      if (matcher_.completed()) {
        allow_more_ends(allowed);
      } else {
        forbid_more_ends(allowed);
      }
    }
    const std::string_view wanted = std::string_view(source_->start.open).substr(seen_.size());
    const auto& tokens = source_->vocabulary->tokens;
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      const std::string_view token = tokens[id];
      if (!token.empty() && wanted.starts_with(token)) set_bit(allowed, static_cast<Id>(id));
    }
  }

  void allow_ends(std::span<std::uint32_t> allowed) const {
    for (const Id id : source_->vocabulary->end_ids) set_bit(allowed, id);
    allow_more_ends(allowed);
  }
  void allow_more_ends(std::span<std::uint32_t> allowed) const {
    for (const Id id : source_->more_end_ids) set_bit(allowed, id);
  }

  /// One that spells text would end the answer in the midst of it.
  void forbid_more_ends(std::span<std::uint32_t> allowed) const { forbid(source_->more_end_ids, allowed); }

  static void forbid(const std::vector<Id>& ids, std::span<std::uint32_t> allowed) {
    for (const Id id : ids)
      allowed[static_cast<std::size_t>(id) / 32] &= ~(1U << (static_cast<std::size_t>(id) % 32));
  }

  std::shared_ptr<const MatcherSource> source_;
  Matcher matcher_;
  Phase phase_ = Phase::kGrammar;
  std::string seen_;
  bool grammar_alive_ = true;
  bool matcher_used_ = false;
  bool refused_ = false;
  std::size_t grammar_from_ = 0;  ///< ids before it are not the matcher's
  std::vector<Id> ids_;
  std::vector<StringPlace> places_;  ///< behind each id, where the source has marked strings
  std::vector<bool> tails_;          ///< of the string `tails_of_`: what may follow its end
  std::int64_t tails_of_ = -1;
};

class CompiledConstraint final : public sampling::Constraint {
 public:
  explicit CompiledConstraint(MatcherSource source)
      : source_(std::make_shared<const MatcherSource>(std::move(source))) {}
  std::unique_ptr<sampling::ConstraintState> begin() const override {
    return std::make_unique<State>(source_);
  }

 private:
  std::shared_ptr<const MatcherSource> source_;
};

}  // namespace

std::shared_ptr<const sampling::Constraint> make_constraint(MatcherSource source) {
  return std::make_shared<const CompiledConstraint>(std::move(source));
}

}  // namespace met::grammar
