// Masks of a step's rows: they follow the rows as these come, go, are preempted and come back.
#include "engine/row_masks.h"

#include <gtest/gtest.h>

#include <vector>

namespace met::engine {
namespace {

/// Allows the ids 0, 1, 2, … one after the other, and nothing behind `last`.
class Counting final : public sampling::Constraint {
 public:
  explicit Counting(int last) : last_(last) {}
  std::unique_ptr<sampling::ConstraintState> begin() const override { return std::make_unique<State>(last_); }

 private:
  class State final : public sampling::ConstraintState {
   public:
    explicit State(int last) : last_(last) {}
    bool fill(std::span<std::uint32_t> allowed) override {
      std::ranges::fill(allowed, 0U);
      if (next_ <= last_) allowed[static_cast<std::size_t>(next_) / 32] = 1U << (next_ % 32);
      return true;
    }
    bool accept(std::int32_t id) override { return id == next_ && next_++ <= last_; }
    void rewind(std::int64_t count) override { next_ -= static_cast<int>(count); }

   private:
    int last_;
    int next_ = 0;
  };
  int last_;
};

std::vector<std::uint32_t> words(std::span<const std::uint32_t> mask) { return {mask.begin(), mask.end()}; }

TEST(RowMasks, FollowTheirRows) {
  const Counting counting(40);
  RowMasks masks(4, 50);
  const std::vector<scheduler::TokenId> resumed{0, 1, 2};
  scheduler::StepBatch batch;
  batch.added = {{.device_row = 2, .output = resumed, .constraint = &counting}, {.device_row = 0}};
  batch.samples = {{.row = 0, .device_row = 0}, {.row = 1, .device_row = 2}};
  masks.update(batch);
  EXPECT_TRUE(masks.any(batch));
  auto filled = masks.fill(batch);
  EXPECT_TRUE(filled[0].empty()) << "no constraint";
  EXPECT_EQ(words(filled[1]), (std::vector<std::uint32_t>{8, 0})) << "goes on behind its outputs";  // S19

  scheduler::SampleResult good{.id = 3};
  masks.accept(batch.samples[1], good);
  EXPECT_EQ(good.flags, 0U);
  scheduler::SampleResult failed{.id = 7, .flags = scheduler::kFlagNonFinite};
  masks.accept(batch.samples[1], failed);  // a row that failed has no id
  batch.added.clear();
  masks.update(batch);
  filled = masks.fill(batch);
  EXPECT_EQ(words(filled[1]), (std::vector<std::uint32_t>{16, 0}));

  scheduler::SampleResult wrong{.id = 9};
  masks.accept(batch.samples[1], wrong);
  EXPECT_EQ(wrong.flags, scheduler::kFlagEmptyMask) << "it fails, and its row alone";  // F2
  scheduler::SampleResult other{.id = 9};
  masks.accept(batch.samples[0], other);
  EXPECT_EQ(other.flags, 0U);

  batch.removed = {2};
  batch.added = {{.device_row = 2}};
  masks.update(batch);
  EXPECT_FALSE(masks.any(batch));
  EXPECT_TRUE(masks.fill(batch)[1].empty()) << "the row belongs to another sequence now";
}

/// Gives up at the first mask, or at the first id.
class Costly final : public sampling::Constraint {
 public:
  explicit Costly(bool at_mask) : at_mask_(at_mask) {}
  std::unique_ptr<sampling::ConstraintState> begin() const override {
    return std::make_unique<State>(at_mask_);
  }

 private:
  class State final : public sampling::ConstraintState {
   public:
    explicit State(bool at_mask) : at_mask_(at_mask) {}
    bool fill(std::span<std::uint32_t> allowed) override {
      over_ = at_mask_;
      std::ranges::fill(allowed, over_ ? 0U : ~0U);
      return true;
    }
    bool accept(std::int32_t) override { return over_ = true, false; }
    void rewind(std::int64_t) override {}
    bool over_bound() const override { return over_; }

   private:
    bool at_mask_;
    bool over_ = false;
  };
  bool at_mask_;
};

TEST(RowMasks, TellABoundFromAnEmptyMask) {
  for (const bool at_mask : {true, false}) {
    const Costly costly(at_mask);
    RowMasks masks(1, 32);
    scheduler::StepBatch batch;
    batch.added = {{.device_row = 0, .constraint = &costly}};
    batch.samples = {{.row = 0, .device_row = 0}};
    masks.update(batch);
    masks.fill(batch);
    scheduler::SampleResult result{.id = 3, .flags = at_mask ? +scheduler::kFlagEmptyMask : 0U};
    masks.accept(batch.samples[0], result);
    EXPECT_EQ(result.flags, scheduler::kFlagEmptyMask | scheduler::kFlagMaskBound) << at_mask;
  }
}

TEST(RowMasks, HoldMinTokensUnlessNothingElseMayFollow) {
  const Counting counting(1);
  RowMasks masks(1, 32);
  const std::vector<scheduler::TokenId> ends{0, 40};
  scheduler::StepBatch batch;
  batch.added = {{.device_row = 0, .eos_ids = ends, .constraint = &counting, .min_tokens = 1}};
  batch.samples = {{.row = 0, .device_row = 0}};
  masks.update(batch);
  EXPECT_EQ(masks.fill(batch)[0][0], 1U) << "the end alone may follow";
  const std::vector<scheduler::TokenId> other{5};
  batch.added[0].eos_ids = other;
  masks.update(batch);
  EXPECT_EQ(masks.fill(batch)[0][0], 1U);
}

}  // namespace
}  // namespace met::engine
