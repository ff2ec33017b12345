// The steps of a GPU's ladder that streams' shares get.
#include "device/cuda/slices/placement.h"

#include <gtest/gtest.h>

#include <random>

namespace itif::device::cuda {
namespace {

using Runs = std::vector<Run>;
using Percents = std::vector<double>;

TEST(SlicePlacement, RoundsSharesToSteps) {
  EXPECT_EQ(place(Percents{100}, 8), (Runs{{0, 8}}));
  EXPECT_EQ(place(Percents{50, 50}, 8), (Runs{{0, 4}, {4, 4}}));
  EXPECT_EQ(place(Percents{30, 70}, 8), (Runs{{0, 2}, {2, 6}}));
  EXPECT_EQ(place(Percents{30}, 8), (Runs{{0, 2}}));
  EXPECT_EQ(place(Percents{40, 30, 20, 10}, 8), (Runs{{0, 3}, {3, 2}, {5, 2}, {7, 1}}));
}

TEST(SlicePlacement, GivesTheSmallestShareAStep) {
  EXPECT_EQ(place(Percents{99, 1}, 8), (Runs{{0, 7}, {7, 1}}));
  EXPECT_EQ(place(Percents{1, 1, 1, 97}, 8), (Runs{{0, 1}, {1, 1}, {2, 1}, {3, 5}}));
}

TEST(SlicePlacement, ShrinksSharesOfMoreThanTheDevice) {
  EXPECT_EQ(place(Percents{100, 100}, 8), (Runs{{0, 4}, {4, 4}}));
  EXPECT_EQ(place(Percents{150, 50}, 8), (Runs{{0, 6}, {6, 2}}));
}

TEST(SlicePlacement, LetsStreamsUseStepsTogetherIfThereAreTooFew) {
  EXPECT_EQ(place(Percents{40, 40, 20}, 2), (Runs{{0, 1}, {1, 1}, {0, 1}}));
}

TEST(SlicePlacement, IsDisjointForAnyShares) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    const uint32_t num_steps = 2 + random() % 12;
    Percents percents(1 + random() % num_steps);
    for (double& percent : percents) percent = 0.1 + random() % 1000 / 7.0;
    uint32_t next = 0;
    for (const cuda::Run& run : place(percents, num_steps)) {
      EXPECT_EQ(run.first, next);
      EXPECT_GE(run.count, 1u);
      next += run.count;
    }
    EXPECT_LE(next, num_steps);
  }
}

}  // namespace
}  // namespace itif::device::cuda
