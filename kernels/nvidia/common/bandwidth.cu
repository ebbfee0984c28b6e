// Reads memory as fast as the device can: the ceiling that memory-bound kernels are judged against.
//
// Shapes   data: `vectors` times 16 bytes, 16-byte aligned; sink: one word that keeps the loads alive,
// written
//          only by a thread whose checksum happens to be 0.
// Launch   blocks of 512 threads, two a multiprocessor or more; any grid serves any size.
// Cost     reads 16 * vectors bytes.
#include <cstdint>

namespace {

constexpr int kThreads = 512;
constexpr int kInFlight = 8;  // 16-byte loads of a thread before the first is used

__device__ uint4 load_once(const uint4* at) {
  uint4 v;
  asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "l"(at));
  return v;
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads) void read_bandwidth(const uint4* data, std::int64_t vectors,
                                                                      std::uint32_t* sink) {
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  std::uint32_t seen = 1;
  for (; at + (kInFlight - 1) * stride < vectors; at += kInFlight * stride) {
    uint4 v[kInFlight];
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) v[i] = load_once(data + at + i * stride);
#pragma unroll
    for (int i = 0; i < kInFlight; ++i) seen = seen * 31U + (v[i].x ^ v[i].y ^ v[i].z ^ v[i].w);
  }
  for (; at < vectors; at += stride) {
    const uint4 v = load_once(data + at);
    seen = seen * 31U + (v.x ^ v.y ^ v.z ^ v.w);
  }
  if (seen == 0) *sink = seen;
}
