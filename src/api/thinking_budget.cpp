#include "api/thinking_budget.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace met::api {
namespace {

using Ids = std::vector<text::TokenId>;
constexpr std::size_t kOpenersMax = 4;  // ids that may precede the opening marker: blanks

struct Rules {
  std::int64_t budget = 0;
  Ids open;
  Ids close;
  bool begins_open = false;
  std::shared_ptr<const sampling::Constraint> inner;
};

class BudgetState final : public sampling::ConstraintState {
 public:
  explicit BudgetState(std::shared_ptr<const Rules> rules)
      : rules_(std::move(rules)), inner_(rules_->inner ? rules_->inner->begin() : nullptr) {}

  bool fill(std::span<std::uint32_t> allowed) override {
    const auto forced = next_forced();
    if (!forced) return inner_ != nullptr && inner_->fill(allowed);
    std::ranges::fill(allowed, 0U);
    const auto id = static_cast<std::size_t>(*forced);
    if (id / 32 < allowed.size()) allowed[id / 32] |= 1U << (id % 32);
    return true;
  }

  bool accept(std::int32_t id) override {
    const std::size_t index = next_index();
    const bool forced = index < rules_->close.size();
    ids_.push_back(id);
    forced_.push_back(forced ? index + 1 : 0);
    return (!forced || rules_->close[index] == id) && (inner_ == nullptr || inner_->accept(id));
  }

  void rewind(std::int64_t count) override {
    ids_.resize(ids_.size() - static_cast<std::size_t>(count));
    forced_.resize(ids_.size());
    scanned_ = std::min(scanned_, ids_.size());
    if (closed_at_ > ids_.size()) closed_at_ = 0;
    if (opened_at_ > ids_.size()) opened_at_ = 0;
    if (inner_ != nullptr) inner_->rewind(count);
  }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  bool ends_with(const Ids& marker, std::size_t end) const {
    return end >= marker.size() &&
           std::equal(marker.begin(), marker.end(),
                      ids_.begin() + static_cast<std::ptrdiff_t>(end - marker.size()));
  }

  /// Reads the ids since the last call: where the block opened, where it closed.
  void scan() {
    for (; scanned_ < ids_.size(); ++scanned_) {
      const std::size_t end = scanned_ + 1;
      if (opened_at_ == 0 && closed_at_ == 0 && end <= rules_->open.size() + kOpenersMax &&
          ends_with(rules_->open, end))
        opened_at_ = end;
      const bool inside = rules_->begins_open || opened_at_ != 0;
      if (inside && closed_at_ == 0 && ends_with(rules_->close, end)) closed_at_ = end;
    }
  }

  /// How many ids of the closing marker were forced already; kNone when the budget is not used up.
  std::size_t next_index() {
    scan();
    const bool inside = (rules_->begins_open || opened_at_ != 0) && closed_at_ == 0;
    if (!inside) return kNone;
    const std::size_t begun = forced_.empty() ? 0 : forced_.back();
    if (begun > 0) return begun;
    const auto used = static_cast<std::int64_t>(ids_.size() - opened_at_);
    return used >= rules_->budget ? 0 : kNone;
  }

  std::optional<text::TokenId> next_forced() {
    const std::size_t index = next_index();
    if (index >= rules_->close.size()) return std::nullopt;
    return rules_->close[index];
  }

  std::shared_ptr<const Rules> rules_;
  std::unique_ptr<sampling::ConstraintState> inner_;
  Ids ids_;
  std::vector<std::size_t> forced_;  // by id: its number in the closing marker where it was forced, from 1
  std::size_t scanned_ = 0;
  std::size_t opened_at_ = 0;  // ids up to the end of the marker; 0: not yet
  std::size_t closed_at_ = 0;
};

class Budget final : public sampling::Constraint {
 public:
  explicit Budget(Rules rules) : rules_(std::make_shared<const Rules>(std::move(rules))) {}
  std::unique_ptr<sampling::ConstraintState> begin() const override {
    return std::make_unique<BudgetState>(rules_);
  }

 private:
  std::shared_ptr<const Rules> rules_;
};

}  // namespace

std::shared_ptr<const sampling::Constraint> thinking_budget_constraint(
    std::int64_t budget, text::ReasoningFormat format, text::ReasoningStart start,
    const text::Tokenizer& tokenizer, std::shared_ptr<const sampling::Constraint> inner) {
  const std::string_view close = text::reasoning_close(format);
  if (close.empty() || start == text::ReasoningStart::kClosed) return inner;
  Rules rules{.budget = std::max<std::int64_t>(budget, 0),
              .open = tokenizer.encode(text::reasoning_open(format)),
              .close = tokenizer.encode(close),
              .begins_open = start == text::ReasoningStart::kOpen,
              .inner = std::move(inner)};
  return std::make_shared<const Budget>(std::move(rules));
}

}  // namespace met::api
