#include "api/thinking_budget.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace met::api {
namespace {

constexpr std::string_view kBlanks = " \t\r\n";  // that may precede the opening marker

// In harmony a thought is a message of its own: what bounds it is the message's end.
std::string_view opening(text::ReasoningFormat format) {
  return format == text::ReasoningFormat::kHarmony ? "<|channel|>analysis<|message|>"
                                                   : text::reasoning_open(format);
}
std::string_view closing(text::ReasoningFormat format) {
  return format == text::ReasoningFormat::kHarmony ? "<|end|>" : text::reasoning_close(format);
}

/// Markers are found by their text: a model may spell them by other ids than the tokenizer would.
struct Rules {
  std::int64_t budget = 0;
  const text::Tokenizer* tokenizer = nullptr;
  std::string_view open;
  std::string_view close;
  std::vector<text::TokenId> forced;  // spell the closing marker
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
    const bool forced = index < rules_->forced.size();
    text_ += rules_->tokenizer->token_bytes(id);
    ids_.push_back({.text_end = text_.size(), .forced = forced ? index + 1 : 0});
    return (!forced || rules_->forced[index] == id) && (inner_ == nullptr || inner_->accept(id));
  }

  void rewind(std::int64_t count) override {
    ids_.resize(ids_.size() - static_cast<std::size_t>(count));
    text_.resize(text_end(ids_.size()));
    scanned_ = std::min(scanned_, ids_.size());
    if (closed_at_ > ids_.size()) closed_at_ = 0;
    if (opened_at_ > ids_.size()) opened_at_ = 0;
    if (inner_ != nullptr) inner_->rewind(count);
  }

  bool over_bound() const override { return inner_ != nullptr && inner_->over_bound(); }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  struct Id {
    std::size_t text_end = 0;
    std::size_t forced = 0;  // its number in the closing marker where it was forced, from 1
  };

  std::size_t text_end(std::size_t ids) const { return ids == 0 ? 0 : ids_[ids - 1].text_end; }

  /// Whether the first `ids` ids hold the opening marker, behind blanks at most.
  bool opens(std::size_t ids) {
    const std::string_view text = std::string_view(text_).substr(0, text_end(ids));
    const std::size_t begin = text.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos || !text.substr(begin).starts_with(rules_->open)) return false;
    inside_from_ = begin + rules_->open.size();
    return true;
  }
  /// Whether the closing marker ends in the last of the first `ids` ids.
  bool closes(std::size_t ids) const {
    const std::size_t before = text_end(ids - 1);
    const std::size_t reach = rules_->close.size() - 1;
    const std::size_t begin = std::max(inside_from_, before - std::min(before, reach));
    const std::string_view text = std::string_view(text_).substr(0, text_end(ids));
    return begin < text.size() && text.substr(begin).contains(rules_->close);
  }

  /// Reads the ids since the last call: where the block opened, where it closed.
  void scan() {
    for (; scanned_ < ids_.size(); ++scanned_) {
      const std::size_t end = scanned_ + 1;
      if (!rules_->begins_open && opened_at_ == 0 && opens(end)) opened_at_ = end;
      const bool inside = rules_->begins_open || opened_at_ != 0;
      if (inside && closed_at_ == 0 && closes(end)) closed_at_ = end;
    }
  }

  /// How many ids of the closing marker were forced already; kNone when the budget is not used up.
  std::size_t next_index() {
    scan();
    const bool inside = (rules_->begins_open || opened_at_ != 0) && closed_at_ == 0;
    if (!inside) return kNone;
    const std::size_t begun = ids_.empty() ? 0 : ids_.back().forced;
    if (begun > 0) return begun;
    const auto used = static_cast<std::int64_t>(ids_.size() - opened_at_);
    return used >= rules_->budget ? 0 : kNone;
  }

  std::optional<text::TokenId> next_forced() {
    const std::size_t index = next_index();
    if (index >= rules_->forced.size()) return std::nullopt;
    return rules_->forced[index];
  }

  std::shared_ptr<const Rules> rules_;
  std::unique_ptr<sampling::ConstraintState> inner_;
  std::string text_;
  std::vector<Id> ids_;
  std::size_t scanned_ = 0;
  std::size_t opened_at_ = 0;  // ids up to the end of the marker; 0: not yet
  std::size_t closed_at_ = 0;
  std::size_t inside_from_ = 0;  // of the text
};

class Budget final : public sampling::Constraint {
 public:
  explicit Budget(Rules rules) : rules_(std::make_shared<const Rules>(std::move(rules))) {}
  std::unique_ptr<sampling::ConstraintState> begin() const override {
    return std::make_unique<BudgetState>(rules_);
  }
  bool completes() const override { return rules_->inner != nullptr && rules_->inner->completes(); }

 private:
  std::shared_ptr<const Rules> rules_;
};

}  // namespace

std::vector<text::TokenId> closing_ids(text::ReasoningFormat format, const text::Tokenizer& tokenizer) {
  return tokenizer.encode(closing(format));
}

std::shared_ptr<const sampling::Constraint> thinking_budget_constraint(
    std::int64_t budget, text::ReasoningFormat format, text::ReasoningStart start,
    const text::Tokenizer& tokenizer, std::shared_ptr<const sampling::Constraint> inner) {
  Rules rules{.budget = std::max<std::int64_t>(budget, 0),
              .tokenizer = &tokenizer,
              .open = opening(format),
              .close = closing(format),
              .forced = closing_ids(format, tokenizer),
              .begins_open = start == text::ReasoningStart::kOpen,
              .inner = std::move(inner)};
  return std::make_shared<const Budget>(std::move(rules));
}

}  // namespace met::api
