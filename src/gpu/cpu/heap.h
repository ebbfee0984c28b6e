// Memory of the CPU backend: aligned, accounted by site, with guard bands on request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "gpu/ledger.h"

namespace met::gpu::cpu {

class Heap {
 public:
  explicit Heap(bool redzones) : guard_(redzones ? kGuardBytes : 0) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /// `dense`: all of it will be used, so it lies in huge pages: large ones in their own, others of kSlabFrom bytes on one
  /// behind the other in slabs.
  Result<DevicePtr> allocate(std::size_t bytes, std::string_view site, bool dense);
  void free(DevicePtr pointer);
  Result<> check_redzones() const;

  const Ledger& ledger() const { return ledger_; }

 private:
  /// Memory whose pages dense allocations share; given back with the last of them.
  struct Slab {
    std::byte* begin = nullptr;
    std::size_t used = 0;
    std::size_t live = 0;
  };

  void* take_from_slab(std::size_t bytes);
  bool give_to_slab(std::byte* pointer);
  void give_back(std::uint64_t address);

  static constexpr std::size_t kAlign = 64;
  static constexpr std::size_t kGuardBytes = 256;
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;
  static constexpr std::size_t kHugeFrom = std::size_t{4} << 20;
  static constexpr std::size_t kSlabFrom = std::size_t{64} << 10;
  static constexpr std::size_t kSlabBytes = std::size_t{32} << 20;

  std::size_t guard_;
  Ledger ledger_;
  std::mutex mutex_;
  std::vector<Slab> slabs_;  // mutex_; the last one is being filled
};

}  // namespace met::gpu::cpu
