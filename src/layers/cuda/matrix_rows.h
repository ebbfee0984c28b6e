// Checkpoint matrices as the rows and scales that the CUDA kernels read: bytes to bytes, no device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "weights/checkpoint.h"

namespace met::layers::cuda {

/// One matrix [rows, k] of a stack: F32, F16, BF16, or E4M3 with scales.
struct RowSource {
  const weights::TensorView* tensor = nullptr;
  std::int64_t rows = 0;
  std::vector<float> scales;      ///< E4M3: [ceil(rows / scale_rows), scale_groups]
  std::int64_t scale_rows = 1;    ///< rows that share scales
  std::int64_t scale_groups = 1;  ///< scales along k: 1, or one each config::kFp8Block values
};

/// Matrices of equal k as one: rows one after another, or, of each two equally high ones, 8 of the first and 8 of the second
/// in turn where `gated`. `experts`: the kernels read each matrix, or two of them where gated, as one of its own.
struct RowStack {
  std::vector<RowSource> sources;
  std::int64_t k = 0;
  bool gated = false;
  bool experts = false;

  std::int64_t rows() const;
};

/// Rows that gate and up take turns in.
inline constexpr std::int64_t kGatedGroup = 8;

/// Where row r of the stack comes from.
struct RowAt {
  std::size_t source = 0;
  std::int64_t row = 0;
};
RowAt row_at(const RowStack& stack, std::int64_t r);

/// Rows [begin, end) of the stack, k values each, one after another: as BF16, products of an E4M3 number and its scale
/// rounded once; or, of a stack that is E4M3 throughout, its numbers as F8E4M3.
void write_rows(const RowStack& stack, DType type, std::int64_t begin, std::int64_t end, std::byte* to);

/// A scale for each row of an E4M3 stack whose sources have one scale along k.
std::vector<float> row_scales(const RowStack& stack);

/// Whether the kernels' blocks of 128 rows are the sources' blocks: all sources but the last are multiples of them. Gate and
/// up always fit, and so do experts.
bool blocks_fit(const RowStack& stack);
/// Rows of block_scales: [rows, ceil(k / 128)].
std::int64_t block_scale_rows(const RowStack& stack);
/// The sources' blocks one after another, those of gate and up in turn, as GemmArgs and MoeFewArgs::weight_scales have them. blocks_fit holds.
std::vector<float> block_scales(const RowStack& stack);

}  // namespace met::layers::cuda
