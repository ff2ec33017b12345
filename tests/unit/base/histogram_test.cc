#include "base/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/random.h"

namespace itif {
namespace {

TEST(Histogram, EmptyIsZero) {
  Histogram h;
  EXPECT_EQ(h.count(), 0u);
  EXPECT_EQ(h.percentile(99), 0u);
  EXPECT_EQ(h.min(), 0u);
}

TEST(Histogram, PercentilesMatchSortedValuesWithinAFractionOfABucket) {
  Random random(1);
  Histogram h;
  std::vector<uint64_t> values;
  for (int i = 0; i < 100'000; ++i) {
    const uint64_t v = random.next() >> (random.below(60));
    values.push_back(v);
    h.record(v);
  }
  std::sort(values.begin(), values.end());
  for (double p : {0.0, 1.0, 50.0, 90.0, 99.0, 99.9, 100.0}) {
    const size_t rank = std::max<size_t>(1, static_cast<size_t>(p / 100 * 100'000));
    const double exact = static_cast<double>(values[rank - 1]);
    const double got = static_cast<double>(h.percentile(p));
    EXPECT_GE(got, exact) << p;
    EXPECT_LE(got, exact * (1 + 1.0 / 64) + 1) << p;
  }
  EXPECT_EQ(h.max(), values.back());
  EXPECT_EQ(h.min(), values.front());
}

TEST(Histogram, MergeEqualsRecordingAll) {
  Random random(2);
  Histogram a, b, all;
  for (int i = 0; i < 1000; ++i) {
    const uint64_t v = random.below(1'000'000);
    (i % 2 ? a : b).record(v);
    all.record(v);
  }
  a.merge(b);
  EXPECT_EQ(a.count(), all.count());
  for (double p : {10.0, 50.0, 99.0}) EXPECT_EQ(a.percentile(p), all.percentile(p));
}

TEST(Histogram, ManyValuesAtOnceEqualSingleOnes) {
  Random random(3);
  Histogram at_once, one_by_one;
  std::vector<uint64_t> values;
  for (size_t round = 0; round < 20; ++round) {
    values.resize(round);  // also none
    uint64_t value = 7;
    for (uint64_t& v : values) {  // some are equal to the one before
      if (random.below(3) > 0) value = random.next() >> (12 + random.below(50));
      one_by_one.record(v = value);
    }
    at_once.record(values);
    EXPECT_EQ(at_once.count(), one_by_one.count());
    EXPECT_EQ(at_once.min(), one_by_one.min());
    EXPECT_EQ(at_once.max(), one_by_one.max());
    EXPECT_DOUBLE_EQ(at_once.mean(), one_by_one.mean());
    for (double p : {0.0, 50.0, 90.0, 99.0, 100.0})
      EXPECT_EQ(at_once.percentile(p), one_by_one.percentile(p)) << p;
  }
}

}  // namespace
}  // namespace itif
