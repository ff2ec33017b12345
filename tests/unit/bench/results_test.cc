#include "report/results.h"

#include <gtest/gtest.h>

namespace itif::bench {
namespace {

constexpr const char* kMachine =
    R"("machine": {"cpu": "a CPU", "cpus": 2, "memory_bytes": 1073741824,
  "kernel": "Linux 6"})";

std::string document(const std::string& rows, const std::string& more = "") {
  return std::string(R"({"bench": "b", "commit": "c1", "device": "host", )") + kMachine + more +
         ", \"rows\": [" + rows + "]}";
}

TEST(Results, ReadsTheOutputOfABench) {
  const auto results = parse_results(document(
      R"({"case": "x, 2 tenants", "mode": "seq", "value": 1.5, "unit": "ms", "spread": 0.25,
                   "limit": 1, "limit_spread": 0.5, "ratio": 1.5, "paper": 6.9, "paper_to": 13},
                  {"case": "y", "mode": "itif", "value": 2, "unit": "MB"})",
      R"(, "limit_name": "floor", "notes": ["skipped z"], "error": "no memory")"));
  ASSERT_TRUE(results) << results.error().message;
  EXPECT_EQ(results->bench, "b");
  EXPECT_EQ(results->limit_name, "floor");
  EXPECT_EQ(results->error, "no memory");
  EXPECT_NE(results->machine.find("a CPU, 2 CPUs"), std::string::npos) << results->machine;
  EXPECT_EQ(results->notes, std::vector<std::string>{"skipped z"});
  ASSERT_EQ(results->rows.size(), 2u);
  EXPECT_EQ(results->rows[0].name, "x, 2 tenants");
  EXPECT_EQ(results->rows[0].spread, 0.25);
  EXPECT_EQ(results->rows[0].limit_spread, 0.5);
  EXPECT_EQ(results->rows[0].paper, 6.9);
  EXPECT_EQ(results->rows[0].paper_to, 13);
  EXPECT_EQ(results->rows[1].unit, "MB");
  EXPECT_FALSE(results->rows[1].limit);
  EXPECT_FALSE(results->rows[1].paper);
}

TEST(Results, ReadsTimeLines) {
  const std::string lines =
      R"(, "time_lines": [{"name": "figure-16", "title": "Two groups", "interval_s": 0.5, "series": [
           {"name": "a", "share_percent": [30, 40], "sent_per_s": [1, 2], "answered_per_s": [3, 4],
            "mean_ms": [5, 6], "batch_requests": [7, 8]}]}])";
  const auto results = parse_results(document("", lines));
  ASSERT_TRUE(results) << results.error().message;
  ASSERT_EQ(results->time_lines.size(), 1u);
  const TimeLine& line = results->time_lines[0];
  EXPECT_EQ(line.name, "figure-16");
  EXPECT_EQ(line.title, "Two groups");
  EXPECT_EQ(line.interval_s, 0.5);
  ASSERT_EQ(line.series.size(), 1u);
  ASSERT_EQ(line.series[0].intervals.size(), 2u);
  const TimeLine::Interval& last = line.series[0].intervals[1];
  EXPECT_EQ(last.share_percent, 40);
  EXPECT_EQ(last.sent_per_s, 2);
  EXPECT_EQ(last.answered_per_s, 4);
  EXPECT_EQ(last.mean_ms, 6);
  EXPECT_EQ(last.batch_requests, 8);
  EXPECT_FALSE(parse_results(document("", R"(, "time_lines": [{"name": "figure-16"}])")));
}

TEST(Results, RefusesMalformedOutput) {
  for (const std::string& text :
       {std::string(), std::string("{"), std::string("[]"), std::string("{\"bench\": \"b\"}"),
        document(R"({"case": "x", "mode": "seq", "unit": "ms"})"),
        document(R"({"case": "x", "mode": "seq", "value": "fast", "unit": "ms"})")}) {
    const auto results = parse_results(text);
    ASSERT_FALSE(results) << text;
    EXPECT_EQ(results.error().code, Code::kCorrupt);
  }
  EXPECT_EQ(read_results("/nonexistent/tenants.json").error().code, Code::kNotFound);
  EXPECT_EQ(read_results("/tmp").error().code, Code::kNotFound);
}

TEST(Results, SplitsNamesIntoParts) {
  EXPECT_EQ(parts_of("bert-base (2 layers, 8 heads), 4 tenants, bf16"),
            (std::vector<std::string>{"bert-base (2 layers, 8 heads)", "4 tenants", "bf16"}));
  EXPECT_EQ(parts_of("1x32"), std::vector<std::string>{"1x32"});
  EXPECT_EQ(parts_of(""), std::vector<std::string>{""});
}

}  // namespace
}  // namespace itif::bench
