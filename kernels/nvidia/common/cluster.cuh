// Clusters of blocks and each other's shared memory. Addresses of shared memory are 32-bit, as the instructions take them.
#pragma once

#include <cstdint>

namespace {

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

__device__ inline std::uint32_t cluster_rank() {
  std::uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

/// The same variable in the shared memory of block `rank` of the cluster.
__device__ inline std::uint32_t peer_address(std::uint32_t address, std::uint32_t rank) {
  std::uint32_t peer;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(peer) : "r"(address), "r"(rank));
  return peer;
}

__device__ inline void peer_store(std::uint32_t peer, std::uint64_t v) {
  asm volatile("st.shared::cluster.u64 [%0], %1;" ::"r"(peer), "l"(v) : "memory");
}

/// Adds to a counter of any block of the cluster; the value before.
__device__ inline std::uint32_t peer_add(std::uint32_t peer, std::uint32_t v) {
  std::uint32_t before;
  asm volatile("atom.relaxed.cluster.shared::cluster.add.u32 %0, [%1], %2;"
               : "=r"(before)
               : "r"(peer), "r"(v)
               : "memory");
  return before;
}

/// The two halves of cluster_sync. A block must not touch a peer's shared memory before all have arrived once.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

/// Every thread of every block of the cluster.
__device__ inline void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

}  // namespace
