// Who owns how much device memory: every live allocation with its site. Safe from any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/backend.h"

namespace met::gpu {

class Ledger {
 public:
  struct Entry {
    std::uint64_t address = 0;
    std::size_t bytes = 0;
    std::string site;
  };

  void add(std::uint64_t address, std::size_t bytes, std::string_view site);
  /// Takes out the allocation that begins at `address`; nothing if none does.
  std::optional<Entry> remove(std::uint64_t address);
  /// The live allocation that holds `address`, interior addresses included.
  std::optional<Entry> find(std::uint64_t address) const;

  /// Refuses a range that begins in a live allocation and leaves it, or begins at 0. Memory that is in no
  /// allocation (a mapped file) passes.
  Result<> check_range(std::uint64_t address, std::size_t bytes) const;

  std::vector<Entry> live() const;
  std::vector<SiteUse> uses() const;  ///< sorted by site
  std::size_t live_bytes() const;

  /// Logs what is still alive, one line a site: at the end of a backend these are leaks.
  void log_leaks(std::string_view backend) const;

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, Entry> live_;
  std::map<std::string, SiteUse, std::less<>> uses_;
};

/// The uses as a table: site, live bytes, count, peak.
std::string ledger_table(const std::vector<SiteUse>& uses);

}  // namespace met::gpu
