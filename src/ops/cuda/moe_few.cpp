#include "ops/cuda/moe_few.h"

#include <algorithm>
#include <span>
#include <string>
#include <string_view>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

// As kernels/nvidia/common/moe_few_kernel.cuh, moe_weights.cuh and moe_choice.cuh.
constexpr int kGranule = 32;  // of hidden size and width
constexpr int kRows = 16;
constexpr int kWarp = 32;
constexpr int kWarpBytes = 512;
constexpr int kWarpsMax = 16;
constexpr int kDownSumBytes = 64;  // of a token
constexpr int kExpertsMax = 128;
constexpr int kPairsMax = 256;
// As the router's kernel.
constexpr std::uint32_t kRouterThreads = 256;
constexpr int kRouterTokens = 16;
constexpr int kRouterExperts = 8;

/// An entry of gate and up for so many tokens; slots of a warp's ring.
struct GateUpEntry {
  int columns;
  int blocks;  ///< of k that a warp takes
  int slots;
  int resident = 1;  ///< its blocks on a multiprocessor
};
/// An entry of down: slots of a warp's ring.
struct DownEntry {
  int blocks;
  int slots;
};
/// The kernels for weights of one type.
struct Family {
  std::string_view module;
  std::string_view suffix;  ///< of the kernels' names
  int block;                ///< values of k
  int down_block_bytes;     ///< of a warp's slot, for each block: two rows of W and x
  int down_slot_bytes;      ///< of it, for scales
  std::span<const GateUpEntry> gate_up;
  std::span<const DownEntry> down;
};
// Two rings of 80 KB have more on its way than one beside that of down's first weights. Qwen3-30B-A3B, a whole step: one
// row +3.5 %, four +1.5 %, eight +1.7 %; one block with 192 KB +0.4 %.
constexpr GateUpEntry kGateUpBf16[] = {
    {8, 4, 5, /*resident=*/2}, {8, 8, 6}, {16, 4, 8}, {16, 8, 8}, {32, 4, 8}};
// More than 8 tokens: moe_gemm_e4m3 is faster (docs/performance.md).
constexpr GateUpEntry kGateUpE4m3[] = {{8, 2, 5}, {8, 4, 6}};
constexpr DownEntry kDownBf16[] = {{1, 5}, {2, 3}, {3, 2}};
constexpr DownEntry kDownE4m3[] = {{1, 4}, {2, 2}};
constexpr Family kBf16{"moe_few", "", 32, 3 * kWarpBytes, 0, kGateUpBf16, kDownBf16};
constexpr Family kE4m3{"moe_few_e4m3", "_e4m3", 64, 4 * kWarpBytes, kWarpBytes / 2, kGateUpE4m3, kDownE4m3};

const Family& family_of(DType weights) { return weights == DType::kF8E4M3 ? kE4m3 : kBf16; }

const GateUpEntry* gate_up_entry(const MoeFewShape& shape) {
  const Family& family = family_of(shape.gate_up);
  const auto it = std::ranges::find_if(family.gate_up, [&](const GateUpEntry& e) {
    return shape.tokens <= e.columns && shape.hidden <= e.blocks * kWarpsMax * family.block;
  });
  return it != family.gate_up.end() ? &*it : nullptr;
}

const DownEntry* down_entry(const MoeFewShape& shape) {
  const Family& family = family_of(shape.down);
  const auto it = std::ranges::find_if(
      family.down, [&](const DownEntry& e) { return shape.width <= e.blocks * kWarpsMax * family.block; });
  return it != family.down.end() ? &*it : nullptr;
}

template <class T>
T* at(gpu::DevicePtr p) {
  return reinterpret_cast<T*>(p.value);
}

MoeFewArgs args_of(const MoeFewPlan& plan, const MoeFewTensors& t) {
  return {.logits = at<const float>(t.logits),
          .counts = at<const StepCounts>(t.counts),
          .weights = nullptr,
          .weight_scales = nullptr,
          .x = nullptr,
          .y = nullptr,
          .residual = at<Bf16Bits>(t.residual),
          .next_norm = at<const float>(t.next_norm),
          .scaled = at<Bf16Bits>(t.scaled),
          .squares = at<float>(t.squares),
          .experts = plan.shape.experts,
          .top_k = plan.shape.top_k,
          .renormalise = plan.shape.renormalise,
          .n = 0,
          .k = 0,
          .block_scales = 0,
          .epilogue = plan.shape.activation};
}

void set_weights(MoeFewArgs& args, const ExpertWeights& weights) {
  args.weights = at<const void>(weights.data);
  args.weight_scales = at<const float>(weights.scales);
  args.block_scales = weights.block_scales;
}

}  // namespace

bool fits_moe_few(const MoeFewShape& s) {
  return s.hidden % kGranule == 0 && s.width % kGranule == 0 && s.experts <= kExpertsMax &&
         s.tokens * s.top_k <= kPairsMax && gate_up_entry(s) != nullptr && down_entry(s) != nullptr;
}

Result<MoeFewPlan> plan_moe_few(gpu::GpuBackend& device, const MoeFewShape& shape) {
  MET_CHECK(fits_moe_few(shape), "a mixture of experts that the kernels for few tokens do not take");
  const GateUpEntry& wide = *gate_up_entry(shape);
  const DownEntry& deep = *down_entry(shape);
  const Family& of_gate_up = family_of(shape.gate_up);
  const Family& of_down = family_of(shape.down);
  const std::string gate_up = "moe_few_gate_up" + std::string(of_gate_up.suffix) + "_" +
                              std::to_string(wide.columns) + "_" + std::to_string(wide.blocks);
  const std::string down = "moe_few_down" + std::string(of_down.suffix) + "_" + std::to_string(deep.blocks);
  const int groups = wide.columns / 8;
  const int each = deep.blocks * of_down.block;  // k of a warp
  const int warps = (shape.width + each - 1) / each;
  const int slot = deep.blocks * of_down.down_block_bytes + of_down.down_slot_bytes;
  return MoeFewPlan{
      .device = &device,
      .shape = shape,
      .logits = look_up(device, "moe_router", "moe_logits"),
      .gate_up = look_up(device, of_gate_up.module, gate_up),
      .down = look_up(device, of_down.module, down),
      .logits_grid = {static_cast<std::uint32_t>((shape.tokens + kRouterTokens - 1) / kRouterTokens),
                      static_cast<std::uint32_t>((shape.experts + kRouterExperts - 1) / kRouterExperts)},
      .gate_up_grid = {static_cast<std::uint32_t>(device.info().multiprocessors * wide.resident)},
      .down_grid = {static_cast<std::uint32_t>(shape.hidden / kRows)},
      .down_block = {static_cast<std::uint32_t>(warps * kWarp)},
      .gate_up_shared = static_cast<std::uint32_t>(kWarpsMax * kWarpBytes * (2 * wide.slots + 2 * groups)),
      .down_shared = static_cast<std::uint32_t>(warps * (slot * deep.slots + kDownSumBytes * shape.tokens))};
}

gpu::KernelLaunch moe_few_logits_launch(const MoeFewPlan& plan, const MoeFewTensors& t) {
  const MoeRouterArgs args{.x = at<const Bf16Bits>(t.x),
                           .norm = t.norm,
                           .normed = at<Bf16Bits>(t.normed),
                           .router = at<const Bf16Bits>(t.router),
                           .pairs = {},
                           .counts = at<const StepCounts>(t.counts),
                           .hidden = plan.shape.hidden,
                           .experts = plan.shape.experts,
                           .top_k = plan.shape.top_k,
                           .renormalise = plan.shape.renormalise,
                           .logits = at<float>(t.logits),
                           .finished = nullptr};
  gpu::KernelLaunch launch(plan.logits, plan.logits_grid, {kRouterThreads});
  launch.scalar(args).dependent();
  launch.note({.operation = "moe_few_logits"});
  return launch;
}

gpu::KernelLaunch moe_few_gate_up_launch(const MoeFewPlan& plan, const MoeFewTensors& t) {
  MoeFewArgs args = args_of(plan, t);
  set_weights(args, t.gate_up);
  args.x = at<const Bf16Bits>(t.normed);
  args.y = at<Bf16Bits>(t.y);
  args.n = 2 * plan.shape.width;
  args.k = plan.shape.hidden;
  gpu::KernelLaunch launch(plan.gate_up, plan.gate_up_grid, {kWarpsMax * kWarp}, plan.gate_up_shared);
  launch.scalar(args).dependent();
  launch.note({.operation = "moe_few_gate_up"});
  return launch;
}

gpu::KernelLaunch moe_few_down_launch(const MoeFewPlan& plan, const MoeFewTensors& t) {
  MoeFewArgs args = args_of(plan, t);
  set_weights(args, t.down);
  args.x = at<const Bf16Bits>(t.y);
  args.n = plan.shape.hidden;
  args.k = plan.shape.width;
  gpu::KernelLaunch launch(plan.down, plan.down_grid, plan.down_block, plan.down_shared);
  launch.scalar(args).dependent();
  launch.note({.operation = "moe_few_down"});
  return launch;
}

Result<> moe_few(const MoeFewPlan& plan, const MoeFewTensors& tensors, gpu::Stream stream) {
  MET_TRY(plan.device->launch(moe_few_logits_launch(plan, tensors), stream));
  MET_TRY(plan.device->launch(moe_few_gate_up_launch(plan, tensors), stream));
  return plan.device->launch(moe_few_down_launch(plan, tensors), stream);
}

}  // namespace met::ops::cuda
