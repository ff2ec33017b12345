#include "base/random.h"

#include <gtest/gtest.h>

namespace itif {
namespace {

TEST(Random, SameSeedSameSequence) {
  Random a(7), b(7), c(8);
  EXPECT_EQ(a.next(), b.next());
  EXPECT_NE(a.next(), c.next());
}

TEST(Random, MomentsAreRight) {
  Random random(3);
  double uniform = 0, normal = 0, square = 0, exponential = 0;
  const int n = 200'000;
  for (int i = 0; i < n; ++i) {
    uniform += random.uniform();
    const double z = random.normal();
    normal += z;
    square += z * z;
    exponential += random.exponential();
  }
  EXPECT_NEAR(uniform / n, 0.5, 0.005);
  EXPECT_NEAR(normal / n, 0, 0.01);
  EXPECT_NEAR(square / n, 1, 0.02);
  EXPECT_NEAR(exponential / n, 1, 0.01);
}

TEST(Random, BelowReachesEveryValueInRangeOnly) {
  Random random(4);
  bool seen[7] = {};
  for (int i = 0; i < 1000; ++i) seen[random.below(7)] = true;
  for (bool s : seen) EXPECT_TRUE(s);
}

}  // namespace
}  // namespace itif
