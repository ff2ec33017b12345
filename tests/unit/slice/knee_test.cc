#include "slice/knee.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

namespace itif::slice {
namespace {

// Throughput rises in proportion up to `at`, and not at all past it.
std::vector<SharePoint> curve(double at) {
  std::vector<SharePoint> points;
  for (int percent = 5; percent <= 100; percent += 5)
    points.push_back({static_cast<double>(percent), std::min<double>(percent, at)});
  return points;
}

TEST(Knee, IsTheShareThatIsEnoughForAllButTheThreshold) {
  EXPECT_EQ(knee_percent(curve(30), 0), 30);
  EXPECT_EQ(knee_percent(curve(30), 0.2), 25);  // 30 / 25 = 1.2
  EXPECT_EQ(knee_percent(curve(30), 0.19), 30);
  EXPECT_EQ(knee_percent(curve(100), 0.1), 95);
  EXPECT_EQ(knee_percent(curve(100), 0), 100);
}

TEST(Knee, ALuckySmallShareIsNoKnee) {
  std::vector<SharePoint> points = curve(60);
  points[2].throughput = 60;  // of 15 %, but 20 % has 20
  EXPECT_EQ(knee_percent(points, 0), 60);
}

// Other programs slowed the measurement of the whole device.
TEST(Knee, ADisturbedCurveBoundsNothing) {
  const std::vector<SharePoint> points = {{30, 567}, {70, 2108}, {80, 1726}, {100, 622}};
  EXPECT_EQ(knee_percent(points, 0.1), 100);
  const std::vector<SharePoint> slower = {{30, 2000}, {70, 2108}, {80, 1726}, {100, 2100}};
  EXPECT_EQ(knee_percent(slower, 0.1), 100);
}

TEST(Knee, OneShareIsItsOwnKnee) {
  const SharePoint one = {40, 7};
  EXPECT_EQ(knee_percent({&one, 1}, 0.1), 40);
  EXPECT_EQ(knee_percent({}, 0.1), 0);
}

// More shares never lower the throughput that a knee promises.
TEST(Knee, PromisesItsPartOfTheThroughput) {
  for (int seed = 0; seed < 200; ++seed) {
    std::vector<SharePoint> points;
    uint32_t state = 12345u + static_cast<uint32_t>(seed);
    double throughput = 1;
    for (int percent = 10; percent <= 100; percent += 10) {
      state = state * 1664525u + 1013904223u;
      throughput += static_cast<double>(state >> 24) / 64;
      points.push_back({static_cast<double>(percent), throughput});
    }
    const double knee = knee_percent(points, 0.1);
    for (const SharePoint& point : points)
      EXPECT_EQ(point.percent >= knee, point.throughput * 1.1 >= throughput) << seed;
  }
}

}  // namespace
}  // namespace itif::slice
