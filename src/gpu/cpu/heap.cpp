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

void ask_for_huge_pages([[maybe_unused]] void* begin, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__)
  madvise(begin, bytes, MADV_HUGEPAGE);
#endif
}

// AddressSanitizer sees the ends of allocations that are its own.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSlabs = false;
#else
constexpr bool kSlabs = true;
#endif

}  // namespace

Heap::~Heap() {
  ledger_.log_leaks("cpu");
  for (const Ledger::Entry& entry : ledger_.live()) give_back(entry.address);
}

void* Heap::take_from_slab(std::size_t bytes) {
  const std::size_t size = (bytes + kAlign - 1) / kAlign * kAlign;
  const std::lock_guard lock(mutex_);
  if (slabs_.empty() || slabs_.back().used + size > kSlabBytes) {
    auto* begin = static_cast<std::byte*>(std::aligned_alloc(kHugePage, kSlabBytes));
    if (begin == nullptr) return nullptr;
    ask_for_huge_pages(begin, kSlabBytes);
    slabs_.push_back({begin});
  }
  Slab& slab = slabs_.back();
  std::byte* const taken = slab.begin + slab.used;
  slab.used += size;
  ++slab.live;
  return taken;
}

/// False: the pointer is not of a slab.
bool Heap::give_to_slab(std::byte* pointer) {
  const std::lock_guard lock(mutex_);
  const auto slab = std::ranges::find_if(slabs_, [pointer](const Slab& candidate) {
    return candidate.begin <= pointer && pointer < candidate.begin + kSlabBytes;
  });
  if (slab == slabs_.end()) return false;
  if (--slab->live == 0) {
    std::free(slab->begin);
    slabs_.erase(slab);
  }
  return true;
}

void Heap::give_back(std::uint64_t address) {
  if (!give_to_slab(at(address))) std::free(at(address - guard_));
}

Result<DevicePtr> Heap::allocate(std::size_t bytes, std::string_view site, bool dense) {
  const std::size_t body = std::max<std::size_t>(bytes, 1);
  const std::size_t align = dense && body >= kHugeFrom && guard_ == 0 ? kHugePage : kAlign;
  const std::size_t slack = 2 * guard_ + align;
  void* raw = nullptr;
  if (kSlabs && dense && guard_ == 0 && body >= kSlabFrom && body < kHugeFrom) raw = take_from_slab(body);
  const std::size_t whole = (body + slack - 1) / align * align;
  if (raw == nullptr && body <= read_memory().total && body + slack > body)
    raw = std::aligned_alloc(align, whole);
  if (raw == nullptr)
    return fail(ErrorCode::kResourceExhausted,
                "no memory for " + std::to_string(bytes) + " bytes of '" + std::string(site) + "'");
  // The rounded size: what begins in the last huge page would lie in small ones otherwise.
  if (align == kHugePage) ask_for_huge_pages(raw, whole);
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
  give_back(entry->address);
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
