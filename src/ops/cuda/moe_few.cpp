#include "ops/cuda/moe_few.h"

#include <algorithm>
#include <string>

#include "ops/kernel_lookup.h"

namespace met::ops::cuda {
namespace {

// As kernels/nvidia/common/moe_few.cu and moe_choice.cuh.
constexpr int kStep = 32;
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
struct Columns {
  int columns;
  int blocks;  ///< of 32 k that a warp takes
  int slots;
};
constexpr Columns kColumns[] = {{8, 4, 5}, {8, 8, 6}, {16, 4, 8}, {16, 8, 8}, {32, 4, 8}};

/// Slots of down's ring, by the blocks of 32 k that a warp takes.
constexpr int kDownSlots[] = {0, 5, 3, 2};
constexpr int kDownBlocksMax = 3;

int blocks_each(int blocks) { return (blocks + kWarpsMax - 1) / kWarpsMax; }

const Columns* entry_for(const MoeFewShape& shape) {
  const auto it = std::ranges::find_if(kColumns, [&](const Columns& c) {
    return shape.tokens <= c.columns && shape.hidden <= c.blocks * kWarpsMax * kStep;
  });
  return it != std::end(kColumns) ? it : nullptr;
}

template <class T>
T* at(gpu::DevicePtr p) {
  return reinterpret_cast<T*>(p.value);
}

MoeFewArgs args_of(const MoeFewPlan& plan, const MoeFewTensors& t) {
  return {.logits = at<const float>(t.logits),
          .counts = at<const StepCounts>(t.counts),
          .weights = nullptr,
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
          .epilogue = plan.shape.activation};
}

}  // namespace

bool fits_moe_few(const MoeFewShape& s) {
  return s.hidden % kStep == 0 && s.width % kStep == 0 && s.experts <= kExpertsMax &&
         s.tokens * s.top_k <= kPairsMax && entry_for(s) != nullptr &&
         blocks_each(s.width / kStep) <= kDownBlocksMax;
}

Result<MoeFewPlan> plan_moe_few(gpu::GpuBackend& device, const MoeFewShape& shape) {
  MET_CHECK(fits_moe_few(shape), "a mixture of experts that the kernels for few tokens do not take");
  const Columns& entry = *entry_for(shape);
  const std::string columns = std::to_string(entry.columns);
  const int groups = entry.columns / 8;
  const int blocks = shape.width / kStep;
  const int each = blocks_each(blocks);
  const int warps = (blocks + each - 1) / each;
  return MoeFewPlan{
      .device = &device,
      .shape = shape,
      .logits = look_up(device, "moe_router", "moe_logits"),
      .gate_up =
          look_up(device, "moe_few", "moe_few_gate_up_" + columns + "_" + std::to_string(entry.blocks)),
      .down = look_up(device, "moe_few", "moe_few_down_" + std::to_string(each)),
      .logits_grid = {static_cast<std::uint32_t>((shape.tokens + kRouterTokens - 1) / kRouterTokens),
                      static_cast<std::uint32_t>((shape.experts + kRouterExperts - 1) / kRouterExperts)},
      .gate_up_grid = {static_cast<std::uint32_t>(device.info().multiprocessors)},
      .down_grid = {static_cast<std::uint32_t>(shape.hidden / kRows)},
      .down_block = {static_cast<std::uint32_t>(warps * kWarp)},
      .gate_up_shared = static_cast<std::uint32_t>(kWarpsMax * kWarpBytes * (2 * entry.slots + 2 * groups)),
      .down_shared = static_cast<std::uint32_t>(
          warps * (3 * kWarpBytes * each * kDownSlots[each] + kDownSumBytes * shape.tokens))};
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
  args.weights = at<const Bf16Bits>(t.gate_up);
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
  args.weights = at<const Bf16Bits>(t.down);
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
