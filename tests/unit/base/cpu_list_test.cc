#include "base/cpu_list.h"

#include <gtest/gtest.h>

namespace itif {
namespace {

using Cpus = std::vector<unsigned>;

TEST(CpuList, FormatsRanges) {
  EXPECT_EQ(format_cpus({}), "");
  EXPECT_EQ(format_cpus(Cpus{3}), "3");
  EXPECT_EQ(format_cpus(Cpus{0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
}

TEST(CpuList, ParsesListsAndRanges) {
  EXPECT_EQ(*parse_cpus("3"), Cpus{3});
  EXPECT_EQ(*parse_cpus("7-8,0-2,5,1"), (Cpus{0, 1, 2, 5, 7, 8}));
  EXPECT_EQ(*parse_cpus("1023"), Cpus{1023});
  EXPECT_EQ(parse_cpus(format_cpus(Cpus{0, 2, 3, 9}))->size(), 4u);
}

TEST(CpuList, NamesTheWrongPart) {
  for (const char* wrong : {"", ",", "1,", "a", "-1", "1-", "3-2", "1024", "0-1024", "1 2", "0x1",
                            "1-2-3", "99999999999"}) {
    const auto cpus = parse_cpus(wrong);
    ASSERT_FALSE(cpus) << wrong;
    EXPECT_EQ(cpus.error().code, Code::kInvalidArgument);
  }
  EXPECT_EQ(parse_cpus("0,5-x").error().message,
            "'5-x' is no CPU from 0 to 1023 and no range of CPUs, such as 2-5");
}

}  // namespace
}  // namespace itif
