// A group's thread with a fake model: stopping, overlapping batches, tasks.
#include "execution/group_stage.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <semaphore>
#include <thread>
#include <vector>

#include "fake_group.h"
#include "start_eal.h"

namespace itif::execution::test {
namespace {

// A stage with one worker and requests of two token ids each.
class GroupStageTest : public ::testing::Test {
 protected:
  void SetUp() override {
    start_test_eal();
    returned_ = pipeline::ReturnRing::create("returned", 64).value();
    for (request::Request& request : requests_) {
      request.payload_kind = wire::PayloadKind::kTokensU16;
      request.payload_bytes = sizeof ids_;
      request.pieces = std::span(&piece_, 1);
    }
  }
  void TearDown() override {
    stage_->stop();
    for (request::Request& request : requests_) std::free(request.result.data);
  }
  void make_stage(const GroupStageOptions& options) {
    auto group = std::make_unique<FakeGroup>();
    group_ = group.get();
    pipeline::ReturnRing* returns[] = {returned_.get()};
    stage_ =
        GroupStage::create("stage", std::move(group), device_, clock_, returns, options).value();
  }
  // Waits until `count` requests have ended, and returns them.
  std::vector<request::Request*> take(size_t count) {
    std::vector<request::Request*> taken;
    while (taken.size() < count) {
      pipeline::ReturnRing::Item item;
      if (returned_->pop(&item, 1) == 0)
        std::this_thread::yield();
      else if (item.has_ended())
        taken.push_back(&item.request());
    }
    return taken;
  }

  SystemClock clock_;
  FakeDevice device_;
  std::unique_ptr<pipeline::ReturnRing> returned_;
  FakeGroup* group_ = nullptr;
  std::unique_ptr<GroupStage> stage_;
  const std::array<uint16_t, 2> ids_ = {5, 6};
  const request::Piece piece_{reinterpret_cast<const std::byte*>(ids_.data()), sizeof ids_};
  std::array<request::Request, 9> requests_;
};

TEST_F(GroupStageTest, DoesNotComputeTheBacklogWhenStopped) {
  make_stage({});
  std::binary_semaphore inside{0}, leave{0};
  group_->on_forward = [&] {
    inside.release();
    leave.acquire();
  };
  stage_->start();
  stage_->inbox().push(&requests_[0]);
  inside.acquire();
  for (size_t i = 1; i < requests_.size(); ++i) stage_->inbox().push(&requests_[i]);
  std::thread stopper([&] { stage_->stop(); });
  while (!stage_->stopping()) std::this_thread::yield();
  leave.release();
  leave.release();
  stopper.join();
  EXPECT_EQ(group_->batches, 1u);
  EXPECT_EQ(take(1), (std::vector<request::Request*>{&requests_[0]})) << "the batch that ran";
  EXPECT_TRUE(returned_->empty());
}

TEST_F(GroupStageTest, ContinuesOnAnotherShareBetweenBatches) {
  for (const bool overlaps : {false, true}) {
    make_stage({.share = {.cpus = {0}}, .overlaps = overlaps});
    device_.shares.clear();
    stage_->start();
    for (size_t turn = 0; turn < requests_.size(); ++turn) {
      stage_->inbox().push(&requests_[turn]);
      if (turn % 2 == 0) {
        ASSERT_TRUE(stage_->change_cpus({0, static_cast<unsigned>(turn)}, {}));
      }
      std::vector<request::Request*> taken = take(1);
      EXPECT_EQ(taken.front(), &requests_[turn]);
      EXPECT_EQ(taken.front()->status, wire::StatusCode::kOk);
      std::free(std::exchange(taken.front()->result.data, nullptr));
    }
    ASSERT_EQ(device_.shares.size(), 5u);
    EXPECT_EQ(device_.shares.back().cpus, (std::vector<unsigned>{0, 8}));
    EXPECT_FALSE(stage_->stopping());

    device_.has_no_stream = true;
    EXPECT_FALSE(stage_->change_cpus({}, {}));
    device_.has_no_stream = false;
    stage_->inbox().push(&requests_[0]);
    EXPECT_EQ(take(1).front()->status, wire::StatusCode::kOk) << "the old stream serves";
    std::free(std::exchange(requests_[0].result.data, nullptr));
    stage_->stop();
  }
}

TEST_F(GroupStageTest, ChangesTheSchedulerWhileServing) {
  for (const bool overlaps : {false, true}) {
    make_stage({.executor = {.limits = {.max_requests = 2}}, .overlaps = overlaps});
    stage_->start();
    for (const char* scheduler : {"edf", "das:fair", "slotted_das", "sjf", "fcfs", "fair"}) {
      for (request::Request& request : requests_) {
        request.complete_ns = clock_.now_ns();
        stage_->inbox().push(&request);
      }
      ASSERT_TRUE(stage_->set_scheduler(scheduler));
      for (request::Request* request : take(requests_.size())) {
        EXPECT_EQ(request->status, wire::StatusCode::kOk);
        std::free(std::exchange(request->result.data, nullptr));
      }
    }
    const Status unknown = stage_->set_scheduler("das:eta=2");
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().code, Code::kInvalidArgument);
    stage_->stop();
  }
}

// Each idle poll captures one graph bucket.
TEST_F(GroupStageTest, CapturesGraphsForSmallBatchesWhileIdle) {
  make_stage({});
  group_->buckets = 3;
  EXPECT_EQ(stage_->poll(), 1u);
  EXPECT_EQ(group_->warmed_up, (std::vector<size_t>{0}));
  stage_->inbox().push(&requests_[0]);
  stage_->poll();
  EXPECT_EQ(take(1).front()->status, wire::StatusCode::kOk);
  EXPECT_EQ(group_->warmed_up.size(), 1u) << "a request goes before captures";
  EXPECT_EQ(stage_->poll(), 1u);
  EXPECT_EQ(stage_->poll(), 1u);
  EXPECT_EQ(stage_->poll(), 0u) << "nothing is left to do";
  EXPECT_EQ(group_->warmed_up, (std::vector<size_t>{0, 1, 2}));
  EXPECT_EQ(stage_->counters().batches.read(), 1u);
}

TEST_F(GroupStageTest, ServesAfterAFailedGraphCapture) {
  make_stage({});
  group_->buckets = 3;
  group_->failing_bucket = 1;
  EXPECT_EQ(stage_->poll(), 1u);
  for (int turn = 0; turn < 3; ++turn) EXPECT_EQ(stage_->poll(), 0u);
  EXPECT_EQ(group_->warmed_up, (std::vector<size_t>{0, 1}))
      << "a failed capture is not tried again";
  stage_->inbox().push(&requests_[0]);
  stage_->poll();
  EXPECT_EQ(take(1).front()->status, wire::StatusCode::kOk);
}

// The executor has room for kMaxIntake requests between two steps, and a steady stream of requests
// must not keep a batch from starting.
TEST_F(GroupStageTest, TakesABoundedNumberOfRequestsAtOnce) {
  constexpr size_t kMost = runtime::RequestExecutor::kMaxIntake;
  returned_ = pipeline::ReturnRing::create("returned-many", 2048).value();
  make_stage({});
  std::vector<request::Request> many(kMost + 100, requests_[0]);
  for (request::Request& request : many) stage_->inbox().push(&request);
  EXPECT_GT(stage_->poll(), kMost);
  EXPECT_FALSE(stage_->inbox().empty());
  EXPECT_GT(group_->batches, 0u);
  stage_->start();
  for (const request::Request* request : take(many.size()))
    EXPECT_EQ(request->status, wire::StatusCode::kOk);
  for (request::Request& request : many) std::free(request.result.data);
}

// A batch that runs asynchronously must wake the thread when it ends, because the thread sleeps.
TEST_F(GroupStageTest, AnswersEveryRequestOfOverlappingBatches) {
  make_stage({.executor = {.limits = {.max_requests = 2}}, .overlaps = true});
  stage_->start();
  for (int turn = 0; turn < 200; ++turn) {
    for (request::Request& request : requests_) stage_->inbox().push(&request);
    for (request::Request* request : take(requests_.size())) {
      EXPECT_EQ(request->status, wire::StatusCode::kOk);
      std::free(request->result.data);
      request->result = {};
    }
  }
  stage_->stop();  // it counts a batch after its answers have left
  EXPECT_EQ(stage_->counters().requests.read(), 200 * requests_.size());
  EXPECT_EQ(stage_->counters().refused.read(), 0u);
  EXPECT_EQ(stage_->num_executing(), 0u);
}

TEST_F(GroupStageTest, ReturnsRequestsInFlightWhenStopped) {
  make_stage({.executor = {.limits = {.max_requests = 1}}, .overlaps = true});
  std::counting_semaphore<9> inside{0};
  group_->on_forward = [&] { inside.release(); };
  stage_->start();
  for (request::Request& request : requests_) stage_->inbox().push(&request);
  inside.acquire();
  stage_->stop();
  EXPECT_EQ(stage_->num_executing(), 0u);
  EXPECT_EQ(take(group_->batches).size(), group_->batches);
  EXPECT_TRUE(returned_->empty());
}

// The device signals no completion, so the thread polls it. Packets are returned before the
// answers.
TEST_F(GroupStageTest, PacketsAreReturnedOnceAndBeforeTheirRequests) {
  device_.is_late = device_.holds = true;
  make_stage({.executor = {.limits = {.max_requests = 2}}});
  for (request::Request& request : requests_) stage_->inbox().push(&request);
  stage_->start();
  std::vector<const request::Request*> packets, ended;
  const auto take_one = [&] {
    pipeline::ReturnRing::Item item;
    while (returned_->pop(&item, 1) == 0) std::this_thread::yield();
    const request::Request* request = &item.request();
    EXPECT_EQ(std::ranges::count(ended, request), 0);
    if (!item.has_ended()) {
      EXPECT_EQ(std::ranges::count(packets, request), 0);
    }
    (item.has_ended() ? ended : packets).push_back(request);
  };
  while (packets.size() < 4) take_one();  // two batches are in flight
  EXPECT_TRUE(ended.empty());
  EXPECT_TRUE(returned_->empty());
  EXPECT_EQ(stage_->num_executing(), 4u);
  device_.holds = false;
  while (ended.size() < requests_.size()) take_one();
  EXPECT_TRUE(returned_->empty());
}

TEST_F(GroupStageTest, TaskHasExclusiveUseOfTheDevice) {
  make_stage({.overlaps = true});
  struct Task final : StageTask {
    GroupStage* stage = nullptr;
    int pieces = 0;
    uint32_t max_executing = 0;
    bool step(device::Stream& stream) noexcept override {
      max_executing = std::max(max_executing, stage->num_executing());
      EXPECT_TRUE(stream.synchronize());
      return ++pieces < 50;
    }
  } task;
  task.stage = stage_.get();
  stage_->start();
  std::atomic<bool> done{false};
  std::thread asker([&] {
    while (!done) {
      for (request::Request& request : requests_) stage_->inbox().push(&request);
      for (request::Request* request : take(requests_.size())) {
        std::free(request->result.data);
        request->result = {};
      }
    }
  });
  stage_->perform(task, {});
  done = true;
  asker.join();
  EXPECT_EQ(task.pieces, 50);
  EXPECT_EQ(task.max_executing, 0u);
}

}  // namespace
}  // namespace itif::execution::test
