// The profile of a group on the CUDA device: each way to run the GEMMs of several tenants is
// measured.
#include <gtest/gtest.h>

#include "device/cuda/device.h"
#include "runtime/cost/profiler.h"
#include "support/small_group.h"

namespace itif::runtime {
namespace {

TEST(Profile, MeasuresEveryModeOfAGpu) {
  const auto device = device::open_cuda_device({.kind = "cuda", .dtype = "bf16"}).value();
  testing::SmallGroup small(*device, testing::odd_spec(),
                            {.max_tokens = 128, .max_requests = 16, .max_tenants = 6});
  SystemClock clock;
  ProfileOptions options = profile_options(*small.group);
  options.samples = 1;
  Profiler profiler(*device, clock, small.group->gemms(), "tiny", options);
  while (profiler.step(*small.stream)) {
  }
  const auto tables = profiler.finish();
  ASSERT_TRUE(tables) << tables.error().message;
  EXPECT_GT(tables->launch_ns, 0);
  EXPECT_TRUE(plan::validate(*tables));
  ASSERT_FALSE(tables->shared_gemms.empty());
  for (const plan::SharedGemm& gemm : tables->shared_gemms)
    for (const plan::SharedGemmTable& table : plan::kSharedGemmTables) {
      const std::vector<double>& costs_ns = gemm.*table.costs_ns;
      EXPECT_FALSE(costs_ns.empty()) << table.name;
      for (const double ns : costs_ns) EXPECT_GT(ns, 0) << table.name;
    }
}

}  // namespace
}  // namespace itif::runtime
