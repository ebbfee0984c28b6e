// Warpgroup matrix products whose A operand is in registers, and whose B lies with k or with its columns fastest:
// D[64, N] += A[64, 16] B[16, N], BF16, D in registers as FP32 (fragment of D, B with k fastest: wgmma.cuh).
//
// Fragment of A: thread t of the warpgroup holds four words of two neighbours along k,
//   word i at row 16 (t / 32) + t % 32 / 4 + 8 (i % 2), k = 2 (t % 4) + 8 (i / 2),
// so the words of a fragment of D, rounded to BF16 and taken two by two, are fragments of A for 16 columns of D each.
#pragma once

#include <cstdint>

#include "wgmma.cuh"

namespace {

/// Descriptor of B as rows k of 64 columns, 128 bytes each, with 128-byte swizzle; columns 64 … 127 start
/// `columns_bytes` behind the first, and so on. The address is a multiple of 1024; 16 rows further are 2048 bytes.
__device__ inline std::uint64_t wgmma_descriptor_rows(std::uint32_t address, std::uint32_t columns_bytes) {
  constexpr std::uint64_t kGroupBytes = 1024;  // 8 rows
  constexpr std::uint64_t kSwizzle128 = 1;
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) |
         static_cast<std::uint64_t>(columns_bytes >> 4) << 16 | (kGroupBytes >> 4) << 32 | kSwizzle128 << 62;
}

enum class Fastest { kK = 0, kColumns = 1 };  // of B

/// WgmmaRegisters<N>::bf16<B>: D += A B.
template <int N>
struct WgmmaRegisters;

// a0 … t: numbers of the operands behind D's.
#define MET_WGMMA_REGISTERS(N, REGISTERS, a0, a1, a2, a3, b, t, ...)                                  \
  template <>                                                                                         \
  struct WgmmaRegisters<N> {                                                                          \
    template <Fastest B>                                                                              \
    __device__ static void bf16(float (&d)[N / 2], const std::uint32_t* a, std::uint64_t db) {        \
      asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32.bf16.bf16 {" REGISTERS "}, {%" #a0 \
                   ", %" #a1 ", %" #a2 ", %" #a3 "}, %" #b ", 1, 1, 1, %" #t ";"                      \
                   : __VA_ARGS__                                                                      \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(db), "n"(static_cast<int>(B)));  \
    }                                                                                                 \
  };

MET_WGMMA_REGISTERS(8, "%0, %1, %2, %3", 4, 5, 6, 7, 8, 9, MET_F4(0))
MET_WGMMA_REGISTERS(16, "%0, %1, %2, %3, %4, %5, %6, %7", 8, 9, 10, 11, 12, 13, MET_F4(0), MET_F4(4))
MET_WGMMA_REGISTERS(32, MET_D0, 16, 17, 18, 19, 20, 21, MET_F16(0))
MET_WGMMA_REGISTERS(64, MET_D0 ", " MET_D16, 32, 33, 34, 35, 36, 37, MET_F16(0), MET_F16(16))
MET_WGMMA_REGISTERS(128, MET_D0 ", " MET_D16 ", " MET_D32 ", " MET_D48, 64, 65, 66, 67, 68, 69, MET_F64(0))
MET_WGMMA_REGISTERS(256,
                    MET_D0 ", " MET_D16 ", " MET_D32 ", " MET_D48 ", " MET_D64 ", " MET_D80 ", " MET_D96
                           ", " MET_D112,
                    128, 129, 130, 131, 132, 133, MET_F64(0), MET_F64(64))

#undef MET_WGMMA_REGISTERS

}  // namespace
