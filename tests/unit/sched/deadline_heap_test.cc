// The heap of deadlines against a sorted set.
#include "sched/deadline_heap.h"

#include <gtest/gtest.h>

#include <deque>
#include <set>
#include <utility>

#include "base/random.h"

namespace itif::sched {
namespace {

TEST(DeadlineHeap, KeepsTheEarliestFirstWhateverIsRemoved) {
  Random random(7);
  DeadlineHeap heap(64);
  std::deque<request::Request> all;
  std::set<std::pair<uint64_t, request::Request*>> held;
  for (int step = 0; step < 20'000; ++step) {
    if (held.empty() || (held.size() < 64 && random.below(2) == 0)) {
      request::Request& r = all.emplace_back();
      r.deadline_ns = 1 + random.below(50);  // many are equal
      heap.push(&r);
      held.insert({r.deadline_ns, &r});
    } else {
      const auto any = std::next(held.begin(), static_cast<long>(random.below(held.size())));
      heap.remove(any->second);
      held.erase(any);
    }
    ASSERT_EQ(heap.earliest() == nullptr, held.empty());
    if (!held.empty()) {
      ASSERT_EQ(heap.earliest()->deadline_ns, held.begin()->first);
    }
  }
}

TEST(DeadlineHeap, IgnoresRequestsWithoutADeadline) {
  DeadlineHeap heap(4);
  request::Request none, some;
  some.deadline_ns = 5;
  heap.push(&none);
  EXPECT_EQ(heap.earliest(), nullptr);
  heap.push(&some);
  heap.remove(&none);
  EXPECT_EQ(heap.earliest(), &some);
}

}  // namespace
}  // namespace itif::sched
