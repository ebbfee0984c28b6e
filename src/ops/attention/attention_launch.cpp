#include "ops/attention/attention_launch.h"
#include "ops/kernel_lookup.h"

#include "met/ops.h"

namespace met::ops {

Result<AttentionPlan> plan_attention(gpu::GpuBackend& device, const AttentionShape& shape) {
  if (shape.head_dim <= 0 || shape.head_dim > kHeadDimMax || shape.head_dim % 16 != 0)
    return unsupported("head_dim", "head_dim " + std::to_string(shape.head_dim) +
                                       " is not a multiple of 16 up to " + std::to_string(kHeadDimMax));
  MET_ASSIGN(const std::string entry, kv_kernel("attention", shape.cache));
  AttentionPlan plan{.device = &device, .shape = shape};
  plan.kernel = look_up(device, entry, entry);
  return plan;
}

Result<> attention(const AttentionPlan& plan, const AttentionTensors& t, gpu::Stream stream) {
  gpu::KernelLaunch launch(plan.kernel);
  launch.note({.operation = "attention"});
  launch.buffer(t.qkv).buffer(t.k_cache).buffer(t.v_cache).buffer(t.sinks).buffer(t.y);
  launch.buffer(t.rows).buffer(t.block_table).buffer(t.counts).buffer(t.workspace);
  launch.scalar(std::int32_t{plan.shape.heads}).scalar(std::int32_t{plan.shape.kv_heads});
  launch.scalar(std::int32_t{plan.shape.head_dim}).scalar(std::int32_t{plan.shape.window});
  launch.scalar(plan.shape.scale).scalar(plan.shape.softcap);
  launch.scalar(plan.shape.scales.k).scalar(plan.shape.scales.v);
  static_assert(sizeof(AttentionArgs) == 104);
  return plan.device->launch(launch, stream);
}

}  // namespace met::ops
