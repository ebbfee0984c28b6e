// s[t, n] = scale(t, n) * sum_k W[n, k] x[t, k] (+ bias[n]), then the epilogue of ProjectionArgs: the matrix products of
// a decode step, bound by the bytes of W.
//
// Shapes   W: [n, k] row-major; x: [tokens_max, k] BF16; tokens = counts->tokens or counts->logits, at most the entry's
//          N. k a multiple of 8, n any; kSiluMul and kGeluMul: n a multiple of 16, kResidual writes rows of ldy values.
// Rounding products and sums in FP32; stores round once. kResidual: h is rounded to BF16 first, `scaled` and the squares
//          are of the rounded h.
// Rows     A row's sums run over k in an order fixed by the launch's tile: its bits depend on no other row.
// Launch   projection_bf16_n<N>: blocks in clusters of tile.split, one tile a cluster where that is 2, else any grid takes
//          all tiles. 128 threads for each 64 rows of a tile or each team, and 128 more. Shared memory as ProjectionMemory
//          counts it. Programmatic dependent launch.
// Roles    Consumer warpgroups: one for each 64 rows of a tile, W as the A side of WGMMA, the batch as B. A tile of fewer
//          rows leaves the fragment's other rows unused: what they hold is of the next bytes in shared memory. Or teams:
//          warpgroups take the stages of one tile in turn and add their sums in order. One warp brings weights, at once;
//          a second one x, after the wait for the kernels in front; two helpers find 1 / rms of each row.
// Cost     reads n * k weights once, x from the L2 cache once a tile. Bound by memory up to 64 columns.
#include "projection_kernel.cuh"

extern "C" __global__ __launch_bounds__(Bf16Products<8>::kThreadsMax, 1) void projection_bf16_n8(
    const __grid_constant__ ProjectionArgs args) {
  projection<8, Bf16Products<8>>(args);
}
extern "C" __global__ __launch_bounds__(Bf16Products<16>::kThreadsMax, 1) void projection_bf16_n16(
    const __grid_constant__ ProjectionArgs args) {
  projection<16, Bf16Products<16>>(args);
}
extern "C" __global__ __launch_bounds__(Bf16Products<32>::kThreadsMax, 1) void projection_bf16_n32(
    const __grid_constant__ ProjectionArgs args) {
  projection<32, Bf16Products<32>>(args);
}
extern "C" __global__ __launch_bounds__(Bf16Products<64>::kThreadsMax, 1) void projection_bf16_n64(
    const __grid_constant__ ProjectionArgs args) {
  projection<64, Bf16Products<64>>(args);
}
extern "C" __global__ __launch_bounds__(Bf16Products<128>::kThreadsMax, 1) void projection_bf16_n128(
    const __grid_constant__ ProjectionArgs args) {
  projection<128, Bf16Products<128>>(args);
}
extern "C" __global__ __launch_bounds__(Bf16Products<256>::kThreadsMax, 1) void projection_bf16_n256(
    const __grid_constant__ ProjectionArgs args) {
  projection<256, Bf16Products<256>>(args);
}
