// One id a row of logits: the largest logit, of equals the lowest id (D3); NaN and +infinity set kSampleNonFinite, a row
// without any finite logit kSampleEmpty.
//
// Shapes   SampleArgs. Rows beyond *samples write nothing.
// Writes   outcomes[row], fed[device row], counts[device row][id] where the row counts (not when flagged),
//          logprobs[row] where asked for and the row is not flagged.
// Launch   sample: clusters of 8 blocks, one a row: grid {8 * rows}, 512 threads, shared memory 4 bytes a token
//          of a block's eighth of the vocabulary. Dependent.
// Cost     reads the row once: bound by memory.
#include "met/cuda_ops.h"
#include "pdl.cuh"
#include "sample_row.cuh"

namespace {

/// Writes what was chosen; one thread of a cluster.
__device__ void finish_row(const met::SampleArgs& args, int row, const met::SampleRow& work,
                           std::uint32_t modes, int id, std::uint32_t flags) {
  if (id < 0 || id >= args.vocabulary) {
    flags |= met::kSampleOutOfRange;
    id = 0;
  }
  args.outcomes[row] = {id, flags};
  args.fed[work.device_row] = id;
  if (flags == 0 && (modes & met::kSampleCounts) != 0) ++args.counts[work.device_row * args.vocabulary + id];
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads,
                                        2) void sample(const __grid_constant__ met::SampleArgs args) {
  __shared__ Shared shared;
  launch_dependents();
  cluster_arrive();
  Team team{shared, cluster_rank()};
  const int row = static_cast<int>(blockIdx.x) / kBlocks;
  wait_for_producers();
  cluster_wait();
  if (row >= *args.samples) return;
  const met::SampleRow work = args.rows[row];
  const Part part = part_of(args, work.logits, team.rank);
  unsigned non_finite = 0;
  const Order best = largest_logit(team, part, non_finite);
  if (team.rank != 0 || threadIdx.x != 0) return;
  const std::uint32_t flags =
      (non_finite != 0 ? met::kSampleNonFinite : 0) | (best == 0 ? met::kSampleEmpty : 0);
  finish_row(args, row, work, args.params[work.device_row].modes, best == 0 ? 0 : id_in(best), flags);
}

// counts[device row] = how often each id is in the row's output, and kSampleInPrompt where the prompt holds it. Ids
// outside the vocabulary (placeholders of media) are skipped. One block of 1024 threads a row.
extern "C" __global__ __launch_bounds__(1024) void sample_begin(
    const __grid_constant__ met::SampleBeginArgs args) {
  const met::SampleBegin row = args.rows[blockIdx.x];
  std::uint32_t* counts = args.counts + row.device_row * args.vocabulary;
  for (std::int64_t i = threadIdx.x; i < args.vocabulary; i += blockDim.x) counts[i] = 0;
  __syncthreads();
  const std::int32_t* ids = args.ids + row.ids_begin;
  for (int i = static_cast<int>(threadIdx.x); i < row.prompt + row.output;
       i += static_cast<int>(blockDim.x)) {
    const std::int32_t id = ids[i];
    if (id < 0 || id >= args.vocabulary) continue;
    if (i < row.prompt)
      atomicOr(counts + id, met::kSampleInPrompt);
    else
      atomicAdd(counts + id, 1U);
  }
}
