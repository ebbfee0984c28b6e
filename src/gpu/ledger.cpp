#include "gpu/ledger.h"

#include <algorithm>
#include <cstdio>

#include "core/log.h"

namespace met::gpu {

void Ledger::add(std::uint64_t address, std::size_t bytes, std::string_view site) {
  const std::lock_guard lock(mutex_);
  live_[address] = {address, bytes, std::string(site)};
  auto found = uses_.find(site);
  if (found == uses_.end())
    found = uses_.emplace(std::string(site), SiteUse{.site = std::string(site)}).first;
  SiteUse& use = found->second;
  use.live_bytes += bytes;
  ++use.live_count;
  ++use.total_count;
  use.peak_bytes = std::max(use.peak_bytes, use.live_bytes);
}

std::optional<Ledger::Entry> Ledger::remove(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = live_.find(address);
  if (found == live_.end()) return std::nullopt;
  Entry entry = std::move(found->second);
  live_.erase(found);
  SiteUse& use = uses_.find(entry.site)->second;
  use.live_bytes -= entry.bytes;
  --use.live_count;
  return entry;
}

std::optional<Ledger::Entry> Ledger::find(std::uint64_t address) const {
  const std::lock_guard lock(mutex_);
  auto after = live_.upper_bound(address);
  if (after == live_.begin()) return std::nullopt;
  const Entry& entry = std::prev(after)->second;
  if (address - entry.address >= entry.bytes) return std::nullopt;
  return entry;
}

Result<> Ledger::check_range(std::uint64_t address, std::size_t bytes) const {
  if (bytes == 0) return {};
  if (address == 0)
    return fail(ErrorCode::kInternal, "copy of " + std::to_string(bytes) + " bytes at address 0");
  const auto entry = find(address);
  if (entry && bytes > entry->bytes - (address - entry->address))
    return fail(ErrorCode::kInternal, std::to_string(bytes) + " bytes at offset " +
                                          std::to_string(address - entry->address) + " leave '" +
                                          entry->site + "' (" + std::to_string(entry->bytes) + " bytes)");
  return {};
}

std::vector<Ledger::Entry> Ledger::live() const {
  const std::lock_guard lock(mutex_);
  std::vector<Entry> entries;
  entries.reserve(live_.size());
  for (const auto& [address, entry] : live_) entries.push_back(entry);
  return entries;
}

std::vector<SiteUse> Ledger::uses() const {
  const std::lock_guard lock(mutex_);
  std::vector<SiteUse> uses;
  uses.reserve(uses_.size());
  for (const auto& [site, use] : uses_) uses.push_back(use);
  return uses;
}

std::size_t Ledger::live_bytes() const {
  std::size_t bytes = 0;
  for (const SiteUse& use : uses()) bytes += use.live_bytes;
  return bytes;
}

void Ledger::log_leaks(std::string_view backend) const {
  for (const SiteUse& use : uses())
    if (use.live_count > 0)
      log::warn(std::string(backend) + ": " + std::to_string(use.live_count) + " allocations of '" +
                use.site + "' not freed, " + std::to_string(use.live_bytes) + " bytes");
}

std::string ledger_table(const std::vector<SiteUse>& uses) {
  std::string table;
  char line[160];
  std::snprintf(line, sizeof line, "%-24s %14s %6s %14s\n", "site", "live bytes", "count", "peak bytes");
  table += line;
  for (const SiteUse& use : uses) {
    std::snprintf(line, sizeof line, "%-24.64s %14zu %6zu %14zu\n", use.site.c_str(), use.live_bytes,
                  use.live_count, use.peak_bytes);
    table += line;
  }
  return table;
}

}  // namespace met::gpu
