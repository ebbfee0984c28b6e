// Bulk tensor copies (TMA), barriers across a cluster and register budgets of sm_90a, beside barrier.cuh.
// Addresses of shared memory are 32-bit, as the instructions take them.
#pragma once

#include <cstdint>

#include "barrier.cuh"
#include "met/cuda_ops.h"
#include "shared.cuh"

namespace {

/// Number of the warp in its block, known to the compiler to be the same in all lanes: branches on it do not diverge.
__device__ inline int warp_index() { return __shfl_sync(0xffffffffU, static_cast<int>(threadIdx.x) / 32, 0); }

// ---- barriers, beside those of barrier.cuh ----

__device__ inline void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

/// As barrier_wait, for a barrier that other blocks of the cluster arrive at.
__device__ inline void barrier_wait_cluster(std::uint32_t barrier, std::uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(barrier),
      "r"(parity)
      : "memory");
}

/// Barrier `id` (1 … 15) among `threads` threads of the block; 0 is __syncthreads.
__device__ inline void named_barrier(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// ---- clusters ----

/// Arrives at a barrier of any block of the cluster; what this thread wrote before is visible to who waits.
__device__ inline void peer_arrive(std::uint32_t peer_barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(peer_barrier) : "memory");
}

/// The same, where nothing that this thread wrote is to be seen: what it read is free. Without the fences of the other.
__device__ inline void peer_arrive_after_reads(std::uint32_t peer_barrier) {
  asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(peer_barrier) : "memory");
}

__device__ inline void peer_store(std::uint32_t peer, float4 v) {
  asm volatile("st.shared::cluster.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(peer), "f"(v.x), "f"(v.y), "f"(v.z),
               "f"(v.w)
               : "memory");
}

/// A store into a peer's shared memory whose 16 bytes count at a barrier there: it needs no fence.
__device__ inline void peer_store_counted(std::uint32_t peer, float4 v, std::uint32_t peer_barrier) {
  asm volatile(
      "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(
          peer),
      "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w), "r"(peer_barrier)
      : "memory");
}

// ---- bulk tensor copies ----

__device__ inline void prefetch_map(const met::DeviceTensorMap& map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
}

/// The box at (column, row) of a matrix, into shared memory; its bytes count at `barrier`.
__device__ inline void load_box(std::uint32_t to, const met::DeviceTensorMap& map, int column, int row,
                                std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, "
      "%3}], "
      "[%4];" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier)
      : "memory");
}

/// Cache policy of data that is read once: the first to leave the L2 cache.
__device__ inline std::uint64_t evict_first_policy() {
  std::uint64_t policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

/// The box at (column, row) with a cache policy.
__device__ inline void load_box(std::uint32_t to, const met::DeviceTensorMap& map, int column, int row,
                                std::uint32_t barrier, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier), "l"(policy)
      : "memory");
}

/// The box at (x, y, z) of a tensor of three dimensions, x fastest.
__device__ inline void load_box3(std::uint32_t to, const met::DeviceTensorMap& map, int x, int y, int z,
                                 std::uint32_t barrier) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, "
      "%4}], [%5];" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier)
      : "memory");
}
__device__ inline void load_box3(std::uint32_t to, const met::DeviceTensorMap& map, int x, int y, int z,
                                 std::uint32_t barrier, std::uint64_t policy) {
  asm volatile(
      "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [%0], "
      "[%1, {%2, %3, %4}], [%5], %6;" ::"r"(to),
      "l"(&map), "r"(x), "r"(y), "r"(z), "r"(barrier), "l"(policy)
      : "memory");
}

/// The same into every block of the cluster whose bit is set in `blocks`, at the same offsets.
__device__ inline void load_box_multicast(std::uint32_t to, const met::DeviceTensorMap& map, int column,
                                          int row, std::uint32_t barrier, std::uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to),
      "l"(&map), "r"(column), "r"(row), "r"(barrier), "h"(blocks)
      : "memory");
}

// ---- registers of a warpgroup ----

template <int Registers>
__device__ inline void registers_decrease() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(Registers));
}

template <int Registers>
__device__ inline void registers_increase() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(Registers));
}

}  // namespace
