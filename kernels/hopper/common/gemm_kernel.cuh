// The body of a GEMM kernel; gemm.cu says how its parts work together. `Products` multiplies: kStageValues of k lie in a
// stage, and multiply() gives this warpgroup's sums over a range of k and leaves the ring behind it.
#pragma once

#include "gemm_epilogue.cuh"
#include "gemm_norm.cuh"
#include "gemm_tile.cuh"

namespace {

/// The weights that wait for nothing; how many stages have theirs. One thread.
template <class T, class Products>
__device__ int load_early(const GemmArgs& args, const Shared<T>& shared, int rank) {
  constexpr int kValues = Products::kStageValues;
  prefetch_map(args.weights);
  const KRange range = k_range<T>(args.k, kValues, rank);
  const int early = stages_early<T>(args, range);
  if (early > 0) {
    const TileOrder<T> order = TileOrder<T>::early(args);
    const TileAt tile = order.at(order.first(), rank);
    for (int i = 0; i < early; ++i)
      load_weights(args, shared, i, tile.column, (range.begin + i) * kValues, rank);
  }
  prefetch_map(args.x);
  return early;
}

/// Keeps the ring full for all tiles of this cluster, of which `early` stages have weights. One thread.
template <class T, class Products>
__device__ void produce(const GemmArgs& args, const Shared<T>& shared, int rank, int early) {
  constexpr int kValues = Products::kStageValues;
  const KRange range = k_range<T>(args.k, kValues, rank);
  wait_for_producers();
  const int tokens = args.counts->tokens;
  const TileOrder<T> order = TileOrder<T>::of(args);
  RingAt<T> at;
  int loaded = early;
  for (int index = order.first(); index < order.count(); index += order.step()) {
    const TileAt tile = order.at(index, rank);
    const int end = tile.unit_row < tokens ? range.end : range.begin + loaded;
    for (int block = range.begin; block < end; ++block, at.next()) {
      if (loaded > 0) {
        --loaded;
      } else {
        barrier_wait_cluster(shared.empty(at.stage), at.round ^ 1);
        load_weights(args, shared, at.stage, tile.column, block * kValues, rank);
      }
      load_x(args, shared, at.stage, tile.row, block * kValues, block);
    }
  }
}

/// What nobody multiplies is given back unread.
template <class T>
__device__ void skip(const Shared<T>& shared, RingAt<T>& at, KRange range) {
  for (int block = range.begin; block < range.end; ++block, at.next()) {
    barrier_wait(shared.full(at.stage), at.round);
    release_stage(shared, at.stage, threadIdx.x % kWarpThreads);
  }
}

template <class T, class Products>
__device__ void consume(const GemmArgs& args, const Shared<T>& shared, int rank) {
  const int warp = warp_index();
  const std::uint32_t staging = shared.staging + warp * kStagingBytes;
  const KRange range = k_range<T>(args.k, Products::kStageValues, rank);
  wait_for_producers();
  const int tokens = args.counts->tokens;
  const TileOrder<T> order = TileOrder<T>::of(args);
  RingAt<T> at;
  std::uint32_t round = 0;
  for (int index = order.first(); index < order.count(); index += order.step()) {
    const TileAt tile = order.at(index, rank);
    if (tile.unit_row >= tokens) {
      if (index == order.first()) skip(shared, at, {range.begin, range.begin + stages_early<T>(args, range)});
      continue;
    }
    const bool rows = tile.row + kGroupRows * (warp / kGroupWarps) < tokens;
    float d[T::kN / 2];
    if (rows)
      Products::template multiply<T>(args, shared, at, range, tile, d);
    else
      skip(shared, at, range);
    if constexpr (T::kSplits > 1) {
      float sum[T::kOwnColumns / 2];
      sum_splits(shared, d, sum, rank, round, order.goes_on(index, tokens));
      round ^= 1;
      scale_rows(args, shared, tile.row + 16 * warp, sum);
      epilogue<T::kOwnColumns / 8>(args, sum, staging, tile.row + 16 * warp,
                                   tile.column + rank * T::kOwnColumns, tokens);
    } else {
      scale_rows(args, shared, tile.row + 16 * warp, d);
      epilogue<T::kN / 8>(args, d, staging, tile.row + 16 * warp, tile.column, tokens);
    }
  }
}

template <class T, class Products>
__device__ void gemm(const GemmArgs& args) {
  extern __shared__ char memory[];
  launch_dependents();
  const Shared<T> shared = Shared<T>::at(memory);
  const int rank = T::kBlocks > 1 ? static_cast<int>(cluster_rank()) : 0;
  constexpr bool kMulticast = T::kShare == Share::kPair;  // into a block whose barriers must exist first
  int early = 0;
  if (threadIdx.x == kConsumers) {
    shared.init();
    if (!kMulticast) early = load_early<T, Products>(args, shared, rank);
  }
  __syncthreads();
  if constexpr (T::kBlocks > 1) {
    cluster_arrive_relaxed();
    cluster_wait();
  }
  if (warp_index() >= kConsumerWarps) {
    registers_decrease<kProducerRegisters>();
    if (threadIdx.x == kConsumers) {
      if (kMulticast) early = load_early<T, Products>(args, shared, rank);
      produce<T, Products>(args, shared, rank, early);
    }
    if (warp_index() > kConsumerWarps) find_norms(args, shared, warp_index() - kConsumerWarps - 1);
  } else {
    registers_increase<kConsumerRegisters>();
    consume<T, Products>(args, shared, rank);
  }
  // A peer may still arrive at this block's barriers; sums of a split have all come.
  if constexpr (kMulticast) cluster_sync();
}

}  // namespace
