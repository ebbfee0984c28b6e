// Eos is left out as long as the constraint lets anything else follow.
#include "api/ignore_eos.h"

#include <gtest/gtest.h>

#include <array>

namespace met::api {
namespace {

/// Allows what stands at each position of a list; behind it everything.
class Listed final : public sampling::Constraint {
 public:
  explicit Listed(std::vector<std::uint32_t> masks) : masks_(std::move(masks)) {}
  std::unique_ptr<sampling::ConstraintState> begin() const override {
    return std::make_unique<State>(masks_);
  }

 private:
  class State final : public sampling::ConstraintState {
   public:
    explicit State(std::vector<std::uint32_t> masks) : masks_(std::move(masks)) {}
    bool fill(std::span<std::uint32_t> allowed) override {
      if (at_ >= masks_.size()) return false;
      allowed[0] = masks_[at_];
      return true;
    }
    bool accept(std::int32_t) override { return ++at_, true; }
    void rewind(std::int64_t count) override { at_ -= static_cast<std::size_t>(count); }

   private:
    std::vector<std::uint32_t> masks_;
    std::size_t at_ = 0;
  };
  std::vector<std::uint32_t> masks_;
};

TEST(IgnoreEos, HoldsUntilNothingElseMayFollow) {
  const auto constraint =
      eos_last(std::make_shared<const Listed>(std::vector<std::uint32_t>{0b0110, 0b0100, 0b0001}), {2});
  EXPECT_TRUE(constraint->completes());
  const auto state = constraint->begin();
  std::array<std::uint32_t, 1> allowed = {0};
  const auto next = [&] {
    EXPECT_TRUE(state->fill(allowed));
    return allowed[0];
  };
  EXPECT_EQ(next(), 0b0010U);
  state->accept(1);
  EXPECT_EQ(next(), 0b0100U) << "a text that is complete ends";
  state->accept(2);
  EXPECT_EQ(next(), 0b0001U);
  state->accept(0);
  EXPECT_EQ(next(), ~0b0100U) << "free text goes on";
  state->rewind(3);
  EXPECT_EQ(next(), 0b0010U);
}

}  // namespace
}  // namespace met::api
