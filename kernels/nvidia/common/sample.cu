// One id a row of logits: the token that src/sampling chooses for the same row, parameters and position.
//
// Formula  docs/sampling.md, steps 1, 3 to 6, 9 to 11, 14, 16, 17, 19, as SampleParams has them; D1 to D3. Weights have
//          the reference's bits; they are summed as integers in units of 2^-44, so an id depends on nothing else in the
//          batch, and differs from the reference's only where u or p fall within its rounding of a sum. Logprobs are
//          sums of FP32 weights, within 1e-5 of FP64.
// Shapes   SampleArgs. Rows beyond step->rows write nothing.
// Writes   its outcome, fed[device row], counts[device row][id] where the row counts (not when flagged),
//          log-probabilities where asked for and the row is not flagged.
// Launch   sample: clusters of 8 blocks, one a row: grid {8 * rows}, 512 threads, shared memory 4 bytes a token
//          of a block's eighth of the vocabulary. Dependent.
// Cost     a greedy row is read once: bound by memory. A drawn row is read once into the cluster's shared memory, which
//          is then passed over twice, and some five times for each of top k and top p.
#include "met/cuda_ops.h"
#include "pdl.cuh"
#include "sample_select.cuh"

namespace {

/// What top k, min p and top p leave: all tokens from the returned order on.
__device__ Order cut_of(Team& team, const Tokens& tokens, const met::SampleParams& params) {
  Order cut = kLowest;
  Window window;
  if (params.top_k > 0) {
    Goal goal{.want = static_cast<Word>(params.top_k), .share = 0, .whole = params.top_k <= kListMax / 2};
    if (narrow<Measure::kCount>(team, tokens, cut, goal, window))
      cut = crossing<Measure::kCount>(team, tokens, window, goal.want);
  }
  if ((params.modes & met::kSampleMinP) != 0) {
    const auto least = static_cast<float>(static_cast<double>(tokens.max) + params.min_p_offset);
    cut = max(cut, order_of(key_of(fminf(least, tokens.max)), kAll));
  }
  if (params.top_p < 1.0) {
    Goal goal{.want = 0, .share = params.top_p, .whole = false};
    narrow<Measure::kMass>(team, tokens, cut, goal, window);
    cut = crossing<Measure::kMass>(team, tokens, window, goal.want);
  }
  return cut;
}

/// What was chosen; `mine`: the one thread of the cluster that writes it.
struct Choice {
  int id;
  std::uint32_t flags;
  bool mine;
};

/// Chooses by the largest logit, or by a draw.
__device__ Choice choose(Team& team, const met::SampleArgs& args, const met::SampleRow& work,
                         const met::SampleParams& params, Part& part) {
  const bool first = team.rank == 0 && threadIdx.x == 0;
  const bool greedy = (params.modes & met::kSampleGreedy) != 0;
  const Processors by = processors_of(args, work, params);
  unsigned non_finite = 0;
  Order best;
  if (greedy && by.none()) {
    best = largest_logit(team, part, non_finite);
  } else {
    remove_and_bias(part, by);
    const Best seen = penalized_keys(part, by);
    non_finite = seen.non_finite;
    best = team.largest(seen.order(), non_finite);
  }
  std::uint32_t flags = non_finite != 0 ? met::kSampleNonFinite : 0;
  if (best == 0) {
    flags |= met::kSampleEmpty;
    if (by.mask || by.allowed || work.position < params.end_position) {
      part.fetch_again();
      unsigned unused = 0;
      best = largest_logit(team, part, unused);
    }
    return {best == 0 ? 0 : id_in(best), flags, first};
  }
  if (greedy) return {id_in(best), flags, first};
  const Tokens tokens{.keys = reinterpret_cast<const unsigned*>(part.values),
                      .first = part.first,
                      .size = part.size,
                      .max = value_of(key_in(best)),
                      .scale = params.inverse_temperature};
  const Order cut = cut_of(team, tokens, params);
  const int id = draw(team, tokens, cut,
                      uniform(params.seed, static_cast<std::uint32_t>(work.position),
                              static_cast<std::uint32_t>(params.choice)));
  return {id, flags, id >= 0};
}

/// Writes what was chosen; one thread of the cluster.
__device__ void write_choice(const met::SampleArgs& args, int entry, const met::SampleRow& work,
                             std::uint32_t modes, int id, std::uint32_t flags) {
  if (id < 0 || id >= args.vocabulary) {
    flags |= met::kSampleOutOfRange;
    id = 0;
  }
  args.outcomes[entry] = {id, flags};
  args.fed[work.device_row] = id;
  if (flags == 0 && (modes & met::kSampleCounts) != 0) ++args.counts[work.device_row * args.vocabulary + id];
}

/// log-softmax of the model's logits at `id` and at the k best.
__device__ void log_probabilities(Team& team, const met::SampleRow& work, const Part& part, int id,
                                  met::SampleLogprobs* out, met::SampleTopIds* out_ids) {
  const Best seen = raw_keys(part);
  unsigned unused = 0;
  const Order best = team.largest(seen.order(), unused);
  const Tokens tokens{.keys = reinterpret_cast<const unsigned*>(part.values),
                      .first = part.first,
                      .size = part.size,
                      .max = best == 0 ? 0.0F : value_of(key_in(best)),
                      .scale = 1.0F};
  mass_by_stretch(team, tokens, kLowest, stretch_of(tokens));
  const double log_total = static_cast<double>(tokens.max) +
                           log(static_cast<double>(team.shared.totals[0]) / static_cast<double>(kMassUnit));
  const auto logprob = [&](float l) { return static_cast<float>(static_cast<double>(l) - log_total); };
  unsigned n = 0;
  if (work.logprobs > 0) {
    Goal goal{.want = static_cast<Word>(min(work.logprobs, met::kSampleTopMax)), .share = 0, .whole = true};
    Window window;
    if (!narrow<Measure::kCount>(team, tokens, kLowest, goal, window)) window = {kLowest, ~Order{0}, 0};
    n = collect(team, tokens, window);
  }
  if (team.rank != 0) return;
  const int count = min(work.logprobs, static_cast<int>(n));
  if (threadIdx.x < n) {
    const Order mine = team.shared.list[threadIdx.x];
    int better = 0;
    for (unsigned i = 0; i < n; ++i) better += team.shared.list[i] > mine;
    if (better < count) {
      out_ids->ids[better] = id_in(mine);
      out->top[better] = logprob(value_of(key_in(mine)));
    }
  }
  if (threadIdx.x != 0) return;
  out_ids->count = count;
  out->chosen = logprob(part.finish(part.logits[id]));  // block 0's part begins at token 0
}

/// Scale and soft cap in place, for a row that the host samples.
__device__ void finish_in_place(const Part& part) {
  if (part.scale == 1.0F && part.softcap == 0.0F) return;
  part.each([&](int i, float4 four) {
    const float v[kVector] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int lane = 0; lane < kVector; ++lane)
      if (i + lane < part.size) part.logits[i + lane] = v[lane];
  });
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads,
                                        2) void sample(const __grid_constant__ met::SampleArgs args) {
  __shared__ Shared shared;
  extern __shared__ float4 part_values[];
  launch_dependents();
  if (threadIdx.x == 0) {
    shared.list_size = 0;
    for (auto& piece : shared.pieces) barrier_init(shared_address(&piece), 1);
    barrier_init_fence();
  }
  cluster_arrive();
  // Uploaded before the step began: no kernel writes them.
  const int row = static_cast<int>(blockIdx.x) / kBlocks;
  const met::SampleStep step = *args.step;
  const met::SampleRow work = args.rows[row];
  wait_for_producers();
  cluster_wait();
  if (row >= step.rows) return;
  const int entry = step.outcomes_begin + row;
  Team team{shared, cluster_rank()};
  Part part = part_of(args, work.logits, team.rank, reinterpret_cast<float*>(part_values),
                      shared_address(shared.pieces));
  part.fetch();
  const met::SampleParams& params = args.params[work.device_row];
  int id = work.given;
  if (id < 0) {
    if ((params.modes & met::kSampleOnHost) != 0) {
      part.each([](int, float4) {});  // a block must not end while copies into it are under way
      return finish_in_place(part);
    }
    const Choice choice = choose(team, args, work, params, part);
    if (choice.mine) write_choice(args, entry, work, params.modes, choice.id, choice.flags);
    if (work.logprobs < 0) return;
    // All blocks must know whether the row is flagged, and the one that has token 0 the id.
    if (choice.mine) team.tell(static_cast<Word>(choice.flags) << 32 | static_cast<unsigned>(choice.id));
    cluster_sync();
    if (shared.answer >> 32 != 0) return;
    id = static_cast<int>(static_cast<unsigned>(shared.answer));
    part.fetch_again();
  }
  log_probabilities(team, work, part, id, args.logprobs + entry, args.top_ids + entry);
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
