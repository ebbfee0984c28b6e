// Warpgroup matrix products of sm_90a: D[64, N] += A[64, k] B[N, k], D in registers as FP32, A and B in shared memory,
// both with k fastest in rows of 128 bytes, swizzled as a bulk tensor copy with 128-byte swizzle leaves them.
//
// Fragment of D: thread t of the warpgroup holds, for each group j of 8 columns, four values d[4 j + i] at
//   row 16 (t / 32) + t % 32 / 4 + 8 (i / 2),  column 8 j + 2 (t % 4) + i % 2.
#pragma once

#include <cstdint>

namespace {

/// Descriptor of an operand whose first row starts at `address`, a multiple of 1024: rows of 128 bytes, groups of 8 rows
/// follow each other. Adding (bytes >> 4) to it moves along a row by `bytes`.
__device__ inline std::uint64_t wgmma_descriptor(std::uint32_t address) {
  constexpr std::uint64_t kGroupBytes = 1024;
  constexpr std::uint64_t kSwizzle128 = 1;
  return static_cast<std::uint64_t>((address & 0x3ffff) >> 4) | std::uint64_t{1} << 16 |
         (kGroupBytes >> 4) << 32 | kSwizzle128 << 62;
}

/// Before the first product, and after the accumulators were touched.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

/// Waits until at most `Pending` committed groups run.
template <int Pending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(Pending) : "memory");
}

/// Keeps the compiler from moving uses of accumulators across a wait.
template <int Count>
__device__ inline void wgmma_pin(float (&d)[Count]) {
#pragma unroll
  for (int i = 0; i < Count; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// Registers of D in the instruction's text, and as operands.
#define MET_D0                       \
  "%0, %1, %2, %3, %4, %5, %6, %7, " \
  "%8, %9, %10, %11, %12, %13, %14, %15"
#define MET_D16                              \
  "%16, %17, %18, %19, %20, %21, %22, %23, " \
  "%24, %25, %26, %27, %28, %29, %30, %31"
#define MET_D32                              \
  "%32, %33, %34, %35, %36, %37, %38, %39, " \
  "%40, %41, %42, %43, %44, %45, %46, %47"
#define MET_D48                              \
  "%48, %49, %50, %51, %52, %53, %54, %55, " \
  "%56, %57, %58, %59, %60, %61, %62, %63"
#define MET_D64                              \
  "%64, %65, %66, %67, %68, %69, %70, %71, " \
  "%72, %73, %74, %75, %76, %77, %78, %79"
#define MET_D80                              \
  "%80, %81, %82, %83, %84, %85, %86, %87, " \
  "%88, %89, %90, %91, %92, %93, %94, %95"
#define MET_D96                                  \
  "%96, %97, %98, %99, %100, %101, %102, %103, " \
  "%104, %105, %106, %107, %108, %109, %110, %111"
#define MET_D112                                     \
  "%112, %113, %114, %115, %116, %117, %118, %119, " \
  "%120, %121, %122, %123, %124, %125, %126, %127"
#define MET_F4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define MET_F16(i) MET_F4(i), MET_F4(i + 4), MET_F4(i + 8), MET_F4(i + 12)
#define MET_F64(i) MET_F16(i), MET_F16(i + 16), MET_F16(i + 32), MET_F16(i + 48)

/// Wgmma<N>::bf16 (k = 16) and Wgmma<N>::e4m3 (k = 32): D = A B, plus D where `accumulate`.
template <int N>
struct Wgmma;

// a, b, p: numbers of the operands behind D's.
#define MET_WGMMA(N, REGISTERS, a, b, p, ...)                                                            \
  template <>                                                                                            \
  struct Wgmma<N> {                                                                                      \
    __device__ static void bf16(float (&d)[N / 2], std::uint64_t da, std::uint64_t db, int accumulate) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N  \
                   "k16.f32.bf16.bf16 {" REGISTERS "}, %" #a ", %" #b ", p, 1, 1, 0, 0;\n}"              \
                   : __VA_ARGS__                                                                         \
                   : "l"(da), "l"(db), "r"(accumulate));                                                 \
    }                                                                                                    \
    __device__ static void e4m3(float (&d)[N / 2], std::uint64_t da, std::uint64_t db, int accumulate) { \
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %" #p ", 0;\nwgmma.mma_async.sync.aligned.m64n" #N  \
                   "k32.f32.e4m3.e4m3 {" REGISTERS "}, %" #a ", %" #b ", p, 1, 1;\n}"                    \
                   : __VA_ARGS__                                                                         \
                   : "l"(da), "l"(db), "r"(accumulate));                                                 \
    }                                                                                                    \
  };

MET_WGMMA(8, "%0, %1, %2, %3", 4, 5, 6, MET_F4(0))
MET_WGMMA(16, "%0, %1, %2, %3, %4, %5, %6, %7", 8, 9, 10, MET_F4(0), MET_F4(4))
MET_WGMMA(32, MET_D0, 16, 17, 18, MET_F16(0))
MET_WGMMA(64, MET_D0 ", " MET_D16, 32, 33, 34, MET_F16(0), MET_F16(16))
MET_WGMMA(96, MET_D0 ", " MET_D16 ", " MET_D32, 48, 49, 50, MET_F16(0), MET_F16(16), MET_F16(32))
MET_WGMMA(128, MET_D0 ", " MET_D16 ", " MET_D32 ", " MET_D48, 64, 65, 66, MET_F64(0))
MET_WGMMA(192, MET_D0 ", " MET_D16 ", " MET_D32 ", " MET_D48 ", " MET_D64 ", " MET_D80, 96, 97, 98,
          MET_F64(0), MET_F16(64), MET_F16(80))
MET_WGMMA(256,
          MET_D0 ", " MET_D16 ", " MET_D32 ", " MET_D48 ", " MET_D64 ", " MET_D80 ", " MET_D96 ", " MET_D112,
          128, 129, 130, MET_F64(0), MET_F64(64))

#undef MET_WGMMA

}  // namespace
