// How a CPU kernel is called. C++20, no dependencies: kernel sources and the CPU backend include it.
//
// A kernel is an `extern "C"` function that every thread of the pool enters at once with the same arguments.
// It divides the work itself, by `thread` and `threads` or through `met_next`. A result must not depend on
// who computes it.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

/// One thread's view of a running launch.
struct MetCpuContext {
  std::int32_t thread;  ///< 0 … threads - 1
  std::int32_t threads;
  void* scratch;  ///< this thread's own memory, 64-byte aligned, contents undefined
  std::size_t scratch_bytes;
  void (*barrier)(const MetCpuContext*);  ///< returns when all threads of the launch have called it
  std::int64_t (*next)(const MetCpuContext*,
                       std::int64_t count);  ///< claims `count` work items; returns the first
  void* pool;                                ///< owned by the backend
};

/// `args` points to the launch's arguments, laid out as a C struct of the same members in launch order.
using MetCpuKernel = void (*)(const void* args, const MetCpuContext* context);

}  // extern "C"

/// Work items shared by all threads of a launch: the counter starts at 0 for every launch and only grows, so
/// a kernel with two phases gives the second one item numbers after the first's.
inline std::int64_t met_next(const MetCpuContext* c, std::int64_t count) { return c->next(c, count); }
inline void met_barrier(const MetCpuContext* c) { c->barrier(c); }

// The build compiles a kernel source once per instruction set and target and gives each compilation its own
// suffix, so that one binary holds them all. Everything in the file but its entries lives in an anonymous
// namespace: an inline symbol shared with another compilation could bring instructions that the running CPU
// lacks.
#ifndef MET_KERNEL_SUFFIX
#define MET_KERNEL_SUFFIX
#endif
#define MET_KERNEL_JOIN_(a, b) a##b
#define MET_KERNEL_JOIN(a, b) MET_KERNEL_JOIN_(a, b)
#define MET_CPU_KERNEL(name, Args)                                                                       \
  static void name##_body(const Args& args, const MetCpuContext* ctx);                                   \
  extern "C" void MET_KERNEL_JOIN(name, MET_KERNEL_SUFFIX)(const void* args, const MetCpuContext* ctx) { \
    name##_body(*static_cast<const Args*>(args), ctx);                                                   \
  }                                                                                                      \
  static void name##_body(const Args& args, const MetCpuContext* ctx)
