// Memory of the CPU backend: aligned, accounted by site, with guard bands on request.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "gpu/ledger.h"

namespace met::gpu::cpu {

class Heap {
 public:
  explicit Heap(bool redzones) : guard_(redzones ? kGuardBytes : 0) {}
  ~Heap();
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  /// `dense`: all of it will be used, so large allocations ask for huge pages.
  Result<DevicePtr> allocate(std::size_t bytes, std::string_view site, bool dense);
  void free(DevicePtr pointer);
  Result<> check_redzones() const;

  const Ledger& ledger() const { return ledger_; }

 private:
  static constexpr std::size_t kAlign = 64;
  static constexpr std::size_t kGuardBytes = 256;
  static constexpr std::size_t kHugePage = std::size_t{2} << 20;
  static constexpr std::size_t kHugeFrom = std::size_t{4} << 20;

  std::size_t guard_;
  Ledger ledger_;
};

}  // namespace met::gpu::cpu
