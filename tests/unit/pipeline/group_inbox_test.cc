#include "pipeline/group_inbox.h"

#include <gtest/gtest.h>

#include <array>
#include <random>
#include <thread>

#include "start_eal.h"

namespace itif::pipeline {
namespace {

class GroupInboxTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() { execution::test::start_test_eal(); }

  // Requests of one worker, numbered in `request_id`.
  static std::vector<request::Request> requests_of(uint16_t worker, size_t count) {
    std::vector<request::Request> made(count);
    for (size_t i = 0; i < count; ++i) {
      made[i].worker = worker;
      made[i].request_id = i;
    }
    return made;
  }

  telemetry::ExecutorCounters counters_;
};

TEST_F(GroupInboxTest, WorkersLendAtTheSameTime) {
  constexpr uint16_t kWorkers = 3;
  constexpr uint32_t kRing = 50;
  constexpr size_t kRequests = 20'000;
  const std::array<uint32_t, kWorkers> capacities = {kRing, kRing, kRing};
  auto inbox = GroupInbox::create("inbox_threads", capacities, counters_);
  ASSERT_TRUE(inbox) << inbox.error().message;
  std::array<std::atomic<uint64_t>, kWorkers> popped{};
  std::vector<std::thread> workers;
  for (uint16_t worker = 0; worker < kWorkers; ++worker)
    workers.emplace_back([&, worker] {
      std::vector<request::Request> requests = requests_of(worker, kRequests);
      std::vector<request::Request*> burst;
      std::minstd_rand random(worker);
      for (size_t pushed = 0; pushed < kRequests; pushed += burst.size()) {
        burst.clear();
        const size_t count = std::min<size_t>(1 + random() % 32, kRequests - pushed);
        for (size_t i = 0; i < count; ++i) burst.push_back(&requests[pushed + i]);
        // A worker lends at most as many as it has.
        while (pushed + count - popped[worker].load(std::memory_order_acquire) > kRing)
          std::this_thread::yield();
        (*inbox)->push(burst);
      }
      while (popped[worker].load(std::memory_order_acquire) < kRequests) std::this_thread::yield();
    });
  std::array<request::Request*, 64> out;
  for (size_t total = 0; total < kWorkers * kRequests;) {
    const unsigned count = (*inbox)->pop(out.data(), out.size());
    if (count == 0)  // a lost wake-up would make this wait for a minute, and the test time out
      (*inbox)->bell().wait(60'000'000'000, [&] { return !(*inbox)->empty(); });
    for (unsigned i = 0; i < count; ++i) {
      std::atomic<uint64_t>& next = popped[out[i]->worker];
      EXPECT_EQ(out[i]->request_id, next.load()) << "of worker " << out[i]->worker;
      next.store(out[i]->request_id + 1, std::memory_order_release);
    }
    total += count;
  }
  for (std::thread& worker : workers) worker.join();
  EXPECT_TRUE((*inbox)->empty());
}

TEST_F(GroupInboxTest, WorkersTakeTurns) {
  const std::array<uint32_t, 3> capacities = {100, 1, 100};
  auto inbox = GroupInbox::create("inbox_turns", capacities, counters_);
  ASSERT_TRUE(inbox) << inbox.error().message;
  std::array<std::vector<request::Request>, 3> requests;
  for (uint16_t worker = 0; worker < 3; ++worker) {
    requests[worker] = requests_of(worker, capacities[worker]);
    for (request::Request& one : requests[worker]) (*inbox)->push(&one);
  }
  EXPECT_EQ((*inbox)->num_waiting(), 201u);
  counters_.queued.set(5);
  EXPECT_EQ((*inbox)->num_waiting(), 206u);
  // Worker 0 fills the first burst, and worker 1 follows although worker 0 still has requests.
  std::array<request::Request*, 64> out;
  std::string order;
  std::array<uint64_t, 3> next{};
  while (const unsigned count = (*inbox)->pop(out.data(), out.size())) {
    for (unsigned i = 0; i < count; ++i) {
      const uint16_t worker = out[i]->worker;
      EXPECT_EQ(out[i]->request_id, next[worker]++);
      if (order.empty() || order.back() != "012"[worker]) order += "012"[worker];
    }
  }
  EXPECT_EQ(order, "01202");
  EXPECT_TRUE((*inbox)->empty());
}

TEST_F(GroupInboxTest, NamesAreUnique) {
  const std::array<uint32_t, 1> capacities = {8};
  auto inbox = GroupInbox::create("inbox_name", capacities, counters_);
  ASSERT_TRUE(inbox) << inbox.error().message;
  auto again = GroupInbox::create("inbox_name", capacities, counters_);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kResourceExhausted);
}

}  // namespace
}  // namespace itif::pipeline
