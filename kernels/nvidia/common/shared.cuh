// Shared memory by its 32-bit address, as the instructions take it: what the copy engine and barriers are given, and ordinary
// accesses.
#pragma once

#include <cstdint>

namespace {

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline float4 shared_load(std::uint32_t at) {
  float4 v;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
               : "r"(at)
               : "memory");
  return v;
}

__device__ inline uint4 shared_load_bits(std::uint32_t at) {
  uint4 v;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
               : "r"(at)
               : "memory");
  return v;
}

__device__ inline void shared_store(std::uint32_t at, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w)
               : "memory");
}

__device__ inline std::uint32_t shared_load_word(std::uint32_t at) {
  std::uint32_t v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
  return v;
}

__device__ inline void shared_store_word(std::uint32_t at, std::uint32_t v) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(v) : "memory");
}

__device__ inline float shared_load_float(std::uint32_t at) { return __uint_as_float(shared_load_word(at)); }

__device__ inline void shared_store_float(std::uint32_t at, float v) {
  shared_store_word(at, __float_as_uint(v));
}

}  // namespace
