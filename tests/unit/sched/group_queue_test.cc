#include "sched/group_queue.h"

#include <gtest/gtest.h>

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

TEST(GroupQueue, OneTenantCannotFillIt) {
  GroupQueue queue({.max_requests = 4, .max_tenant_requests = 2, .max_slots = 3});
  request::Request r[6] = {make(0, 1), make(0, 1), make(0, 1), make(1, 1), make(2, 1), make(2, 1)};
  EXPECT_TRUE(queue.push(&r[0]));
  EXPECT_TRUE(queue.push(&r[1]));
  EXPECT_FALSE(queue.push(&r[2]));
  EXPECT_TRUE(queue.push(&r[3]));
  EXPECT_TRUE(queue.push(&r[4]));
  EXPECT_FALSE(queue.push(&r[5]));  // four in all
}

}  // namespace
}  // namespace itif::sched
