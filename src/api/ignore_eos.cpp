#include "api/ignore_eos.h"

#include <algorithm>
#include <utility>

namespace met::api {
namespace {

class State final : public sampling::ConstraintState {
 public:
  State(std::unique_ptr<sampling::ConstraintState> inner, std::shared_ptr<const std::vector<TokenId>> eos_ids)
      : inner_(std::move(inner)), eos_ids_(std::move(eos_ids)) {}

  bool fill(std::span<std::uint32_t> allowed) override {
    if (!inner_->fill(allowed)) std::ranges::fill(allowed, ~0U);
    kept_.assign(allowed.begin(), allowed.end());
    for (const TokenId id : *eos_ids_) {
      const auto bit = static_cast<std::size_t>(id);
      if (bit / 32 < kept_.size()) kept_[bit / 32] &= ~(1U << (bit % 32));
    }
    if (std::ranges::any_of(kept_, [](std::uint32_t word) { return word != 0; }))
      std::ranges::copy(kept_, allowed.begin());
    return true;
  }
  bool accept(std::int32_t id) override { return inner_->accept(id); }
  void rewind(std::int64_t count) override { inner_->rewind(count); }
  bool over_bound() const override { return inner_->over_bound(); }

 private:
  std::unique_ptr<sampling::ConstraintState> inner_;
  std::shared_ptr<const std::vector<TokenId>> eos_ids_;
  std::vector<std::uint32_t> kept_;
};

class EosLast final : public sampling::Constraint {
 public:
  EosLast(std::shared_ptr<const sampling::Constraint> inner, std::vector<TokenId> eos_ids)
      : inner_(std::move(inner)),
        eos_ids_(std::make_shared<const std::vector<TokenId>>(std::move(eos_ids))) {}
  std::unique_ptr<sampling::ConstraintState> begin() const override {
    return std::make_unique<State>(inner_->begin(), eos_ids_);
  }

 private:
  std::shared_ptr<const sampling::Constraint> inner_;
  std::shared_ptr<const std::vector<TokenId>> eos_ids_;
};

}  // namespace

std::shared_ptr<const sampling::Constraint> eos_last(std::shared_ptr<const sampling::Constraint> inner,
                                                     std::vector<TokenId> eos_ids) {
  return std::make_shared<const EosLast>(std::move(inner), std::move(eos_ids));
}

}  // namespace met::api
