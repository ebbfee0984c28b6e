#include "gpu/cpu/topology.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace met::gpu::cpu {
namespace {

constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

std::string read_file(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// The first number of a file; nothing when it is missing or says "max" or "-1".
std::optional<std::size_t> read_number(const std::string& path) {
  const std::string text = read_file(path);
  std::size_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end == text.data()) return std::nullopt;
  return value;
}

/// A row of a "key value" table such as meminfo ("MemTotal:  123 kB") or memory.stat.
std::optional<std::size_t> table_value(const std::string& table, const std::string& key) {
  std::istringstream lines(table);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string word;
    std::size_t value = 0;
    if (words >> word && word == key && words >> value) return value;
  }
  return std::nullopt;
}

/// The directories of this process's cgroup for a controller, innermost first. Inside a container the path
/// may lie outside what is mounted, so the mount itself is always the last.
std::vector<std::string> cgroup_directories(const std::string& root, const std::string& controller,
                                            bool unified) {
  std::istringstream lines(read_file(root + "/proc/self/cgroup"));
  std::vector<std::string> found;
  const std::string mount = root + "/sys/fs/cgroup" + (unified ? "" : "/" + controller);
  for (std::string line; std::getline(lines, line);) {
    const std::size_t first = line.find(':');
    const std::size_t second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string names = "," + line.substr(first + 1, second - first - 1) + ",";
    if (unified ? names != ",," : names.find("," + controller + ",") == std::string::npos) continue;
    for (std::string path = line.substr(second + 1); path.size() > 1; path.resize(path.rfind('/')))
      found.push_back(mount + path);
  }
  found.push_back(mount);
  return found;
}

double read_quota(const std::string& root) {
  double quota = 0;
  const auto take = [&](double limit) { quota = quota == 0 ? limit : std::min(quota, limit); };
  for (const std::string& directory : cgroup_directories(root, "cpu", true)) {
    std::istringstream words(read_file(directory + "/cpu.max"));
    double limit = 0;
    double period = 0;
    if (words >> limit >> period && limit > 0 && period > 0) take(limit / period);
  }
  for (const std::string& directory : cgroup_directories(root, "cpu", false)) {
    const auto limit = read_number(directory + "/cpu.cfs_quota_us");
    const auto period = read_number(directory + "/cpu.cfs_period_us");
    if (limit && period && *limit > 0 && *period > 0)
      take(static_cast<double>(*limit) / static_cast<double>(*period));
  }
  return quota;
}

std::vector<int> read_affinity() {
  std::vector<int> cpus;
#if defined(__linux__)
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) == 0)
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
      if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
#endif
  if (cpus.empty())
    for (unsigned cpu = 0; cpu < std::max(1U, std::thread::hardware_concurrency()); ++cpu)
      cpus.push_back(static_cast<int>(cpu));
  return cpus;
}

/// The mask that the process had when it first asked: a thread that pins itself later does not shrink it.
const std::vector<int>& affinity() {
  static const std::vector<int> cpus = read_affinity();
  return cpus;
}

std::string cpu_name() {
#if defined(__x86_64__)
  unsigned words[12] = {};
  if (__get_cpuid_max(0x80000000U, nullptr) >= 0x80000004U) {
    for (unsigned i = 0; i < 3; ++i)
      __get_cpuid(0x80000002U + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]);
    const char* text = reinterpret_cast<const char*>(words);
    std::string name(text, std::find(text, text + sizeof words, '\0'));
    const std::size_t begin = name.find_first_not_of(' ');
    const std::size_t end = name.find_last_not_of(' ');
    if (begin != std::string::npos) return name.substr(begin, end - begin + 1);
  }
  return "x86-64";
#elif defined(__aarch64__)
  return "aarch64";
#else
  return "cpu";
#endif
}

/// The cgroup's limit and what is left of it, page cache that can be dropped counted as free.
void apply_memory_limit(MemoryInfo& memory, std::optional<std::size_t> limit, std::optional<std::size_t> used,
                        std::size_t reclaimable) {
  if (!limit || *limit >= memory.total) return;
  memory.total = *limit;
  const std::size_t taken = used.value_or(0) - std::min(used.value_or(0), reclaimable);
  memory.free = std::min(memory.free, *limit - std::min(*limit, taken));
}

}  // namespace

int Topology::default_threads() const {
  int threads = cores;
  if (quota > 0) threads = std::min(threads, static_cast<int>(std::floor(quota + 0.05)));
  return std::max(1, threads);
}

Topology read_topology(const std::string& root) {
  Topology topology;
  topology.name = cpu_name();
  topology.quota = read_quota(root);
  std::vector<int> later;
  std::set<std::string> cores;
  for (const int cpu : affinity()) {
    const std::string siblings = read_file(root + "/sys/devices/system/cpu/cpu" + std::to_string(cpu) +
                                           "/topology/thread_siblings_list");
    const bool first = cores.insert(siblings.empty() ? std::to_string(cpu) : siblings).second;
    (first ? topology.cpus : later).push_back(cpu);
  }
  topology.cores = static_cast<int>(topology.cpus.size());
  topology.cpus.insert(topology.cpus.end(), later.begin(), later.end());
  return topology;
}

MemoryInfo read_memory(const std::string& root) {
  const std::string table = read_file(root + "/proc/meminfo");
  MemoryInfo memory;
  memory.total = table_value(table, "MemTotal:").value_or(0) * 1024;
  memory.free = table_value(table, "MemAvailable:").value_or(0) * 1024;
  if (memory.total == 0) memory = {kUnlimited, kUnlimited};
  for (const std::string& directory : cgroup_directories(root, "memory", true))
    apply_memory_limit(memory, read_number(directory + "/memory.max"),
                       read_number(directory + "/memory.current"),
                       table_value(read_file(directory + "/memory.stat"), "inactive_file").value_or(0));
  for (const std::string& directory : cgroup_directories(root, "memory", false))
    apply_memory_limit(memory, read_number(directory + "/memory.limit_in_bytes"),
                       read_number(directory + "/memory.usage_in_bytes"),
                       table_value(read_file(directory + "/memory.stat"), "total_inactive_file").value_or(0));
  return memory;
}

}  // namespace met::gpu::cpu
