#include "met/ops.h"
#include "ops/kernel_lookup.h"
#include "ops/rope_kv/rope_kv.h"

namespace met::ops {

Result<RopeKvPlan> plan_rope_kv(gpu::GpuBackend& device, const RopeKvShape& shape,
                                const RopeFrequencies& frequencies) {
  if (shape.kv_heads <= 0 || shape.heads % shape.kv_heads != 0)
    return unsupported("num_key_value_heads", "attention heads (" + std::to_string(shape.heads) +
                                                  ") must be a multiple of key-value heads (" +
                                                  std::to_string(shape.kv_heads) + ")");
  RopeKvPlan plan{.device = &device,
                  .shape = shape,
                  .rotary_dim = frequencies.rotary_dim,
                  .rope_scale = frequencies.scale};
  MET_ASSIGN(const std::string entry, kv_kernel("rope_kv", shape.cache));
  plan.kernel = look_up(device, entry, entry);
  return plan;
}

Result<> rope_kv(const RopeKvPlan& plan, const RopeKvTensors& t, gpu::Stream stream) {
  gpu::KernelLaunch launch(plan.kernel);
  launch.note({.operation = "rope_kv"});
  launch.buffer(t.qkv).buffer(t.q_norm).buffer(t.k_norm).buffer(t.inverse).buffer(t.k_cache).buffer(
      t.v_cache);
  launch.buffer(t.rows).buffer(t.block_table).buffer(t.counts);
  launch.scalar(std::int32_t{plan.shape.heads}).scalar(std::int32_t{plan.shape.kv_heads});
  launch.scalar(std::int32_t{plan.shape.head_dim}).scalar(std::int32_t{plan.rotary_dim});
  launch.scalar(std::int32_t{plan.shape.interleaved}).scalar(plan.shape.norm_eps);
  launch.scalar(plan.shape.norm_offset).scalar(plan.rope_scale);
  launch.scalar(plan.shape.scales.k).scalar(plan.shape.scales.v);
  static_assert(sizeof(RopeKvArgs) == 112);
  return plan.device->launch(launch, stream);
}

}  // namespace met::ops
