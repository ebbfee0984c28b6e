// From a choice to a backend.
#include "gpu/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "gpu/cuda/driver.h"
#include "gpu/registry.h"

namespace met::gpu {
namespace {

using testing::HasSubstr;

const kernels::Hardware kCpuHardware{
    .name = "cpu", .vendor = "cpu", .arch = "", .sm_count = 0, .defaults = {}};
const kernels::Hardware kHopper{
    .name = "hopper", .vendor = "nvidia", .arch = "sm_90a", .sm_count = 132, .defaults = {}};

kernels::Target target_for(const kernels::Hardware& hardware) {
  kernels::Target target{};
  target.hardware = &hardware;
  target.model = "llama";
  target.quant = "bf16";
  return target;
}

TEST(Device, ParsesChoices) {
  struct Case {
    const char* text;
    DeviceKind kind;
    int ordinal;
  };
  for (const Case& c : {Case{"auto", DeviceKind::kAuto, 0}, Case{"cpu", DeviceKind::kCpu, 0},
                        Case{"cuda", DeviceKind::kCuda, 0}, Case{"cuda:3", DeviceKind::kCuda, 3},
                        Case{"mock", DeviceKind::kMock, 0}}) {
    const auto choice = parse_device(c.text);
    ASSERT_TRUE(choice.has_value()) << c.text;
    EXPECT_EQ(choice->kind, c.kind) << c.text;
    EXPECT_EQ(choice->ordinal, c.ordinal) << c.text;
  }
  for (const char* text : {"", "gpu", "cuda:", "cuda:x", "cuda:-1", "cuda:1 ", "CPU", "cuda:99999999999"}) {
    const auto choice = parse_device(text);
    ASSERT_FALSE(choice.has_value()) << text;
    EXPECT_EQ(choice.error().field, "device");
  }
}

TEST(Device, OpensTheCpuWithTheThreadsAsked) {
  const kernels::Target target = target_for(kCpuHardware);
  EXPECT_EQ(hardware_of({.kind = DeviceKind::kCpu}).value(), "cpu");
  const auto gpu = open_backend({.kind = DeviceKind::kAuto, .threads = 3, .isa = "generic"}, target);
  ASSERT_TRUE(gpu.has_value()) << gpu.error().message;
  EXPECT_EQ((*gpu)->info().hardware, "cpu");
  EXPECT_EQ((*gpu)->info().arch, "generic");
  EXPECT_EQ((*gpu)->info().multiprocessors, 3);
}

TEST(Device, RefusesATargetOfAnotherDevice) {
  const kernels::Target target = target_for(kHopper);
  const auto gpu = open_backend({.kind = DeviceKind::kCpu}, target);
  ASSERT_FALSE(gpu.has_value());
  EXPECT_THAT(gpu.error().message, HasSubstr("hopper"));
}

TEST(Device, RefusesAnUnknownInstructionSet) {
  const kernels::Target target = target_for(kCpuHardware);
  EXPECT_FALSE(open_backend({.isa = "mmx"}, target).has_value());
}

TEST(Device, WithoutADriverCudaSaysSoAndAutoTakesTheCpu) {
  if (cuda::open_driver()) GTEST_SKIP() << "this machine has a CUDA driver";
  const kernels::Target target = target_for(kHopper);
  const auto gpu = open_backend({.kind = DeviceKind::kCuda}, target);
  ASSERT_FALSE(gpu.has_value());
  EXPECT_EQ(gpu.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(gpu.error().message, HasSubstr("no CUDA driver"));
  EXPECT_EQ(hardware_of({}).value(), "cpu");
  EXPECT_FALSE(hardware_of({.kind = DeviceKind::kCuda}).has_value());
}

TEST(Device, DriverErrorsKeepTheirKind) {
  EXPECT_EQ(cuda::code_of(2), ErrorCode::kResourceExhausted);
  EXPECT_EQ(cuda::code_of(500), ErrorCode::kNotFound);
  EXPECT_EQ(cuda::code_of(700), ErrorCode::kDevice) << "illegal address";
  EXPECT_EQ(cuda::code_of(719), ErrorCode::kDevice) << "launch failed";
  EXPECT_EQ(cuda::code_of(900), ErrorCode::kInternal) << "unsupported in a capture";
  EXPECT_EQ(cuda::code_of(1), ErrorCode::kInternal);
}

TEST(Registry, LoadsAndUnloadsModels) {
  const kernels::Target target = target_for(kCpuHardware);
  Registry registry;
  const DeviceChoice choice{.kind = DeviceKind::kCpu, .threads = 1, .isa = "generic"};
  const auto gpu = registry.load("smollm2", choice, target);
  ASSERT_TRUE(gpu.has_value());
  EXPECT_FALSE(registry.load("smollm2", choice, target).has_value());
  const DevicePtr p = (*gpu)->allocate(100, "weights").value();
  ASSERT_EQ(registry.entries().size(), 1U);
  EXPECT_EQ(registry.entries()[0].target, "cpu/llama/bf16");
  EXPECT_EQ(registry.entries()[0].live_bytes, 100U);
  EXPECT_EQ(registry.find("smollm2"), *gpu);
  EXPECT_EQ(registry.find("other"), nullptr);
  (*gpu)->free(p);
  registry.unload("smollm2");
  EXPECT_TRUE(registry.entries().empty());
}

}  // namespace
}  // namespace met::gpu
