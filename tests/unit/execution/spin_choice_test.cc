// When a pool that shares its CPUs with workers sleeps early, and what a group's thread does then.
#include "execution/spin_choice.h"

#include <gtest/gtest.h>

#include "execution/group_stage.h"
#include "fake_group.h"
#include "start_eal.h"

namespace itif::execution::test {
namespace {

constexpr uint64_t kSecondNs = 1'000'000'000;

class SpinChoiceTest : public ::testing::Test {
 protected:
  SpinChoiceTest() { choice_.measure(now_ns_, unserved_); }
  // Lets a time pass with this many drops per second, in windows. Returns how often the choice
  // changed.
  int pass(uint64_t time_ns, uint64_t drops_per_s) {
    int changes = 0;
    for (uint64_t passed_ns = 0; passed_ns < time_ns; passed_ns += SpinChoice::kWindowNs) {
      now_ns_ += SpinChoice::kWindowNs;
      EXPECT_TRUE(choice_.wants_count(now_ns_));
      unserved_ += drops_per_s * SpinChoice::kWindowNs / kSecondNs;
      const bool before = choice_.sleeps_early();
      choice_.measure(now_ns_, unserved_);
      changes += choice_.sleeps_early() != before;
    }
    return changes;
  }

  SpinChoice choice_;
  uint64_t now_ns_ = 5 * kSecondNs;
  uint64_t unserved_ = 70'000;  // dropped before the group started
};

TEST_F(SpinChoiceTest, SpinsWithoutAFlood) {
  EXPECT_EQ(pass(10 * kSecondNs, 0), 0);
  EXPECT_EQ(pass(10 * kSecondNs, SpinChoice::kFloodPerS), 0);
  EXPECT_FALSE(choice_.sleeps_early());
}

TEST_F(SpinChoiceTest, SleepsEarlyFromTheFirstWindowOfAFlood) {
  EXPECT_EQ(pass(SpinChoice::kWindowNs, 2 * SpinChoice::kFloodPerS), 1);
  EXPECT_TRUE(choice_.sleeps_early());
}

TEST_F(SpinChoiceTest, SpinsAgainOnlyAfterACalmTime) {
  pass(kSecondNs, 10 * SpinChoice::kFloodPerS);
  EXPECT_EQ(pass(SpinChoice::kCalmNs - SpinChoice::kWindowNs, 0), 0);
  EXPECT_TRUE(choice_.sleeps_early());
  EXPECT_EQ(pass(SpinChoice::kWindowNs, 0), 1);
  EXPECT_FALSE(choice_.sleeps_early());
}

TEST_F(SpinChoiceTest, ARateAroundTheLimitChangesItOnce) {
  int changes = 0;
  for (int turn = 0; turn < 100; ++turn) {
    changes += pass(SpinChoice::kWindowNs, SpinChoice::kFloodPerS * 12 / 10);
    changes += pass(4 * SpinChoice::kWindowNs, SpinChoice::kFloodPerS * 8 / 10);
  }
  EXPECT_EQ(changes, 1);
  EXPECT_TRUE(choice_.sleeps_early());
}

// A group without requests asks for no count for minutes.
TEST_F(SpinChoiceTest, AFloodDuringAPauseCountsByItsMeanRate) {
  now_ns_ += 100 * kSecondNs;
  unserved_ += 100 * SpinChoice::kFloodPerS;
  choice_.measure(now_ns_, unserved_);
  EXPECT_FALSE(choice_.sleeps_early());
  EXPECT_FALSE(choice_.wants_count(now_ns_ + SpinChoice::kWindowNs - 1));
}

class ChoosingStream final : public testing::NullStream {
 public:
  explicit ChoosingStream(std::vector<bool>& calls) : calls_(calls) {}
  void sleep_early(bool early) noexcept override { calls_.push_back(early); }

 private:
  std::vector<bool>& calls_;
};

class ChoosingDevice final : public FakeDevice {
 public:
  Result<std::unique_ptr<device::Stream>> make_stream(
      const device::StreamLimits&, const device::StreamOptions& options) override {
    shares_cpus = options.shares_cpus;
    auto stream = std::make_unique<ChoosingStream>(calls);
    if (!options.is_async) return stream;
    return device::AsyncStream::make(std::move(stream), options);
  }
  bool shares_cpus = false;
  std::vector<bool> calls;
};

// Runs a stage's polls in the test's thread, with a request before each.
class ChoosingStage : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    start_test_eal();
    returned_ = pipeline::ReturnRing::create("spin", 64).value();
    request_.payload_kind = wire::PayloadKind::kTokensU16;
    request_.payload_bytes = sizeof id_;
    request_.pieces = std::span(&piece_, 1);
  }
  void make_stage(std::vector<const telemetry::WorkerCounters*> workers) {
    pipeline::ReturnRing* returns[] = {returned_.get()};
    stage_ = GroupStage::create("stage", std::make_unique<FakeGroup>(), device_, clock_, returns,
                                {.overlaps = GetParam(), .sharing_workers = std::move(workers)})
                 .value();
  }
  void serve_one() {
    clock_.advance_ns(SpinChoice::kWindowNs);
    stage_->inbox().push(&request_);
    pipeline::ReturnRing::Item item;
    do stage_->poll();
    while (returned_->pop(&item, 1) == 0 || !item.has_ended());
    std::free(request_.result.data);
    request_.result = {};
  }

  VirtualClock clock_{kSecondNs};
  ChoosingDevice device_;
  telemetry::WorkerCounters worker_;
  std::unique_ptr<pipeline::ReturnRing> returned_;
  std::unique_ptr<GroupStage> stage_;
  const uint16_t id_ = 5;
  const request::Piece piece_{reinterpret_cast<const std::byte*>(&id_), sizeof id_};
  request::Request request_;
};
INSTANTIATE_TEST_SUITE_P(Overlaps, ChoosingStage, ::testing::Bool());

TEST_P(ChoosingStage, SwitchesOnceWhenAFloodBeginsAndEnds) {
  make_stage({&worker_});
  EXPECT_TRUE(device_.shares_cpus);
  for (int i = 0; i < 5; ++i) serve_one();
  EXPECT_TRUE(device_.calls.empty());
  for (int i = 0; i < 5; ++i) {
    worker_.dropped[3].add(100);  // 5,000 per second
    serve_one();
  }
  EXPECT_EQ(device_.calls, std::vector<bool>{true});
  for (uint64_t ns = 0; ns <= SpinChoice::kCalmNs; ns += SpinChoice::kWindowNs) serve_one();
  EXPECT_EQ(device_.calls, (std::vector<bool>{true, false}));
}

TEST_P(ChoosingStage, LeavesAPoolWithItsOwnCpusAlone) {
  make_stage({});
  EXPECT_FALSE(device_.shares_cpus);
  for (int i = 0; i < 5; ++i) {
    worker_.dropped[3].add(100);
    serve_one();
  }
  EXPECT_TRUE(device_.calls.empty());
}

}  // namespace
}  // namespace itif::execution::test
