// What the model asked of its kernel target while it was built.
#pragma once

#include <source_location>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "kernels/table.h"

namespace met::kernels {

/// Records every look-up. Not safe from several threads: a model is built by one.
class KernelAudit {
 public:
  struct Lookup {
    std::string module;
    std::string function;
    std::string site;  ///< "file:line" of the first one that asked
    int count = 0;
    bool found = false;
  };

  void record(std::string_view module, std::string_view function, bool found,
              const std::source_location& site = std::source_location::current());

  const std::vector<Lookup>& lookups() const { return lookups_; }

  /// Look-ups that found nothing and that the target's [expected_absent] does not name.
  std::vector<const Lookup*> unresolved(const Target& target) const;

  /// Refuses the start where something is unresolved, with one line a kernel: who asked, and whether a shadow
  /// dropped it. `allowed`: --dangerously-allow-unresolved-kernel-lookups.
  Result<> check(const Target& target, bool allowed = false) const;

  /// The report of `met serve --check-kernels`: a line a look-up, then one line of JSON,
  /// {"metrale_kernel_check": …}. Its exit status is the count of unresolved ones, at most 255.
  std::string report(const Target& target) const;
  int exit_status(const Target& target) const;

 private:
  std::vector<Lookup> lookups_;
};

}  // namespace met::kernels
