#include "sched/group_queue.h"

#include <gtest/gtest.h>

#include <vector>

namespace itif::sched {
namespace {

request::Request make(uint32_t slot, uint32_t tokens) {
  request::Request r;
  r.slot = slot;
  r.num_tokens = tokens;
  return r;
}

TEST(GroupQueue, KeepsOrderWithinATenant) {
  GroupQueue queue({.max_requests = 8, .max_tenant_requests = 8, .max_slots = 4});
  request::Request a = make(1, 3), b = make(1, 4), c = make(2, 5);
  EXPECT_TRUE(queue.push(&a));
  EXPECT_TRUE(queue.push(&b));
  EXPECT_TRUE(queue.push(&c));
  EXPECT_EQ(queue.num_tokens(), 12u);
  EXPECT_EQ(queue.pop(1), &a);
  EXPECT_EQ(queue.pop(1), &b);
  EXPECT_EQ(queue.active_slots(), std::vector<uint32_t>{2});
  EXPECT_EQ(queue.pop(2), &c);
  EXPECT_EQ(queue.num_requests(), 0u);
  EXPECT_EQ(queue.num_tokens(), 0u);
}

TEST(GroupQueue, RemovesFromAnyPlaceOfATenantsQueue) {
  for (uint32_t removed = 0; removed < 3; ++removed) {
    GroupQueue queue({.max_requests = 8, .max_tenant_requests = 8, .max_slots = 4});
    request::Request r[4] = {make(1, 1), make(1, 2), make(1, 4), make(1, 8)};
    for (uint32_t i = 0; i < 3; ++i) EXPECT_TRUE(queue.push(&r[i]));
    queue.remove(&r[removed]);
    EXPECT_EQ(queue.num_tokens(), 7u - r[removed].num_tokens);
    EXPECT_TRUE(queue.push(&r[3]));
    for (uint32_t i = 0; i < 4; ++i) {
      if (i != removed) {
        EXPECT_EQ(queue.pop(1), &r[i]);
      }
    }
    EXPECT_TRUE(queue.active_slots().empty());
  }
}

// A tenant's weight is that of its last request, also if it changes while others wait.
TEST(GroupQueue, CountsTheWeightsOfActiveTenants) {
  GroupQueue queue({.max_requests = 8, .max_tenant_requests = 8, .max_slots = 4});
  request::Request a = make(1, 1), b = make(1, 1), c = make(2, 1);
  a.settings.weight = 3;
  b.settings.weight = 5;
  c.settings.weight = 7;
  EXPECT_EQ(queue.active_weights(), 0u);
  EXPECT_TRUE(queue.push(&a));
  EXPECT_EQ(queue.active_weights(), 3u);
  EXPECT_TRUE(queue.push(&c));
  EXPECT_TRUE(queue.push(&b));
  EXPECT_EQ(queue.active_weights(), 12u);
  EXPECT_EQ(queue.pop(1), &a);
  EXPECT_EQ(queue.active_weights(), 12u);
  EXPECT_EQ(queue.pop(1), &b);
  EXPECT_EQ(queue.active_weights(), 7u);
  queue.put_back(&b);
  queue.put_back(&a);
  EXPECT_EQ(queue.active_weights(), 12u);
  queue.remove(&c);
  queue.remove(&b);
  queue.remove(&a);
  EXPECT_EQ(queue.active_weights(), 0u);
}

TEST(GroupQueue, PutsRequestsBackAtTheHead) {
  GroupQueue queue({.max_requests = 8, .max_tenant_requests = 8, .max_slots = 4});
  request::Request a = make(1, 1), b = make(1, 2), c = make(1, 4), other = make(2, 8);
  for (request::Request* r : {&a, &b, &c, &other}) EXPECT_TRUE(queue.push(r));
  EXPECT_EQ(queue.pop(1), &a);
  EXPECT_EQ(queue.pop(1), &b);
  queue.put_back(&b);
  queue.put_back(&a);
  EXPECT_EQ(queue.num_tokens(), 15u);
  for (request::Request* r : {&a, &b, &c}) EXPECT_EQ(queue.pop(1), r);
  EXPECT_EQ(queue.active_slots(), std::vector<uint32_t>{2});
  queue.put_back(&c);
  EXPECT_EQ(queue.active_slots(), (std::vector<uint32_t>{1, 2}));
  EXPECT_EQ(queue.num_requests(), 2u);
  EXPECT_EQ(queue.pop(1), &c);
  EXPECT_EQ(queue.of_tenant(1).tail, nullptr);
}

TEST(GroupQueue, OneTenantCannotFillIt) {
  GroupQueue queue({.max_requests = 8, .max_tenant_requests = 2, .max_slots = 3});
  request::Request r[4] = {make(0, 1), make(0, 1), make(0, 1), make(1, 1)};
  EXPECT_TRUE(queue.push(&r[0]));
  EXPECT_TRUE(queue.push(&r[1]));
  EXPECT_FALSE(queue.push(&r[2]));
  EXPECT_TRUE(queue.push(&r[3]));
}

// Any number of greedy tenants leaves as much room free as each of them takes.
TEST(GroupQueue, ManyGreedyTenantsLeaveRoomForAnother) {
  constexpr uint32_t kSlots = 8, kRequests = 64;
  for (uint32_t greedy = 1; greedy < kSlots; ++greedy) {
    GroupQueue queue(
        {.max_requests = kRequests, .max_tenant_requests = kRequests, .max_slots = kSlots});
    std::vector<request::Request> requests;
    requests.reserve(kRequests + 1);
    for (uint32_t turn = 0; turn < kRequests; ++turn)
      for (uint32_t slot = 0; slot < greedy; ++slot)
        if (queue.has_room(slot)) {
          ASSERT_TRUE(queue.push(&requests.emplace_back(make(slot, 1))));
        }
    for (uint32_t slot = 0; slot < greedy; ++slot) EXPECT_FALSE(queue.has_room(slot));
    EXPECT_NEAR(kRequests - queue.num_requests(), kRequests / (greedy + 1), 1);
    EXPECT_TRUE(queue.push(&requests.emplace_back(make(greedy, 1))));
  }
}

}  // namespace
}  // namespace itif::sched
