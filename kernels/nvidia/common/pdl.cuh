// Programmatic dependent launch: a kernel starts while the one in front of it ends, fetches what nobody writes,
// and waits before it touches the rest. Without the launch attribute both calls do nothing.
#pragma once

namespace {

/// The next kernel of the stream may start now. Every kernel of a step calls it first thing.
__device__ inline void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

/// Returns when all kernels in front have ended and their writes are visible. Every block executes it, before it
/// reads what they wrote and before it writes what they may still read.
__device__ inline void wait_for_producers() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

}  // namespace
