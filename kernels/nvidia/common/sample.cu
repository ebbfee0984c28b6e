// One id a row of logits: the token that src/sampling chooses for the same row, parameters and position.
//
// Formula  docs/sampling.md, steps 1, 3 to 6, 9 to 11, 14, 16, 17, 19, as SampleParams has them; D1 to D3. Weights are
//          ex2.approx, summed as integers in units of 2^-44: an id depends on nothing else in the batch, and differs
//          from the reference's only where u or p fall within the rounding of a sum (some 1e-7 of the mass).
// Shapes   SampleArgs. Rows beyond step->rows write nothing.
// Writes   its outcome, fed[device row], counts[device row][id] where the row counts (not when flagged),
//          log-probabilities where asked for and the row is not flagged.
// Launch   sample: a cluster of 8 blocks of 512 threads a row, dependent. Dynamic shared memory: 4 bytes for each token
//          of a block's eighth of the vocabulary.
// Cost     a greedy row is read once: bound by memory. A drawn row is read once too, and passed over in shared memory:
//          once, or three times with top k, four with top p.
#include "met/cuda_ops.h"
#include "pdl.cuh"
#include "sample_select.cuh"

namespace {

/// The last token that top k keeps, where block 0's list does not hold them all.
__device__ Order cut_by_rank(Team team, const Tokens& tokens, const BinScale& scale, const BinRun& run,
                             unsigned k) {
  if (run.count <= kListMax) {
    const unsigned n = collect_bins(team, tokens, scale, run.begin, run.end);
    return crossing<Measure::kCount>(team, tokens, n, run.before, k);
  }
  const Narrowed narrowed = narrow<Measure::kCount>(team, tokens, kLowest, k, 0, false);
  if (narrowed.all) return kLowest;
  const unsigned n = collect(team, tokens, narrowed.window);
  return crossing<Measure::kCount>(team, tokens, n, narrowed.window.above, k);
}

/// The last token of those from `cut` on that top p keeps.
__device__ Order cut_by_share(Team team, const Tokens& tokens, const BinScale& scale, double share,
                              Order cut) {
  const BinRun run = bins_around_share(team.shared, scale, tokens.scale, share, scale.bin(key_in(cut)));
  Word all = 0;
  Word above = 0;
  for (int i = static_cast<int>(threadIdx.x) * kVector; i < tokens.size; i += kThreads * kVector) {
    const uint4 four = *reinterpret_cast<const uint4*>(tokens.keys + i);
    const unsigned keys[kVector] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int lane = 0; lane < kVector; ++lane) {
      const Order order = order_of(keys[lane], static_cast<unsigned>(tokens.first + i + lane));
      const Word mass = order >= cut ? tokens.mass(keys[lane]) : 0;
      const int bin = scale.bin(keys[lane]);
      all += mass;
      above += bin < run.begin ? mass : 0;
      if (order >= cut && bin >= run.begin && bin < run.end) gather(team.shared, order);
    }
  }
  all = warp_sum(all);
  above = warp_sum(above);
  __syncthreads();
  if (threadIdx.x % 32 == 0) {
    Word* partial = team.shared.partial[threadIdx.x / 32];
    partial[0] = all;
    partial[1] = above;
    partial[2] = threadIdx.x == 0 ? own_count(team.shared) : 0;
  }
  const unsigned listed = deliver(team, team.exchange<3>(Add{}), 2);
  const Word want = share_of(share, team.shared.totals[0]);
  const Order found = crossing<Measure::kMass>(team, tokens, listed, team.shared.totals[1], want);
  if (found != 0) return found;
  const Narrowed narrowed = narrow<Measure::kMass>(team, tokens, cut, 0, share, false);
  const unsigned n = collect(team, tokens, narrowed.window);
  return crossing<Measure::kMass>(team, tokens, n, narrowed.window.above, narrowed.want);
}

/// Top k, min p, top p and the draw; the one thread that found the token gets its id, all others -1.
__device__ __noinline__ int draw_token(Team team, const met::SampleParams& params, std::int32_t position,
                                       Part part, Extent extent, int vocabulary) {
  const Tokens tokens = tokens_of(part, extent, params.inverse_temperature);
  const double u =
      uniform(params.seed, static_cast<std::uint32_t>(position), static_cast<std::uint32_t>(params.choice));
  Order cut = kLowest;
  if ((params.modes & met::kSampleMinP) != 0) {
    const auto least = static_cast<float>(static_cast<double>(tokens.max) + params.min_p_offset);
    cut = max(cut, order_of(key_of(fminf(least, tokens.max)), kAll));
  }
  if (params.top_k > 0 || params.top_p < 1.0) {
    const BinScale scale = bins_of(extent, kFarAway / params.inverse_temperature);
    count_bins(team, tokens, scale);
    if (params.top_k > 0) {
      const auto k = static_cast<unsigned>(min(params.top_k, vocabulary));
      const BinRun run = bin_of_rank(team.shared, k);
      // The last bin's tokens have no mass: whether they are kept does not matter.
      if (run.begin < kBins - 1) {
        if (run.before + run.count <= kListMax) {
          const unsigned n = collect_bins(team, tokens, scale, 0, run.end);
          return draw_from_list(team, tokens, n, params, cut, u);
        }
        cut = max(cut, cut_by_rank(team, tokens, scale, run, k));
      }
    }
    if (params.top_p < 1.0) cut = cut_by_share(team, tokens, scale, params.top_p, cut);
  }
  return draw(team, tokens, cut, u);
}

/// What was chosen; `mine`: the one thread of the cluster that writes it.
struct Choice {
  int id;
  std::uint32_t flags;
  bool mine;
};

/// Chooses by the largest logit, or by a draw.
__device__ Choice choose(Team team, const met::SampleArgs& args, const met::SampleRow& work,
                         const met::SampleParams& params, Part& part) {
  const bool first = team.rank == 0 && threadIdx.x == 0;
  const bool greedy = (params.modes & met::kSampleGreedy) != 0;
  const Processors by = processors_of(args, work, params);
  Extent extent;
  if (by.none()) {
    extent = greedy ? largest_logit(team, part) : extent_of(team, raw_keys(part));
  } else {
    remove_and_bias(part, by);
    extent = extent_of(team, penalized_keys(part, by));
  }
  std::uint32_t flags = extent.non_finite ? met::kSampleNonFinite : 0;
  if (extent.largest == 0) {
    flags |= met::kSampleEmpty;
    if (by.mask || by.allowed || work.position < params.end_position) {
      part.fetch_again();
      extent = largest_logit(team, part);
    }
    return {extent.largest == 0 ? 0 : id_in(extent.largest), flags, first};
  }
  if (greedy) return {id_in(extent.largest), flags, first};
  const int id = draw_token(team, params, work.position, part, extent, static_cast<int>(args.vocabulary));
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

/// Brings the k best of the model's logits into block 0's list, others among them. Returns how many.
__device__ unsigned collect_best(Team team, const Tokens& tokens, const Extent& extent, unsigned k) {
  constexpr float kReach = 64;
  const BinScale scale = bins_of(extent, kReach);
  count_bins(team, tokens, scale);
  const BinRun run = bin_of_rank(team.shared, k);
  if (run.begin < kBins - 1 && run.before + run.count <= kListMax)
    return collect_bins(team, tokens, scale, 0, run.end);
  Narrowed narrowed = narrow<Measure::kCount>(team, tokens, kLowest, k, 0, true);
  if (narrowed.all) narrowed.window = {kLowest, ~Order{0}, 0};
  return collect(team, tokens, narrowed.window);
}

/// How many of the row's tokens have a larger logit.
__device__ __noinline__ unsigned count_above(Team team, const Tokens& tokens, float logit) {
  unsigned above = 0;
  for (int i = static_cast<int>(threadIdx.x) * kVector; i < tokens.size; i += kThreads * kVector) {
    const uint4 four = *reinterpret_cast<const uint4*>(tokens.keys + i);
    const unsigned keys[kVector] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (const unsigned key : keys) above += value_of(key) > logit ? 1U : 0U;
  }
  above = __reduce_add_sync(kAll, above);
  if (threadIdx.x % 32 == 0) team.shared.partial[threadIdx.x / 32][0] = above;
  team.exchange<1>(Add{});
  return static_cast<unsigned>(team.shared.totals[0]);
}

/// log-softmax of the model's logits at `id` and at the k best, and the rank of `id`.
__device__ __noinline__ void log_probabilities(Team team, const met::SampleArgs& args,
                                               const met::SampleRow& work, Part part, int id, int entry) {
  const Extent extent = extent_of(team, raw_keys(part));
  if (extent.largest == 0) return;
  const Tokens tokens = tokens_of(part, extent, 1.0F);
  const float own = part.finish(part.logits[id - part.first]);
  const unsigned above = count_above(team, tokens, own);
  mass_by_stretch(team, tokens, kLowest, stretch_of(tokens));
  const double total = static_cast<double>(team.shared.totals[0]) / static_cast<double>(kMassUnit);
  const double log_total = static_cast<double>(tokens.max) + log(total);
  const auto logprob = [&](float l) { return static_cast<float>(static_cast<double>(l) - log_total); };
  const int k = min(min(work.logprobs, met::kSampleTopMax), static_cast<int>(args.vocabulary));
  const unsigned n = k > 0 ? collect_best(team, tokens, extent, static_cast<unsigned>(k)) : 0;
  if (team.rank != 0) return;
  met::SampleTopIds& top = args.top_ids[entry];
  met::SampleLogprobs& out = args.logprobs[entry];
  const int count = min(k, static_cast<int>(n));
  const Candidate c = candidate<Measure::kCount>(team.shared, tokens, n);
  if (c.has && c.rank < static_cast<unsigned>(count)) {
    top.ids[c.rank] = id_in(c.order);
    out.top[c.rank] = logprob(value_of(key_in(c.order)));
  }
  if (threadIdx.x != 0) return;
  top.count = count;
  top.rank = static_cast<std::int32_t>(above) + 1;
  out.chosen = logprob(own);
}

/// Scale and soft cap in place, for a row that the host samples.
__device__ void finish_in_place(const Part& part) {
  const bool changes = part.scale != 1.0F || part.softcap != 0.0F;
  part.each([&](int i, float4 four) {
    const float v[kVector] = {four.x, four.y, four.z, four.w};
#pragma unroll
    for (int lane = 0; lane < kVector; ++lane)
      if (changes && i + lane < part.size) part.logits[i + lane] = v[lane];
  });
}

/// One row; its logits are on their way.
__device__ void sample_row(Team team, const met::SampleArgs& args, const met::SampleRow& work,
                           const met::SampleParams& params, Part& part, int entry) {
  int id = work.given;
  if (id < 0) {
    if ((params.modes & met::kSampleOnHost) != 0) return finish_in_place(part);
    const Choice choice = choose(team, args, work, params, part);
    if (choice.mine) write_choice(args, entry, work, params.modes, choice.id, choice.flags);
    if (work.logprobs < 0) return;
    // All blocks must know whether the row is flagged, and the one that has token 0 the id.
    if (choice.mine) team.tell(static_cast<Word>(choice.flags) << 32 | static_cast<unsigned>(choice.id));
    const Word answer = team.hear();
    if (answer >> 32 != 0) return;
    id = static_cast<int>(static_cast<unsigned>(answer));
    part.fetch_again();
  }
  log_probabilities(team, args, work, part, id, entry);
}

__device__ Part part_of(const met::SampleArgs& args, int row, unsigned rank, float* values,
                        std::uint32_t barriers) {
  const auto vocabulary = static_cast<int>(args.vocabulary);
  const int first = min(part_size(args) * static_cast<int>(rank), vocabulary);
  return Part{.logits = args.logits + row * args.vocabulary + first,
              .values = values,
              .first = first,
              .size = min(part_size(args), vocabulary - first),
              .aligned = vocabulary % kVector == 0,
              .scale = args.scale,
              .softcap = args.softcap,
              .barriers = barriers,
              .parity = 0};
}

__device__ void init(Shared& shared) {
  shared.own_size = 0;
  shared.exchanges = 0;
  for (Mailbox* box : {&shared.exchanged[0], &shared.exchanged[1], &shared.answered, &shared.listed,
                       &shared.counted, &shared.summed}) {
    barrier_init(shared_address(&box->barrier), 1);
    box->rounds = 0;
  }
  for (auto& piece : shared.pieces) barrier_init(shared_address(&piece), 1);
  barrier_init_fence();
}

}  // namespace

extern "C" __global__ __launch_bounds__(kThreads,
                                        2) void sample(const __grid_constant__ met::SampleArgs args) {
  __shared__ Shared shared;
  extern __shared__ float4 values[];
  launch_dependents();
  // Uploaded before the step began: no kernel writes them.
  const int row = static_cast<int>(blockIdx.x) / kBlocks;
  const met::SampleStep step = *args.step;
  const met::SampleRow work = args.rows[row];
  if (threadIdx.x == 0) init(shared);
  cluster_arrive_relaxed();
  wait_for_producers();
  if (row >= step.rows) return;
  const Team team{shared, cluster_rank()};
  Part part =
      part_of(args, work.logits, team.rank, reinterpret_cast<float*>(values), shared_address(shared.pieces));
  part.fetch();
  constexpr unsigned kParamWords = sizeof(met::SampleParams) / sizeof(std::uint32_t);
  if (threadIdx.x < kParamWords)
    reinterpret_cast<std::uint32_t*>(&shared.params)[threadIdx.x] =
        reinterpret_cast<const std::uint32_t*>(args.params + work.device_row)[threadIdx.x];
  cluster_wait();
  __syncthreads();
  sample_row(team, args, work, shared.params, part, step.outcomes_begin + row);
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
