// Sizes of the model: constants in an exact target, the launch's arguments in a family target.
#pragma once

#include "target.h"

namespace {

/// Values of a head.
template <class Args>
inline int head_dim(const Args& args) {
  return met::target::kExact ? met::target::kHeadDim : args.head_dim;
}

/// Query heads that share a kv head.
template <class Args>
inline int group_of(const Args& args) {
  constexpr int kKvHeads = met::target::kExact ? met::target::kKvHeads : 1;
  return met::target::kExact ? met::target::kHeads / kKvHeads : args.heads / args.kv_heads;
}

}  // namespace
