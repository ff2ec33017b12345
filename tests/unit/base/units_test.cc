#include "base/units.h"

#include <gtest/gtest.h>

namespace itif {
namespace {

TEST(Units, ParsesDurations) {
  EXPECT_EQ(parse_duration_ns("25ms").value(), 25'000'000u);
  EXPECT_EQ(parse_duration_ns("1.5s").value(), 1'500'000'000u);
  EXPECT_EQ(parse_duration_ns("250 us").value(), 250'000u);
  EXPECT_EQ(parse_duration_ns("0ns").value(), 0u);
  for (const char* text : {"", "s", "0x10ms", "1e3ms", "+5s", "-5s", " 5s", "5s ", "infs", "nans"})
    EXPECT_FALSE(parse_duration_ns(text)) << text;
}

TEST(Units, ErrorsForWrongDurationsQuoteTheText) {
  for (const char* text : {"", "ms", "25", "25 parsecs", "-1s", "nans", "1e40s"}) {
    const auto result = parse_duration_ns(text);
    ASSERT_FALSE(result) << text;
    EXPECT_EQ(result.error().code, Code::kInvalidArgument);
    EXPECT_NE(result.error().message.find(std::string("'") + text + "'"), std::string::npos);
  }
}

TEST(Units, ParsesSizes) {
  EXPECT_EQ(parse_bytes("65536").value(), 65536u);
  EXPECT_EQ(parse_bytes("64KiB").value(), 65536u);
  EXPECT_EQ(parse_bytes("2GiB").value(), 2147483648u);
  EXPECT_FALSE(parse_bytes("2 gibi"));
}

TEST(Units, FormattingPicksTheUnit) {
  EXPECT_EQ(format_duration_ns(25'000'000), "25.0 ms");
  EXPECT_EQ(format_duration_ns(999), "999 ns");
  EXPECT_EQ(format_bytes(1536), "1.50 KiB");
}

}  // namespace
}  // namespace itif
