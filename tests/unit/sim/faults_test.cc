// Some hundred seeds of faults; `itif-sim faults --seeds 10000` runs more.
#include "sim/faults.h"

#include <gtest/gtest.h>

#include "world.h"

namespace itif::sim {
namespace {

constexpr uint64_t kSeeds = 200;

TEST(Faults, InvariantsHold) {
  FaultFigures sum;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const auto figures = run_faults(seed, test::nic());
    ASSERT_TRUE(figures) << "itif-sim faults --first-seed " << seed
                         << " --seeds 1: " << figures.error().message;
    sum.add(*figures);
  }
  // Faults that do not happen find nothing.
  EXPECT_GT(sum.answered, 50 * kSeeds);
  EXPECT_GT(sum.generated, 50 * kSeeds);
  EXPECT_GT(sum.refused, kSeeds);
  EXPECT_GT(sum.lost, kSeeds);
  EXPECT_GT(sum.datagrams_damaged, kSeeds);
  EXPECT_GT(sum.device_faults, kSeeds / 4);
  EXPECT_GT(sum.tenants_added, kSeeds / 4);
  EXPECT_GT(sum.restarts, kSeeds / 8);
}

TEST(Faults, ASeedReplays) {
  EXPECT_EQ(run_faults(7, test::nic())->log_hash, run_faults(7, test::nic())->log_hash);
}

}  // namespace
}  // namespace itif::sim
