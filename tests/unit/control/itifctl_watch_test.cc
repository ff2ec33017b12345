// itifctl tenant stages, bottleneck, trace, and the file that Perfetto loads.
#include <filesystem>
#include <thread>

#include "chrome_trace.h"
#include "itifctl_fixture.h"

namespace itif::control {
namespace {

using nlohmann::json;

class WatchTest : public ItifctlTest {
 protected:
  void SetUp() override {
    start();
    add_sentiment();
  }
};

TEST_F(WatchTest, ShowsStages) {
  const std::string text = good({"tenant", "stages", "sentiment"});
  EXPECT_TRUE(has(text, "1,190 answered requests of sentiment")) << text;
  EXPECT_TRUE(has(text, "compute  6.000 ms      75 %  5.800 ms  12.000 ms")) << text;
  EXPECT_EQ(json::parse(good({"--json", "tenant", "stages", "1"}))["requests"], 1190);
  expect_failure({"tenant", "stages", "nobody"}, 1, "no tenant named 'nobody'");
}

TEST_F(WatchTest, ShowsWhatLimitsGroups) {
  const std::string text = good({"bottleneck"});
  EXPECT_TRUE(has(text, "bert-768  device")) << text;
  EXPECT_TRUE(has(text, "10.0 ms     4.00 ms  300 ")) << text;
  EXPECT_TRUE(has(text, "97 %")) << text;
  EXPECT_TRUE(has(text, "REFUSED/S")) << text;
  EXPECT_TRUE(has(text, "1,200.0       30.0 ")) << text;
  EXPECT_TRUE(has(text, "bert-768: device: requests wait 6.00 ms")) << text;
  const json document = json::parse(good({"--json", "bottleneck", "bert-768"}));
  EXPECT_EQ(document["groups"][0]["gue"], 300.0);
  EXPECT_EQ(document["groups"][0]["refused"]["over_quota"], 30);
  expect_failure({"bottleneck", "none"}, 1, "no group 'none'");
  expect_failure({"bottleneck", "--interval", "10ms"}, 2, "at least 1s");
  expect_failure({"bottleneck", "--interval", "61m"}, 2, "at most 1h");
  EXPECT_EQ(appliance_->asked_interval_ns, 1'000'000'000u);
  good({"bottleneck", "--interval", "1100ms"});
  EXPECT_EQ(appliance_->asked_interval_ns, 1'100'000'000u);
}

// A rate with one decimal showed 0.0 for heavy models, and for groups without answers.
TEST_F(WatchTest, ShowsSmallEfficaciesAndNoneWithoutAnswers) {
  const std::pair<double, const char*> shown[] = {
      {0.00714, "4.00 ms  0.00714 "}, {2'160'136.4, "4.00 ms  2,160,136 "}, {0, "4.00 ms    - "}};
  for (const auto& [gue, cell] : shown) {
    appliance_->gue = gue;
    const std::string text = good({"bottleneck"});
    EXPECT_TRUE(has(text, cell)) << text;
  }
}

TEST_F(WatchTest, TracesRequests) {
  appliance_->traced = 5;
  const std::string file = dir_ / "trace.json";
  const std::string text = good({"trace", "sentiment", "--requests", "3", "--chrome", file});
  EXPECT_TRUE(has(text, "request 7 of session 99: ok, 12 tokens, worker 0")) << text;
  EXPECT_TRUE(has(text, "0.820 ms  queue       0.700 ms")) << text;
  EXPECT_TRUE(has(text, "request 9")) << text;
  EXPECT_FALSE(has(text, "request 10")) << text;
  EXPECT_FALSE(appliance_->is_tracing) << "it was stopped";
  EXPECT_EQ(json::parse(text_of(file))["traceEvents"].size(), 1 + 3 * 5u);
  EXPECT_EQ(json::parse(good({"--json", "trace", "1"}))["requests"].size(), 1u);
}

TEST_F(WatchTest, ATraceWithoutRequestsEnds) {
  expect_failure({"trace", "nobody"}, 1, "no tenant named 'nobody'");
  expect_failure({"trace", "sentiment", "--requests", "0"}, 2, "--requests");
  expect_failure({"trace", "sentiment", "--requests", "1001"}, 2, "--requests");
  expect_failure({"trace", "sentiment", "--chrome", dir_ / "none/x.json"}, 5, "cannot write");
  appliance_->traced = 0;
  expect_failure({"trace", "sentiment", "--wait", "100ms"}, 4, "0 of 1 requests came within 100ms");
  appliance_->is_removed = true;
  expect_failure({"trace", "sentiment"}, 1, "the tenant was removed after 0 of 1 requests");
  appliance_->is_tracing = true;
  expect_failure({"trace", "sentiment"}, 1, "is being traced");
}

// Requests that came before the wait was over are written. With --json they were lost.
TEST_F(WatchTest, AnIncompleteTraceIsWritten) {
  const std::string file = dir_ / "trace.json";
  const std::vector<std::string> arguments = {"trace",  "sentiment", "--requests", "9",
                                              "--wait", "100ms",     "--chrome",   file};
  const Ran ran = run(arguments);
  EXPECT_EQ(ran.exit_code, 4);
  EXPECT_TRUE(has(ran.err, "1 of 9 requests")) << ran.err;
  EXPECT_EQ(json::parse(text_of(file))["traceEvents"].size(), 1 + 5u);

  appliance_->traced = 3;
  std::vector<std::string> as_json = arguments;
  as_json.insert(as_json.begin(), "--json");
  Ran also = run(as_json);
  EXPECT_EQ(also.exit_code, 4);
  json document = json::parse(also.out);
  EXPECT_EQ(document["name"], "sentiment");
  ASSERT_EQ(document["requests"].size(), 3u);
  EXPECT_EQ(document["requests"][2]["request_id"], 9);
  EXPECT_TRUE(has(document["error"]["message"], "3 of 9 requests")) << also.out;
  EXPECT_FALSE(appliance_->is_tracing) << "it was stopped";

  appliance_->traced = 2;
  appliance_->is_removed = true;
  also = run(as_json);
  EXPECT_EQ(also.exit_code, 1);
  document = json::parse(also.out);
  EXPECT_EQ(document["requests"].size(), 2u);
  EXPECT_TRUE(has(document["error"]["message"], "the tenant was removed after 2")) << also.out;
}

// It left an empty file, or an old one as it was.
TEST_F(WatchTest, ATraceWithoutRequestsIsAValidFile) {
  appliance_->traced = 0;
  const std::string made = dir_ / "made.json", old = dir_ / "old.json";
  std::ofstream(old) << "old";
  for (const std::string& file : {made, old}) {
    expect_failure({"trace", "sentiment", "--wait", "100ms", "--chrome", file}, 4, "0 of 1");
    EXPECT_EQ(json::parse(text_of(file))["traceEvents"].size(), 1u);
  }
  // A trace that does not begin changes no file.
  std::filesystem::remove(made);
  std::ofstream(old) << "old";
  for (const std::string& file : {made, old})
    expect_failure({"trace", "nobody", "--chrome", file}, 1, "no tenant named 'nobody'");
  EXPECT_FALSE(std::filesystem::exists(made));
  EXPECT_EQ(text_of(old), "old");
}

TEST(ChromeTrace, PutsStagesInsideTheirRequests) {
  const json requests = json::parse(R"([
    {"request_id": 5, "session": 1, "worker": 2, "tokens": 9, "status": "ok", "arrival_ns": 7000,
     "points": [{"point": "last_piece", "since_ns": 500}, {"point": "computed", "since_ns": 2500}]},
    {"request_id": 6, "session": 1, "worker": 0, "tokens": 0, "status": "overloaded",
     "arrival_ns": 4000, "points": [{"point": "refused", "since_ns": 100}]},
    {"request_id": 7, "status": "ok", "arrival_ns": 4000, "points": []}])");
  const json trace = ctl::chrome_trace("t", requests);
  EXPECT_EQ(trace["traceEvents"], json::parse(R"([
    {"ph": "M", "pid": 1, "tid": 0, "name": "process_name", "args": {"name": "tenant t"}},
    {"ph": "M", "pid": 1, "tid": 1, "name": "thread_name", "args": {"name": "request 5"}},
    {"ph": "X", "pid": 1, "tid": 1, "name": "request 5", "cat": "itif", "ts": 3.0, "dur": 2.5,
     "args": {"session": 1, "worker": 2, "tokens": 9, "status": "ok"}},
    {"ph": "X", "pid": 1, "tid": 1, "name": "reassembly", "cat": "itif", "ts": 3.0, "dur": 0.5},
    {"ph": "X", "pid": 1, "tid": 1, "name": "compute", "cat": "itif", "ts": 3.5, "dur": 2.0},
    {"ph": "M", "pid": 1, "tid": 2, "name": "thread_name", "args": {"name": "request 6"}},
    {"ph": "X", "pid": 1, "tid": 2, "name": "request 6", "cat": "itif", "ts": 0.0, "dur": 0.1,
     "args": {"session": 1, "worker": 0, "tokens": 0, "status": "overloaded"}},
    {"ph": "X", "pid": 1, "tid": 2, "name": "refused", "cat": "itif", "ts": 0.0, "dur": 0.1},
    {"ph": "M", "pid": 1, "tid": 3, "name": "thread_name", "args": {"name": "request 7"}},
    {"ph": "X", "pid": 1, "tid": 3, "name": "request 7", "cat": "itif", "ts": 0.0, "dur": 0.0,
     "args": {"session": 0, "worker": 0, "tokens": 0, "status": "ok"}}])"));
  EXPECT_EQ(ctl::chrome_trace("t", json::array())["traceEvents"].size(), 1u);
  EXPECT_EQ(ctl::stage_before("free"), "queue");
}

}  // namespace
}  // namespace itif::control
