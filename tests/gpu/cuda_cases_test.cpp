// The cases that gpu_cuda_check runs on a device can all be planned there: an H200's numbers on the mock.
#include <gtest/gtest.h>

#include "gpu/mock/mock_backend.h"
#include "tests/gpu/cuda_check/check.h"

namespace met::gpu::check {
namespace {

class CudaCases : public testing::TestWithParam<CaseGroup> {};

TEST_P(CudaCases, CanBePlanned) {
  mock::MockBackend device({.multiprocessors = 132, .shared_memory_max = 232448});
  const auto cases = GetParam().make(device, false);
  ASSERT_TRUE(cases) << cases.error().message;
}

INSTANTIATE_TEST_SUITE_P(Groups, CudaCases, testing::ValuesIn(kGroups),
                         [](const auto& group) { return std::string(group.param.name); });

}  // namespace
}  // namespace met::gpu::check
