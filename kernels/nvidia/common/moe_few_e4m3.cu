// moe_few.cu with E4M3 weights, widened to BF16 in registers in front of the products: activations stay BF16, and what is
// gained is half the bytes.
//
// Shapes   as moe_few.cu; k % 16 == 0; gate_up: k <= 1024 * the entry's blocks. Codes are no NaN, |x| < 2^63. Scales as
//          MoeFewArgs says.
// Rounding products of exact values in FP32, the sum over 128 of k times its scale, those added in FP32.
// Launch   as moe_few.cu, blocks of 64 k.
#include "moe_few_kernel.cuh"

MET_MOE_GATE_UP(moe_few_gate_up_e4m3_8_2, E4m3Weights, 8, 2, 5, 2)
MET_MOE_GATE_UP(moe_few_gate_up_e4m3_8_4, E4m3Weights, 8, 4, 6, 1)
MET_MOE_DOWN(moe_few_down_e4m3_1, E4m3Weights, 1, 4)
MET_MOE_DOWN(moe_few_down_e4m3_2, E4m3Weights, 2, 2)
