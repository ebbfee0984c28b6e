// The sizes of a family target, as the build tool generates them: none, so that kernels read their arguments.
#pragma once

namespace met::target {

constexpr bool kExact = false;
constexpr int kHeads = 0;
constexpr int kKvHeads = 0;
constexpr int kHeadDim = 0;

}  // namespace met::target
