// Sleeping on a 32-bit word. Linux: futex; elsewhere the standard library's wait.
#pragma once

#include <atomic>
#include <cstdint>

#if defined(__linux__)
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#endif

namespace met::gpu::cpu {

/// Sleeps while `word` is `seen`. May return early.
inline void futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t seen) {
#if defined(__linux__)
  static_assert(sizeof(word) == sizeof(std::uint32_t));
  syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, nullptr, nullptr, 0);
#else
  word.wait(seen, std::memory_order_seq_cst);
#endif
}

inline void futex_wake_all(std::atomic<std::uint32_t>& word) {
#if defined(__linux__)
  syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
#else
  word.notify_all();
#endif
}

/// Tells the core that this is a spin loop.
inline void cpu_relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

}  // namespace met::gpu::cpu
