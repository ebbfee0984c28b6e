#include "kernelc/jobs.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <mutex>
#include <set>
#include <thread>

#include "closure/entries.h"
#include "closure/schema.h"

namespace met::kernelc {
namespace {

namespace fs = std::filesystem;
using closure::Vendor;

/// Entry points of an object, without the suffix. Errors: forbidden symbols, no entry at all.
Result<std::vector<std::string>> read_entries(const Job& job, const fs::path& object) {
  std::set<std::string> names;
  if (job.vendor == Vendor::kCpu || job.vendor == Vendor::kNvidia) {
    MET_ASSIGN(const std::vector<Symbol> symbols, defined_symbols(object));
    if (job.vendor == Vendor::kCpu)
      if (const auto wrong = check_cpu_symbols(symbols, job.suffix); !wrong.empty()) {
        std::string all;
        for (const std::string& one : wrong) all += (all.empty() ? "" : "\n  ") + one;
        return invalid(job.source, all);
      }
    for (const Symbol& symbol : symbols)
      if (job.vendor == Vendor::kCpu || (symbol.function && symbol.cuda_entry))
        names.insert(symbol.name.substr(0, symbol.name.size() - job.suffix.size()));
  } else {
    MET_ASSIGN(const std::string text,
               closure::read_text(job.commands.front().folder / *(job.commands.front().argv.end() - 3)));
    names = closure::entry_points(text);
  }
  if (names.empty()) return invalid(job.source, "has no entry point (" + job.arch + ")");
  return std::vector<std::string>(names.begin(), names.end());
}

/// Compiles one job into the cache. Returns what to print; empty: it went well.
std::string compile(const Job& job) {
  std::string said;
  for (const Command& command : job.commands) {
    const Outcome outcome = run(command);
    said += outcome.output;
    if (outcome.status == 0) continue;
    return "FAILED (exit " + std::to_string(outcome.status) + "): " + to_string(command) + "\n" + said;
  }
  std::error_code error;
  if (const auto entries = read_entries(job, job.fresh); !entries) {
    fs::remove(job.fresh, error);
    return "FAILED: " + entries.error().field + ": " + entries.error().message + "\n" + said;
  }
  fs::rename(job.fresh, job.object, error);
  return error ? "FAILED: " + job.object.string() + ": " + error.message() + "\n" : "";
}

/// One line for each hardware whose compiler is not here.
void report_absent(const Plan& plan, const std::vector<const Job*>& absent, std::ostream& log) {
  std::set<std::pair<Vendor, std::string>> told;
  for (const Job* job : absent) {
    if (!told.emplace(job->vendor, job->arch).second) continue;
    log << "toolchain absent: " << closure::name(job->vendor) << " (" << job->arch
        << "): " << job->commands.front().argv.front() << " is not on this machine; it would run, in "
        << job->commands.front().folder.string() << ":\n";
    for (const Job& other : plan.jobs)
      if (other.vendor == job->vendor && other.arch == job->arch)
        for (const Command& command : other.commands) log << "  " << to_string(command) << "\n";
  }
}

int run_all(const std::vector<const Job*>& jobs, int threads, std::ostream& log) {
  std::atomic<std::size_t> next = 0;
  std::atomic<int> failures = 0;
  std::mutex log_lock;
  const auto work = [&] {
    for (std::size_t i = next++; i < jobs.size(); i = next++) {
      const std::string said = compile(*jobs[i]);
      if (said.empty()) continue;
      ++failures;
      const std::lock_guard lock(log_lock);
      log << jobs[i]->source << " (" << jobs[i]->arch << "): " << said << "\n";
    }
  };
  std::vector<std::jthread> pool;
  for (int i = 0; i < threads; ++i) pool.emplace_back(work);
  pool.clear();
  return failures;
}

}  // namespace

std::vector<std::string> check_cpu_symbols(const std::vector<Symbol>& symbols, const std::string& suffix) {
  std::vector<std::string> wrong;
  for (const Symbol& symbol : symbols) {
    if (symbol.binding == Binding::kGlobal && symbol.function && symbol.name.ends_with(suffix)) continue;
    const char* how = symbol.binding == Binding::kWeak     ? "weak"
                      : symbol.binding == Binding::kUnique ? "unique"
                                                           : "global";
    wrong.push_back("symbol " + symbol.name + " is " + how +
                    ": only entries may be visible, put it into an anonymous namespace");
  }
  return wrong;
}

Result<Entries> run_jobs(const Plan& plan, const Options& options, std::ostream& log) {
  std::vector<const Job*> missing;
  std::vector<const Job*> absent;
  for (const Job& job : plan.jobs) {
    if (!job.compiler_present)
      absent.push_back(&job);
    else if (!fs::exists(job.object))
      missing.push_back(&job);
  }
  std::error_code error;
  fs::create_directories(options.cache, error);
  const int hardware_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  const int threads =
      std::min<int>(options.jobs > 0 ? options.jobs : hardware_threads, static_cast<int>(missing.size()));
  const auto begin = std::chrono::steady_clock::now();
  const int failures = run_all(missing, threads, log);
  const auto ms =
      std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);
  log << plan.jobs.size() << " jobs, " << missing.size() << " compiled in " << ms.count() << " ms\n";
  report_absent(plan, absent, log);
  if (failures > 0)
    return fail(ErrorCode::kInternal, std::to_string(failures) + " of " + std::to_string(plan.jobs.size()) +
                                          " kernels failed to compile");
  if (!absent.empty())
    return fail(ErrorCode::kUnavailable,
                std::to_string(absent.size()) +
                    " kernels need a toolchain that is absent; leave their hardware out of MET_TARGET_HW");
  Entries entries;
  for (const Job& job : plan.jobs) {
    MET_ASSIGN(auto names, read_entries(job, job.object));
    entries.push_back(std::move(names));
  }
  return entries;
}

}  // namespace met::kernelc
