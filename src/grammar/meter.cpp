#include "grammar/meter.h"

#include <malloc.h>

#include <ctime>
#include <new>

#include "core/error.h"

namespace met::grammar {
namespace {

/// Allocations between two looks at the clock.
constexpr int kLookEvery = 64;

struct Account {
  bool open = false;
  int until_look = 0;
  std::int64_t deadline_us = 0;
  std::int64_t bytes_left = 0;
};
thread_local Account account;

std::int64_t thread_cpu_us() {
  std::timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

void charge(std::size_t bytes) {
  Account& a = account;
  if (!a.open) return;
  a.bytes_left -= static_cast<std::int64_t>(bytes);
  if (a.bytes_left < 0 && !std::uncaught_exceptions()) throw OverBudget(true);
  if (--a.until_look > 0) return;
  a.until_look = kLookEvery;
  if (thread_cpu_us() > a.deadline_us && !std::uncaught_exceptions()) throw OverBudget(false);
}

void release(void* memory) {
  if (account.open && memory != nullptr)
    account.bytes_left += static_cast<std::int64_t>(malloc_usable_size(memory));
}

}  // namespace

Budget::Budget(std::int64_t cpu_us, std::size_t bytes) {
  MET_CHECK(!account.open, "budgets do not nest");
  account = {.open = true,
             .until_look = kLookEvery,
             .deadline_us = thread_cpu_us() + cpu_us,
             .bytes_left = static_cast<std::int64_t>(bytes)};
}

Budget::~Budget() { account.open = false; }

}  // namespace met::grammar

// The engine's calls of operator new and delete, renamed when its archive was made (cmake/xgrammar.cmake).
extern "C" {

void* met_metered_new(std::size_t bytes) {
  met::grammar::charge(bytes);
  return ::operator new(bytes);
}
void* met_metered_new_array(std::size_t bytes) {
  met::grammar::charge(bytes);
  return ::operator new[](bytes);
}
void met_metered_delete(void* memory) noexcept {
  met::grammar::release(memory);
  ::operator delete(memory);
}
void met_metered_delete_array(void* memory) noexcept {
  met::grammar::release(memory);
  ::operator delete[](memory);
}
void met_metered_delete_sized(void* memory, std::size_t bytes) noexcept {
  met::grammar::release(memory);
  ::operator delete(memory, bytes);
}
void met_metered_delete_array_sized(void* memory, std::size_t bytes) noexcept {
  met::grammar::release(memory);
  ::operator delete[](memory, bytes);
}
}
