// A request's outcome has one owner: its group or its worker.
#include <gtest/gtest.h>

#include <barrier>
#include <thread>
#include <vector>

#include "request/request.h"

namespace itif::request {
namespace {

Request with_deadline() {
  Request request;
  request.deadline_ns = 1;
  return request;
}

TEST(Claim, TheFirstKeepsIt) {
  Request taken = with_deadline(), expired = with_deadline();
  EXPECT_TRUE(take(taken));
  EXPECT_FALSE(expire(taken));
  EXPECT_FALSE(has_expired(taken));
  EXPECT_TRUE(take(taken)) << "the group may ask again";
  EXPECT_TRUE(expire(expired));
  EXPECT_TRUE(has_expired(expired));
  EXPECT_FALSE(take(expired));
  EXPECT_FALSE(expire(expired)) << "it is answered once";
}

TEST(Claim, ARequestWithoutADeadlineIsTheGroups) {
  Request request;
  EXPECT_TRUE(take(request));
  EXPECT_FALSE(has_expired(request));
}

// Both threads claim the same requests at the same time. Each request has one owner, and only the
// owner writes its outcome, which a thread sanitizer checks.
TEST(Claim, TwoThreadsNeverBothOwnARequest) {
  constexpr int kRounds = 200;
  constexpr size_t kRequests = 256;
  std::vector<Request> requests(kRequests);
  size_t taken = 0, expired = 0;
  std::barrier together(2);
  const auto claim_all = [&](bool (*claim)(Request&) noexcept, wire::StatusCode status,
                             size_t& count) {
    for (int round = 0; round < kRounds; ++round) {
      together.arrive_and_wait();
      for (Request& request : requests) {
        if (!claim(request)) continue;
        request.status = status;
        ++count;
      }
      together.arrive_and_wait();
      if (status == wire::StatusCode::kOk)
        for (Request& request : requests) request = with_deadline();
    }
  };
  for (Request& request : requests) request = with_deadline();
  std::thread group([&] { claim_all(take, wire::StatusCode::kOk, taken); });
  claim_all(expire, wire::StatusCode::kDeadlineQueue, expired);
  group.join();
  EXPECT_EQ(taken + expired, kRounds * kRequests);
}

}  // namespace
}  // namespace itif::request
