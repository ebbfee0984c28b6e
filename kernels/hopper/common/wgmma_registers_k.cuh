// Warpgroup matrix products whose A operand is in registers and whose B lies with k fastest, as wgmma.cuh describes it:
// D[64, N] += A[64, 16] B[N, 16], BF16, D in registers as FP32. Fragment of A: wgmma_registers.cuh.
#pragma once

#include <cstdint>

#include "wgmma.cuh"

namespace {

template <int N>
struct WgmmaRegistersK;

// a0 … b: numbers of the operands behind D's.
#define MET_WGMMA_REGISTERS_K(N, REGISTERS, a0, a1, a2, a3, b, ...)                                   \
  template <>                                                                                         \
  struct WgmmaRegistersK<N> {                                                                         \
    __device__ static void bf16(float (&d)[N / 2], const std::uint32_t* a, std::uint64_t db) {        \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" REGISTERS "}, {%" #a0 \
                   ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", 1, 1, 1, 0;"                            \
                   : __VA_ARGS__                                                                      \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(db));                            \
    }                                                                                                 \
  };

MET_WGMMA_REGISTERS_K(8, "%0, %1, %2, %3", 4, 5, 6, 7, 8, MET_F4(0))
MET_WGMMA_REGISTERS_K(16, "%0, %1, %2, %3, %4, %5, %6, %7", 8, 9, 10, 11, 12, MET_F4(0), MET_F4(4))
MET_WGMMA_REGISTERS_K(32, MET_D0, 16, 17, 18, 19, 20, MET_F16(0))
MET_WGMMA_REGISTERS_K(64, MET_D0 ", " MET_D16, 32, 33, 34, 35, 36, MET_F16(0), MET_F16(16))
MET_WGMMA_REGISTERS_K(128, MET_D0 ", " MET_D16 ", " MET_D32 ", " MET_D48, 64, 65, 66, 67, 68, MET_F64(0))
MET_WGMMA_REGISTERS_K(256,
                      MET_D0 ", " MET_D16 ", " MET_D32 ", " MET_D48 ", " MET_D64 ", " MET_D80 ", " MET_D96
                             ", " MET_D112,
                      128, 129, 130, 131, 132, MET_F64(0), MET_F64(64))

#undef MET_WGMMA_REGISTERS_K

}  // namespace
