// Products of a mixture-of-experts layer for few tokens: formulas at MoeFewArgs. The touched experts' weights are read once,
// at the speed of memory; for gate and up all tokens are columns of every product,
// whether they chose the expert or not; for down the pairs of an expert, 8 at a time.
//
// Shapes   MoeFewArgs; tokens <= the entry's columns, tokens_max * top_k <= 256, experts <= 128, top_k <= 32; k % 32 == 0,
//          n % 16 == 0; gate_up: k <= 512 * the entry's blocks.
// Rounding products of BF16 in FP32 (mma.sync); y, residual and scaled are rounded once. A token's sums are of a fixed
//          order: its bits depend on its own row and choice alone.
// Launch   dependent. gate_up: 512 threads, any grid. down: grid n / 16, a warp for as many blocks of 32 k as its entry tells.
//          Shared memory: a ring for each warp, then gate_up's sums of two tiles, or down's of each warp and token.
// Roles    All warps of a block share a tile of 16 rows of W and divide k. Each lane copies what it multiplies itself
//          (cp.async), some steps ahead, so no warp waits for another but to add their sums up.
// Order    gate_up lets the next kernel start behind its own wait. So the logits are complete when `down` starts, and its
//          weights are under way before it waits for gate_up.
#include "moe_few_kernel.cuh"

// Two blocks are on a multiprocessor at a time where there are 8 columns: gate_up's where k allows, or one of each kernel.
MET_MOE_GATE_UP(moe_few_gate_up_8_4, Bf16Weights, 8, 4, 5, 2)
MET_MOE_GATE_UP(moe_few_gate_up_8_8, Bf16Weights, 8, 8, 6, 1)
MET_MOE_GATE_UP(moe_few_gate_up_16_4, Bf16Weights, 16, 4, 8, 1)
MET_MOE_GATE_UP(moe_few_gate_up_16_8, Bf16Weights, 16, 8, 8, 1)
MET_MOE_GATE_UP(moe_few_gate_up_32_4, Bf16Weights, 32, 4, 8, 1)
MET_MOE_DOWN(moe_few_down_1, Bf16Weights, 1, 5)
MET_MOE_DOWN(moe_few_down_2, Bf16Weights, 2, 3)
MET_MOE_DOWN(moe_few_down_3, Bf16Weights, 3, 2)
