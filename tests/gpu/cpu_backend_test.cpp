// What only the CPU backend does: choice by instruction set, guard bands, topology files.
#include "gpu/cpu/cpu_backend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace met::gpu::cpu {
namespace {

using testing::HasSubstr;

template <int Value>
void store(const void* args, const MetCpuContext* context) {
  if (context->thread == 0) **static_cast<std::int32_t* const*>(args) = Value;
}

constexpr kernels::CpuFunction kFunctions[] = {
    {"all", {store<0>, store<1>, store<2>, store<3>}},
    {"gaps", {store<0>, nullptr, store<2>, nullptr}},
    {"late", {nullptr, nullptr, store<2>, nullptr}},
};
constexpr kernels::Module kModules[] = {{"stores", kFunctions, {}, {}}};

kernels::Target target() {
  kernels::Target t{};
  t.modules = kModules;
  return t;
}

TEST(CpuBackend, TakesTheBestFunctionNotAboveTheInstructionSet) {
  const kernels::Target t = target();
  struct Case {
    CpuIsa isa;
    const char* function;
    int want;  // -1: unresolved
  };
  using enum CpuIsa;
  for (const Case& c : {Case{kGeneric, "all", 0},
                        {kAvx2, "all", 1},
                        {kAvx512, "all", 2},
                        {kAmx, "all", 3},
                        {kAvx2, "gaps", 0},
                        {kAvx512, "gaps", 2},
                        {kAmx, "gaps", 2},
                        {kAvx2, "late", -1},
                        {kAmx, "late", 2}}) {
    CpuBackend gpu(t, c.isa, {.pool = {.threads = 1}});
    const auto kernel = gpu.kernel("stores", c.function);
    ASSERT_EQ(kernel.has_value(), c.want >= 0) << c.function << ' ' << gpu.info().arch;
    if (!kernel) continue;
    std::int32_t got = -1;
    KernelLaunch launch(*kernel);
    launch.buffer({reinterpret_cast<std::uint64_t>(&got)});
    ASSERT_TRUE(gpu.launch(launch, gpu.default_stream()).has_value());
    EXPECT_EQ(got, c.want) << c.function << ' ' << gpu.info().arch;
  }
}

TEST(CpuBackend, RedzonesNameTheOwnerOfAnOverrun) {
  const kernels::Target t = target();
  for (const std::ptrdiff_t offset : {-1, 100}) {
    CpuBackend gpu(t, CpuIsa::kGeneric, {.pool = {.threads = 1}, .redzones = true});
    const auto p = gpu.allocate(100, "logits");
    ASSERT_TRUE(p.has_value());
    ASSERT_TRUE(gpu.check_redzones().has_value());
    auto* byte = reinterpret_cast<char*>(p->value) + offset;
    const char before = *byte;
    *byte = 0;
    const auto found = gpu.check_redzones();
    ASSERT_FALSE(found.has_value());
    EXPECT_THAT(found.error().message, HasSubstr("logits"));
    *byte = before;
    gpu.free(*p);
  }
}

TEST(CpuBackend, LargeAllocationsAreAlignedToHugePages) {
  const kernels::Target t = target();
  CpuBackend gpu(t, CpuIsa::kGeneric, {.pool = {.threads = 1}});
  const auto p = gpu.allocate(std::size_t{5} << 20, "weights");
  ASSERT_TRUE(p.has_value());
  EXPECT_EQ(p->value % (std::size_t{2} << 20), 0U);
  gpu.free(*p);
  const auto sparse = gpu.allocate_sparse(std::size_t{64} << 20, "kv pool");
  ASSERT_TRUE(sparse.has_value());
  EXPECT_EQ(gpu.allocations()[0].live_bytes, std::size_t{64} << 20);
  gpu.free(*sparse);
}

/// End of the mapping that `address` lies in, if it asks for huge pages, else 0.
std::uint64_t huge_mapping_end(std::uint64_t address) {
  std::ifstream maps("/proc/self/smaps");
  std::uint64_t end = 0;
  for (std::string line; std::getline(maps, line);) {
    std::uint64_t first = 0;
    std::uint64_t last = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64 " ", &first, &last) == 2)
      end = first <= address && address < last ? last : 0;
    if (end != 0 && line.starts_with("VmFlags:")) return line.find(" hg") != std::string::npos ? end : 0;
  }
  return 0;
}

TEST(CpuBackend, TheLastBytesOfALargeAllocationLieInAHugePageToo) {
  if (!std::filesystem::exists("/sys/kernel/mm/transparent_hugepage"))
    GTEST_SKIP() << "no transparent huge pages here";
  const kernels::Target t = target();
  CpuBackend gpu(t, CpuIsa::kGeneric, {.pool = {.threads = 1}});
  const auto p = gpu.allocate(std::size_t{5} << 20, "weights");
  ASSERT_TRUE(p.has_value());
  EXPECT_GE(huge_mapping_end(p->value + (std::size_t{5} << 20) - 1), p->value + (std::size_t{6} << 20));
  gpu.free(*p);
}

TEST(CpuBackend, MatricesShareHugePages) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "AddressSanitizer keeps allocations apart";
#endif
  const kernels::Target t = target();
  CpuBackend gpu(t, CpuIsa::kGeneric, {.pool = {.threads = 1}});
  constexpr std::size_t kBytes = 345'600;  // many of them fill more than one stretch
  std::vector<DevicePtr> matrices;
  for (int i = 0; i < 200; ++i) {
    const auto p = gpu.allocate(kBytes, "weights");
    ASSERT_TRUE(p.has_value());
    ASSERT_EQ(p->value % 64, 0U);
    std::memset(reinterpret_cast<void*>(p->value), i, kBytes);
    matrices.push_back(*p);
  }
  EXPECT_EQ(matrices[0].value % (std::size_t{2} << 20), 0U);
  int neighbours = 0;
  for (std::size_t i = 0; i < matrices.size(); ++i) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(matrices[i].value);
    EXPECT_EQ(bytes[0], i);
    EXPECT_EQ(bytes[kBytes - 1], i);
    if (i > 0) neighbours += matrices[i].value == matrices[i - 1].value + kBytes;
  }
  EXPECT_GE(neighbours, 190);
  for (const DevicePtr& p : matrices) gpu.free(p);
  const auto again = gpu.allocate(kBytes, "weights");
  ASSERT_TRUE(again.has_value());
  gpu.free(*again);
}

class TopologyTest : public testing::Test {
 protected:
  void SetUp() override {
    root_ = std::filesystem::temp_directory_path() /
            (std::string("met_topology_") + std::to_string(::getpid()) +
             testing::UnitTest::GetInstance()->current_test_info()->name());
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void put(const std::string& path, const std::string& text) {
    const std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  std::filesystem::path root_;
};

TEST_F(TopologyTest, QuotaIsTheSmallestOnTheWayUp) {
  put("proc/self/cgroup", "0::/a/b\n");
  put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
  put("sys/fs/cgroup/cpu.max", "400000 100000\n");
  const Topology t = read_topology(root_);
  EXPECT_DOUBLE_EQ(t.quota, 1.5);
  EXPECT_EQ(t.default_threads(), 1);
}

TEST_F(TopologyTest, QuotaOfTheFirstVersion) {
  put("proc/self/cgroup", "4:memory:/job\n1:cpu,cpuacct:/job\n0::/\n");
  put("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "200000\n");
  put("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(read_topology(root_).quota, 2.0);
}

TEST_F(TopologyTest, SiblingsComeLast) {
  const int cpus = static_cast<int>(read_topology().cpus.size());
  for (int cpu = 0; cpu < cpus; ++cpu)
    put("sys/devices/system/cpu/cpu" + std::to_string(read_topology().cpus[cpu]) +
            "/topology/thread_siblings_list",
        "0-1\n");
  const Topology t = read_topology(root_);
  EXPECT_EQ(static_cast<int>(t.cpus.size()), cpus);
  EXPECT_EQ(t.cores, 1);
  EXPECT_EQ(t.default_threads(), 1);
}

TEST_F(TopologyTest, MemoryIsTheSmallerOfSystemAndCgroup) {
  put("proc/meminfo", "MemTotal:       8000000 kB\nMemFree: 1 kB\nMemAvailable:   6000000 kB\n");
  EXPECT_EQ(read_memory(root_).total, std::size_t{8000000} * 1024);
  EXPECT_EQ(read_memory(root_).free, std::size_t{6000000} * 1024);
  put("proc/self/cgroup", "0::/box\n");
  put("sys/fs/cgroup/box/memory.max", "1000000000\n");
  put("sys/fs/cgroup/box/memory.current", "700000000\n");
  put("sys/fs/cgroup/box/memory.stat", "anon 5\ninactive_file 200000000\n");
  EXPECT_EQ(read_memory(root_).total, 1000000000U);
  EXPECT_EQ(read_memory(root_).free, 500000000U);
}

TEST(Topology, ThisMachineHasACpuAndAName) {
  const Topology t = read_topology();
  EXPECT_FALSE(t.cpus.empty());
  EXPECT_FALSE(t.name.empty());
  EXPECT_GE(t.default_threads(), 1);
  EXPECT_LE(t.default_threads(), static_cast<int>(t.cpus.size()));
}

}  // namespace
}  // namespace met::gpu::cpu
