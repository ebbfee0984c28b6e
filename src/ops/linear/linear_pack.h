// Weights of the CPU's linear kernels: which kernel serves a storage type, and the tiled form that it reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "core/dtype.h"
#include "core/error.h"

namespace met::ops {

/// How a linear kernel holds its activations while it multiplies (`--cpu-activations`).
enum class ActivationMode {
  kInt8,  ///< rounded to 8 bits per 32 values; float weights keep f32 activations
  kF32,   ///< dequantised weights times f32: slow, for comparison with references
};

/// Output rows of W that lie in one packed tile.
inline constexpr std::int64_t kTileColumns = 16;

/// A packed matrix W[n, k], or several of one type stacked along n ("parts"), as one kernel reads it.
///
/// Layout   `tiles` tiles of `tile_bytes`, one after the other. A tile holds kTileColumns rows of W, block of
/// 32
///          k after block, scales in front of the quants of a block; quants lie so that 4 consecutive k of 16
///          columns are 64 consecutive bytes (kernels/cpu/common/packed.h has each format's block). F32, F16 and
///          BF16: tiles in pairs, the bytes of both k after k (kernels/cpu/common/floats.h); their number is even. Rows
///          beyond n and k beyond K are zeros.
/// Parts    are stacked without gaps: row r of part p is column offset(p) + r of the output, offset(p) the
/// sum
///          of the n before it, whatever kTileColumns is.
/// Gated    two parts of equal n, gate then up: tiles alternate (gate, up), for Epilogue::kSiluMul and
///          kGeluMul. The output has n / 2 columns. A bias is [n]: gate's n / 2, then up's.
/// Exact    packing loses nothing: the kernel's weights are those of the source format. An E4M3 column with a NaN
///          code gets NaN as the scale of that code's group.
struct LinearPack {
  DType type = DType::kF32;
  ActivationMode mode = ActivationMode::kInt8;
  std::int64_t n = 0;  ///< rows of all parts; LinearArgs::n
  std::int64_t k = 0;
  bool gated = false;

  std::string_view module;            ///< of the linear kernel
  std::string_view entry;             ///< takes LinearArgs
  std::string_view embedding_module;  ///< of the kernel that reads rows of W as a table (ungated only)
  std::string_view embedding_entry;   ///< takes EmbeddingArgs; empty: there is none for the type

  std::int64_t tiles = 0;
  std::size_t tile_bytes = 0;
  std::size_t packed_bytes = 0;         ///< tiles * tile_bytes
  std::size_t workspace_row_bytes = 0;  ///< LinearArgs::workspace holds this times the rows of the launch
};

/// Chooses kernel and layout. Errors: kUnsupported naming the type, kInvalidArgument for sizes that the type
/// cannot store (k is a multiple of its block) or a gated n that is odd.
Result<LinearPack> plan_linear_pack(DType type, std::int64_t n, std::int64_t k, ActivationMode mode,
                                    bool gated = false);

/// Values of k that share a scale in a packed tile of E4M3.
inline constexpr std::int64_t kE4m3Group = 128;

/// Scales of an E4M3 matrix: W[r, k] = number[r, k] * values[r / rows * groups + (groups > 1 ? k / kE4m3Group : 0)].
struct E4m3Scales {
  std::span<const float> values;  ///< [ceil(n / rows), groups]; empty: all 1
  std::int64_t rows = 1;          ///< rows that share scales
  std::int64_t groups = 1;        ///< 1, or ceil(k / kE4m3Group)
};

/// One source matrix: `n` rows of `row_bytes`, each bytes_of(type, k) long, in the file's own format.
struct LinearPart {
  const std::byte* rows = nullptr;
  std::size_t row_bytes = 0;  ///< from one row to the next
  std::int64_t n = 0;
  E4m3Scales scales;  ///< of E4M3; other types carry theirs in their blocks
};

/// Writes tiles [tile_begin, tile_end) of the packed matrix that starts at `packed` (64-byte aligned). Calls
/// for disjoint ranges may run at once. The parts' n sum to pack.n.
void pack_linear(const LinearPack& pack, std::span<const LinearPart> parts, std::byte* packed,
                 std::int64_t tile_begin, std::int64_t tile_end);

}  // namespace met::ops
