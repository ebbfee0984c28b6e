#include "ops/cuda/decode_attention.h"

#include <algorithm>
#include <string>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

constexpr int kSplitsMax = 128;  // as kernels/hopper/common/decode_attention.cu

/// Least tokens of a split of an evenly divided context; where rows alone give kItemsFull items, splits serve long
/// contexts only: at 128 rows of 300 tokens a minimum of 256 cost 5.5 % of the whole step against 2048.
constexpr int kSplitTokensMin = 256;
constexpr int kSplitTokensMinFull = 2048;
constexpr int kItemsFull = 512;

/// An entry of the module: `decode_attention_d<head_dim>_<cache>_<variant>`.
struct Variant {
  const char* name;
  int heads;  ///< query heads of a block
  int warps;
  int blocks_per_sm;  ///< that run at once
  int teams = 0;      ///< of a block, which keep rings and have items of their own
  std::uint32_t shared_bytes = 0;
  const char* module = "decode_attention";
  int cluster = 1;  ///< blocks, one for each split of a row
};
/// Few rows of brief contexts. Qwen3-8B, a whole step against kFew: one row +3.2 % (E4M3 weights +6.0), two +1.6 (+3.3), four -1.2; Qwen3-30B-A3B,
/// 4 key-value heads of 8 queries, -8; behind 32,768 positions -22.
constexpr Variant kBrief{.name = "brief",
                         .heads = 8,
                         .warps = 4,
                         .blocks_per_sm = 4,
                         .module = "decode_attention_brief",
                         .cluster = 8};
constexpr int kBriefItems = 16;        // rows * key-value heads
constexpr int kBriefKvHeads = 8;       // at least
constexpr int kBriefSplitTokens = 64;  // a tile for each warp
/// A row and key-value head for each SM or fewer: 0.90 of bandwidth at 32k x 16.
constexpr Variant kFew{.name = "h8_wide", .heads = 8, .warps = 8, .blocks_per_sm = 1};
constexpr Variant kMany{.name = "h8", .heads = 8, .warps = 4, .blocks_per_sm = 2};
constexpr Variant kManyHeads{.name = "h16", .heads = 16, .warps = 4, .blocks_per_sm = 2};
/// More items than multiprocessors: each warp has 20 KB that tensor copies keep full. Teams of one, two or four of them take
/// items in, as many as leave no warp without work.
constexpr Variant kRings[] = {
    {.name = "h8_ring1", .heads = 8, .warps = 4, .blocks_per_sm = 2, .teams = 4, .shared_bytes = 81 << 10},
    {.name = "h8_ring2", .heads = 8, .warps = 4, .blocks_per_sm = 2, .teams = 2, .shared_bytes = 81 << 10},
    {.name = "h8_ring4", .heads = 8, .warps = 4, .blocks_per_sm = 2, .teams = 1, .shared_bytes = 81 << 10}};

constexpr int kRingSplitTokens = 1024;  // at least, of a split, so that no warp is busy long after the others
constexpr int kRingSplits = 32;

bool known(int head_dim) {
  constexpr int kHeadDims[] = {16, 32, 64, 96, 128, 256};
  return std::ranges::find(kHeadDims, head_dim) != std::end(kHeadDims);
}

bool is_wide(const DecodeAttentionShape& shape) { return shape.head_dim == 64 || shape.head_dim == 128; }

/// Whether there is a form for brief contexts.
bool has_brief(const DecodeAttentionShape& shape) {
  return is_wide(shape) && shape.heads / shape.kv_heads <= kBrief.heads &&
         shape.positions_max <= kBriefPositions;
}

/// The smallest teams of which half at least have an item.
const Variant& ring_of(int items, int multiprocessors) {
  for (const Variant& v : kRings)
    if (2 * items > multiprocessors * v.blocks_per_sm * v.teams) return v;
  return kRings[std::size(kRings) - 1];
}

Variant variant_of(const DecodeAttentionShape& shape, int multiprocessors) {
  if (shape.heads / shape.kv_heads > kMany.heads && shape.head_dim <= 128) return kManyHeads;
  const bool wide = is_wide(shape);
  if (shape.brief) return kBrief;
  if (!wide) return kMany;
  const int items = shape.rows_max * shape.kv_heads;
  if (items <= multiprocessors) return kFew;
  return shape.cache == DType::kBF16 ? ring_of(items, multiprocessors) : kMany;
}

/// Parts that a long context is divided into: as many as fill the device once, or where rows alone fill it more than
/// once, the fewest that leave less than a tenth of the last round idle.
int splits_of(const DecodeAttentionShape& shape, const Variant& v, int parts, int multiprocessors) {
  if (v.teams > 0) return std::clamp(shape.positions_max / kRingSplitTokens, 1, kRingSplits);
  const int slots = multiprocessors * v.blocks_per_sm;
  const int items = shape.rows_max * shape.kv_heads * parts;
  const int useful = std::clamp(shape.positions_max / kSplitTokensMin, 1, kSplitsMax);
  if (items <= slots) return std::min(slots / items, useful);
  constexpr int kRoundsMax = 4;
  for (int splits = 1; splits < std::min(kRoundsMax, useful); ++splits) {
    const int rounds = (items * splits + slots - 1) / slots;
    if (10 * items * splits >= 9 * rounds * slots) return splits;
  }
  return std::min(kRoundsMax, useful);
}

}  // namespace

bool brief_attention_pays(const DecodeAttentionShape& shape) {
  return has_brief(shape) && shape.kv_heads >= kBriefKvHeads &&
         shape.rows_max * shape.kv_heads <= kBriefItems;
}

Result<DecodeAttentionPlan> plan_decode_attention(gpu::GpuBackend& device,
                                                  const DecodeAttentionShape& shape) {
  if (!known(shape.head_dim))
    return unsupported("head_dim",
                       "must be 16, 32, 64, 96, 128 or 256, is " + std::to_string(shape.head_dim));
  if (shape.kv_heads <= 0 || shape.heads <= 0 || shape.heads % shape.kv_heads != 0)
    return unsupported("num_key_value_heads", std::to_string(shape.kv_heads) +
                                                  " key-value heads do not divide " +
                                                  std::to_string(shape.heads) + " heads");
  if (shape.cache != DType::kBF16 && shape.cache != DType::kF8E4M3)
    return unsupported("kv_cache_dtype", "must be BF16 or F8E4M3, is " + std::string(info(shape.cache).name));
  if (shape.brief && !has_brief(shape))
    return unsupported("positions_max", "no form for brief contexts with these sizes");
  const int multiprocessors = std::max(1, device.info().multiprocessors);
  const Variant v = variant_of(shape, multiprocessors);
  const int parts = (shape.heads / shape.kv_heads + v.heads - 1) / v.heads;
  DecodeAttentionPlan plan{.device = &device,
                           .block = {static_cast<std::uint32_t>(v.warps) * 32},
                           .shared_bytes = v.shared_bytes,
                           .split_tokens_min = kSplitTokensMin};
  if (v.teams > 0)
    plan.split_tokens_min = kRingSplitTokens;
  else if (shape.rows_max * shape.kv_heads * parts >= kItemsFull)
    plan.split_tokens_min = kSplitTokensMinFull;
  const std::string entry = "decode_attention_d" + std::to_string(shape.head_dim) +
                            (shape.cache == DType::kBF16 ? "_bf16_" : "_e4m3_") + v.name;
  plan.kernel = look_up(device, v.module, entry);
  plan.splits = splits_of(shape, v, parts, multiprocessors);
  const int groups = shape.kv_heads * parts;
  const int resident = std::max(1, multiprocessors * v.blocks_per_sm / groups);
  plan.grid = {static_cast<std::uint32_t>(std::clamp(plan.splits * shape.rows_max, 1, resident)),
               static_cast<std::uint32_t>(groups)};
  if (v.cluster > 1) {
    plan.cluster = static_cast<std::uint32_t>(v.cluster);
    plan.splits = v.cluster;
    plan.split_tokens_min = kBriefSplitTokens;
    plan.grid.x = static_cast<std::uint32_t>(v.cluster * shape.rows_max);
  }
  const auto rows = static_cast<std::size_t>(shape.rows_max);
  plan.partial_bytes = plan.splits == 1 || plan.cluster > 1
                           ? 0
                           : rows * static_cast<std::size_t>(shape.heads) *
                                 static_cast<std::size_t>(plan.splits) *
                                 static_cast<std::size_t>(shape.head_dim + 2) * sizeof(float);
  plan.finished_bytes = rows * static_cast<std::size_t>(shape.kv_heads) * sizeof(std::int32_t);
  return plan;
}

gpu::KernelLaunch decode_attention_launch(const DecodeAttentionPlan& plan, const DecodeAttentionArgs& args) {
  DecodeAttentionArgs own = args;
  own.splits = plan.splits;
  own.split_tokens_min = plan.split_tokens_min;
  own.group = args.layer.heads / args.layer.kv_heads;
  gpu::KernelLaunch launch(plan.kernel, plan.grid, plan.block, plan.shared_bytes);
  launch.scalar(own).dependent();
  if (plan.cluster > 1) launch.cluster({plan.cluster});
  launch.note({.operation = "decode_attention"});
  return launch;
}

Result<> decode_attention(const DecodeAttentionPlan& plan, const DecodeAttentionArgs& args,
                          gpu::Stream stream) {
  return plan.device->launch(decode_attention_launch(plan, args), stream);
}

}  // namespace met::ops::cuda
