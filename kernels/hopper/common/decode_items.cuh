// What the warps of a block of decode attention do, item after item, wherever keys and values come from.
#pragma once

#include "decode_heads.cuh"
#include "decode_join.cuh"
#include "decode_softmax.cuh"
#include "decode_work.cuh"
#include "pdl.cuh"

namespace {

/// Takes all items of the block in. `source_of` makes what brings a warp's keys and values, from its first item on, before
/// the wait:
///   expect    the next item is known, its data may be asked for
///   take_all  of this item, into `sums`
///   begin     the next item, once this one is taken in
/// Its kHeadsFirst tells whether the next item's heads are loaded ahead of this one's products, or behind them.
template <class C, class SourceOf>
__device__ void take_items(const met::DecodeAttentionArgs& args, Shared<C>& shared, int warp, int lane,
                           const SourceOf& source_of) {
  Items<C> items(args, lane);
  bool more = items.advance(shared.work[0][warp], lane);
  if (!more) {
    // One block that waits is enough for the kernel to end after those in front; the others make room.
    if (blockIdx.x + blockIdx.y == 0) wait_for_producers();
    return;
  }
  // Before the wait: everything but the new token.
  const Work* work = &shared.work[0][warp];
  auto source = source_of(*work);
  using Source = decltype(source);
  std::int64_t slot = slot_of<C>(args, *work);
  fetch_constants<C>(args.layer, shared);
  prepare_rotation<C>(args.layer, *work, shared);
  const Scores scores(args.layer);
  meet<C>();
  wait_for_producers();
  if (C::kLate) launch_dependents();
  RawHeads<C> raw;
  raw.load(args, *work, warp, lane);
  for (int turn = 1;; turn ^= 1) {
    prepare_heads<C>(args.layer, *work, raw, slot, shared, warp, lane);
    meet<C>();
    // What the next item is, and where it lies, loads behind this one's products.
    const Work* next = &shared.work[turn][warp];
    more = items.advance(shared.work[turn][warp], lane);
    source.expect(args, *next, more, warp, lane);
    const auto load_heads = [&] {
      slot = slot_of<C>(args, *next);
      raw.load(args, *next, warp, lane);
    };
    if (Source::kHeadsFirst && more) load_heads();
    Sums<C> sums;
    sums.clear();
    source.take_all(*work, scores, shared, warp, lane, sums);
    if (more) {
      source.begin(args, *next, warp, lane);
      if (!Source::kHeadsFirst) load_heads();
    }
    finish<C>(args, *work, scores, sums, shared, warp, lane);
    if (!more) break;
    prepare_rotation<C>(args.layer, *next, shared);
    work = next;
    meet<C>();
  }
}

}  // namespace
