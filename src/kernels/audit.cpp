#include "kernels/audit.h"

#include <algorithm>

#include "core/json.h"
#include "kernels/resolve.h"

namespace met::kernels {
namespace {

const AbsentKernel* find_absent(std::span<const AbsentKernel> rows, const KernelAudit::Lookup& lookup) {
  const auto it = std::ranges::find_if(rows, [&](const AbsentKernel& row) {
    return row.module == lookup.module && row.kernel == lookup.function;
  });
  return it == rows.end() ? nullptr : &*it;
}

std::string describe(const Target& target, const KernelAudit::Lookup& lookup) {
  std::string out = lookup.module + "." + lookup.function + ", asked for at " + lookup.site;
  if (const AbsentKernel* dropped = find_absent(target.dropped_by_shadow, lookup))
    out += " (dropped by a shadow: " + std::string(dropped->reason) + ")";
  return out;
}

}  // namespace

void KernelAudit::record(std::string_view module, std::string_view function, bool found,
                         const std::source_location& site) {
  const auto it = std::ranges::find_if(
      lookups_, [&](const Lookup& lookup) { return lookup.module == module && lookup.function == function; });
  if (it != lookups_.end()) {
    ++it->count;
    return;
  }
  lookups_.push_back({std::string(module), std::string(function),
                      std::string(site.file_name()) + ":" + std::to_string(site.line()), 1, found});
}

std::vector<const KernelAudit::Lookup*> KernelAudit::unresolved(const Target& target) const {
  std::vector<const Lookup*> out;
  for (const Lookup& lookup : lookups_)
    if (!lookup.found && find_absent(target.expected_absent, lookup) == nullptr) out.push_back(&lookup);
  return out;
}

Result<> KernelAudit::check(const Target& target, bool allowed) const {
  const auto missing = unresolved(target);
  if (missing.empty() || allowed) return {};
  std::string lines;
  for (const Lookup* lookup : missing) lines += "\n  " + describe(target, *lookup);
  return unsupported("--kernel-target", "target " + full_name(target) + " lacks " +
                                            std::to_string(missing.size()) +
                                            " kernels that the model needs:" + lines);
}

std::string KernelAudit::report(const Target& target) const {
  std::string out;
  const auto missing = unresolved(target);
  json::Array names;
  for (const Lookup& lookup : lookups_) {
    const AbsentKernel* expected = find_absent(target.expected_absent, lookup);
    out += lookup.found ? "found    " : expected ? "expected " : "MISSING  ";
    out += describe(target, lookup) + "\n";
  }
  for (const Lookup* lookup : missing) names.push_back(lookup->module + "." + lookup->function);
  json::Object counts{{"target", full_name(target)},
                      {"lookups", lookups_.size()},
                      {"unresolved", missing.size()},
                      {"missing", std::move(names)},
                      {"closure", target.closure_hash}};
  return out + json::write(json::Object{{"metrale_kernel_check", std::move(counts)}}) + "\n";
}

int KernelAudit::exit_status(const Target& target) const {
  return static_cast<int>(std::min<std::size_t>(unresolved(target).size(), 255));
}

}  // namespace met::kernels
