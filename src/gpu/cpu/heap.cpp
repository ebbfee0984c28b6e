#include "gpu/cpu/heap.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "gpu/cpu/topology.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace met::gpu::cpu {
namespace {

constexpr unsigned char kPoison = 0xA7;

std::byte* at(std::uint64_t address) { return reinterpret_cast<std::byte*>(address); }

bool poisoned(std::uint64_t address, std::size_t bytes) {
  const std::byte* band = at(address);
  return std::all_of(band, band + bytes, [](std::byte b) { return b == std::byte{kPoison}; });
}

}  // namespace

Heap::~Heap() {
  ledger_.log_leaks("cpu");
  for (const Ledger::Entry& entry : ledger_.live()) std::free(at(entry.address - guard_));
}

Result<DevicePtr> Heap::allocate(std::size_t bytes, std::string_view site, bool dense) {
  const std::size_t body = std::max<std::size_t>(bytes, 1);
  const std::size_t align = dense && body >= kHugeFrom && guard_ == 0 ? kHugePage : kAlign;
  const std::size_t slack = 2 * guard_ + align;
  void* raw = nullptr;
  if (body <= read_memory().total && body + slack > body)
    raw = std::aligned_alloc(align, (body + slack - 1) / align * align);
  if (raw == nullptr)
    return fail(ErrorCode::kResourceExhausted,
                "no memory for " + std::to_string(bytes) + " bytes of '" + std::string(site) + "'");
#if defined(__linux__)
  if (align == kHugePage) madvise(raw, body, MADV_HUGEPAGE);
#endif
  const auto address = reinterpret_cast<std::uint64_t>(raw) + guard_;
  std::memset(raw, kPoison, guard_);
  std::memset(at(address + body), kPoison, guard_);
  ledger_.add(address, body, site);
  return DevicePtr{address};
}

void Heap::free(DevicePtr pointer) {
  if (!pointer) return;
  const auto entry = ledger_.remove(pointer.value);
  MET_CHECK(entry.has_value(), "freed an address that no allocation begins at");
  std::free(at(entry->address - guard_));
}

Result<> Heap::check_redzones() const {
  if (guard_ == 0) return {};
  for (const Ledger::Entry& entry : ledger_.live()) {
    const bool before = poisoned(entry.address - guard_, guard_);
    const bool after = poisoned(entry.address + entry.bytes, guard_);
    if (!before || !after)
      return fail(ErrorCode::kInternal, "the " + std::string(before ? "end" : "begin") + " of '" +
                                            entry.site + "' (" + std::to_string(entry.bytes) +
                                            " bytes) was overrun");
  }
  return {};
}

}  // namespace met::gpu::cpu
