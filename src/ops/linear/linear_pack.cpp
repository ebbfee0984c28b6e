#include "ops/linear/linear_pack.h"

#include <cstring>
#include <string>
#include <vector>

#include "ops/linear/tile_writer.h"

namespace met::ops {
namespace {

/// One format: its kernels, its packed size, and who writes its tiles.
struct Format {
  DType type;
  std::string_view module, entry, entry_f32, embedding_entry;
  std::size_t (*tile_bytes)(std::int64_t k);
  TileWriter write;
  int together = 1;  ///< tiles whose k alternate: `write` gets the first of them and columns of them all
};

/// Bytes of a tile a block of `Elements` k.
template <std::size_t Bytes, std::int64_t Elements>
std::size_t block_bytes(std::int64_t k) {
  return static_cast<std::size_t>(k / Elements) * Bytes;
}

std::size_t e4m3_bytes(std::int64_t k) {
  return static_cast<std::size_t>((k + kE4m3Group - 1) / kE4m3Group) * kTileColumns * sizeof(float) +
         static_cast<std::size_t>(k) * kTileColumns;
}

constexpr Format kFormats[] = {
    {DType::kF32, "linear_float", "linear_f32", "linear_f32", "embedding_f32", block_bytes<64, 1>,
     write_floats<4>, 2},
    {DType::kF16, "linear_float", "linear_f16", "linear_f16", "embedding_f16", block_bytes<32, 1>,
     write_floats<2>, 2},
    {DType::kBF16, "linear_float", "linear_bf16", "linear_bf16", "embedding_bf16", block_bytes<32, 1>,
     write_bf16, 2},
    {DType::kF8E4M3, "linear_e4m3", "linear_e4m3", "linear_e4m3", "", e4m3_bytes, write_e4m3},
    {DType::kQ4_0, "linear_q4x32", "linear_q4_0", "linear_q4_0_f32", "embedding_q4_0", block_bytes<288, 32>,
     write_q4_0},
    {DType::kQ4_1, "linear_q4x32", "linear_q4_1", "linear_q4_1_f32", "embedding_q4_1", block_bytes<320, 32>,
     write_q4_1},
    {DType::kQ5_0, "linear_q5x32", "linear_q5_0", "linear_q5_0_f32", "embedding_q5_0", block_bytes<352, 32>,
     write_q5_0},
    {DType::kQ5_1, "linear_q5x32", "linear_q5_1", "linear_q5_1_f32", "embedding_q5_1", block_bytes<384, 32>,
     write_q5_1},
    {DType::kQ8_0, "linear_q8x32", "linear_q8_0", "linear_q8_0_f32", "embedding_q8_0", block_bytes<544, 32>,
     write_q8_0},
    {DType::kQ2_K, "linear_k23", "linear_q2_k", "linear_q2_k_f32", "embedding_q2_k", block_bytes<1344, 256>,
     write_q2_k},
    {DType::kQ3_K, "linear_k23", "linear_q3_k", "linear_q3_k_f32", "embedding_q3_k", block_bytes<1824, 256>,
     write_q3_k},
    {DType::kQ4_K, "linear_k45", "linear_q4_k", "linear_q4_k_f32", "embedding_q4_k", block_bytes<2368, 256>,
     write_q4_k},
    {DType::kQ5_K, "linear_k45", "linear_q5_k", "linear_q5_k_f32", "embedding_q5_k", block_bytes<2880, 256>,
     write_q5_k},
    {DType::kQ6_K, "linear_k6", "linear_q6_k", "linear_q6_k_f32", "embedding_q6_k", block_bytes<3360, 256>,
     write_q6_k},
    {DType::kIQ4_NL, "linear_codes", "linear_iq4_nl", "linear_iq4_nl_f32", "embedding_iq4_nl",
     block_bytes<288, 32>, write_iq4_nl},
    {DType::kIQ4_XS, "linear_codes", "linear_iq4_xs", "linear_iq4_xs_f32", "embedding_iq4_xs",
     block_bytes<2208, 256>, write_iq4_xs},
    {DType::kMXFP4, "linear_codes", "linear_mxfp4", "linear_mxfp4_f32", "embedding_mxfp4",
     block_bytes<272, 32>, write_mxfp4},
};

const Format* find(DType type) {
  for (const Format& format : kFormats)
    if (format.type == type) return &format;
  return nullptr;
}

/// A row of a source matrix.
struct SourceRow {
  const LinearPart* part = nullptr;  ///< null: padding
  std::int64_t row = 0;
};

/// Row `row` of the parts stacked along n.
SourceRow stacked_row(std::span<const LinearPart> parts, std::int64_t row) {
  for (const LinearPart& part : parts) {
    if (row < part.n) return {&part, row};
    row -= part.n;
  }
  return {};
}

/// The source of column `c` of tile `tile`.
SourceRow source_row(const LinearPack& pack, std::span<const LinearPart> parts, std::int64_t tile,
                     std::int64_t c) {
  if (!pack.gated) return stacked_row(parts, tile * kTileColumns + c);
  const std::int64_t half = pack.n / 2;
  const std::int64_t row = tile / 2 * kTileColumns + c;
  return row < half ? stacked_row(parts, tile % 2 * half + row) : SourceRow{};
}

}  // namespace

Result<LinearPack> plan_linear_pack(DType type, std::int64_t n, std::int64_t k, ActivationMode mode,
                                    bool gated) {
  const Format* format = find(type);
  const std::string name(info(type).name);
  if (format == nullptr) return unsupported("type", "the CPU kernels do not multiply " + name + " weights");
  if (n <= 0 || k <= 0) return invalid("shape", "a weight matrix needs rows and columns");
  if (k % info(type).block_elements != 0)
    return invalid("shape", "rows of " + std::to_string(k) + " values do not split into " + name +
                                " blocks of " + std::to_string(info(type).block_elements));
  if (gated && n % 2 != 0) return invalid("shape", "gate and up differ in size");
  LinearPack pack;
  pack.type = type;
  pack.mode = mode;
  pack.n = n;
  pack.k = k;
  pack.gated = gated;
  pack.module = format->module;
  pack.entry = mode == ActivationMode::kInt8 ? format->entry : format->entry_f32;
  pack.embedding_module = "embedding";
  pack.embedding_entry = format->embedding_entry;
  const std::int64_t columns = gated ? n / 2 : n;
  const std::int64_t units = (columns + kTileColumns - 1) / kTileColumns;
  pack.tiles = gated ? 2 * units : (units + format->together - 1) / format->together * format->together;
  pack.tile_bytes = format->tile_bytes(k);
  pack.packed_bytes = static_cast<std::size_t>(pack.tiles) * pack.tile_bytes;
  // int8: 48 bytes a block of 32, where signed bytes meet 16 bits 80; f32: the row itself.
  const bool bytes = mode == ActivationMode::kInt8 && info(type).block_elements > 1;
  const bool is_signed = type == DType::kQ8_0 || type == DType::kIQ4_NL || type == DType::kIQ4_XS;
  const std::size_t row = bytes ? static_cast<std::size_t>(k / 32) * (is_signed ? 80 : 48)
                                : static_cast<std::size_t>(k) * sizeof(float);
  pack.workspace_row_bytes = (row + 63) / 64 * 64;
  return pack;
}

void pack_linear(const LinearPack& pack, std::span<const LinearPart> parts, std::byte* packed,
                 std::int64_t tile_begin, std::int64_t tile_end) {
  const Format& format = *find(pack.type);
  const std::vector<std::byte> zeros(
      format.together > 1 ? bytes_of(pack.type, static_cast<std::size_t>(pack.k)) : 0);
  for (std::int64_t tile = tile_begin; tile < tile_end; ++tile) {
    const std::int64_t first = tile / format.together * format.together;
    const auto offset = static_cast<int>((tile - first) * kTileColumns);
    std::byte* to = packed + static_cast<std::size_t>(first) * pack.tile_bytes;
    if (format.together == 1) std::memset(to, 0, pack.tile_bytes);
    for (std::int64_t c = 0; c < kTileColumns; ++c) {
      const SourceRow source = source_row(pack, parts, tile, c);
      const int column = offset + static_cast<int>(c);
      if (source.part == nullptr) {
        if (format.together > 1) format.write(zeros.data(), pack.k, column, to);
        continue;
      }
      const LinearPart& part = *source.part;
      format.write(part.rows + static_cast<std::size_t>(source.row) * part.row_bytes, pack.k, column, to);
      if (!part.scales.values.empty()) scale_e4m3(part.scales, source.row, pack.k, column, to);
    }
  }
}

}  // namespace met::ops
