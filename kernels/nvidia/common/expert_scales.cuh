// Scales of the E4M3 weights of a mixture's experts.
#pragma once

#include <cstdint>

#include "e4m3.cuh"

namespace {

/// Those of rows `row` + g and + 8 + g of an expert, row % 16 == 0; beyond n those of the last one. Each expert's blocks of
/// 128 rows begin at its first row; where `gated`, blocks of gate and of up alternate and the second row is of up.
class ExpertScales {
 public:
  template <class Args>
  __device__ ExpertScales(const Args& args, bool gated, int expert, int row, int g) {
    if (args.block_scales == 0) {
      low_ = args.weight_scales + static_cast<std::int64_t>(expert) * args.n;
      high_ = low_ + min(row + 8 + g, args.n - 1);
      low_ += min(row + g, args.n - 1);
      return;
    }
    step_ = 1;
    const int k_blocks = (args.k + kE4m3Block - 1) / kE4m3Block;
    const int turns = gated ? 2 : 1;
    const int blocks = (args.n / turns + kE4m3Block - 1) / kE4m3Block * turns;
    const int first = row / (turns * kE4m3Block) * turns;
    low_ = args.weight_scales + static_cast<std::int64_t>(expert * blocks + first) * k_blocks;
    high_ = low_ + (gated ? k_blocks : 0);
  }
  __device__ const float* low(int block) const { return low_ + block * step_; }
  __device__ const float* high(int block) const { return high_ + block * step_; }
  __device__ float2 at(int block) const { return make_float2(__ldg(low(block)), __ldg(high(block))); }

 private:
  const float* low_;
  const float* high_;
  int step_ = 0;  // from one block of 128 of k to the next
};

}  // namespace
