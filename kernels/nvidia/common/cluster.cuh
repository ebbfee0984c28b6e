// Clusters of blocks and each other's shared memory. Addresses of shared memory are 32-bit, as the instructions take them.
#pragma once

#include <cstdint>

#include "shared.cuh"

namespace {

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

/// Stores to the shared memory of block `peer` belongs to and counts 8 bytes at a barrier (mbarrier) of that block: who
/// waits there sees the value, with none of the fences that a cluster barrier costs.
__device__ inline void peer_send(std::uint32_t peer, unsigned long long v, std::uint32_t peer_barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.u64 [%0], %1, [%2];" ::"r"(peer),
               "l"(v), "r"(peer_barrier)
               : "memory");
}

/// The two halves of cluster_sync. A block must not touch a peer's shared memory before all have arrived once. Both wait
/// for all earlier writes to be seen by the whole device: for what a step does often, peer_send is the better way.
__device__ inline void cluster_arrive() {
  asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
}
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

/// For a first barrier, where nothing but mbarriers was written before (barrier_init_fence): none of the waiting.
__device__ inline void cluster_arrive_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");
}

/// Every thread of every block of the cluster.
__device__ inline void cluster_sync() {
  cluster_arrive();
  cluster_wait();
}

}  // namespace
