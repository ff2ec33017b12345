// A group's thread on a fake model: what it does when it is stopped.
#include "pipeline/group_stage.h"

#include <gtest/gtest.h>

#include <array>
#include <semaphore>

#include "bench_of_one.h"

namespace itif::pipeline::test {
namespace {

TEST(GroupStage, DoesNotComputeTheBacklogWhenItIsStopped) {
  start_test_eal();
  auto returned = RequestRing::create("returned", 64);
  ASSERT_TRUE(returned);
  RequestRing* returns[] = {returned->get()};
  SystemClock clock;
  FakeDevice device;
  auto owned = std::make_unique<FakeGroup>();
  FakeGroup& group = *owned;
  std::binary_semaphore inside{0}, leave{0};
  group.on_forward = [&] {
    inside.release();
    leave.acquire();
  };
  auto stage = GroupStage::create("stopped", std::move(owned), device, clock, returns, {});
  ASSERT_TRUE(stage) << stage.error().message;

  const std::array<uint16_t, 2> ids = {5, 6};
  const request::Piece piece{reinterpret_cast<const std::byte*>(ids.data()), sizeof ids};
  std::array<request::Request, 9> requests;
  for (request::Request& request : requests) {
    request.payload_kind = wire::PayloadKind::kTokensU16;
    request.payload_bytes = sizeof ids;
    request.pieces = std::span(&piece, 1);
  }
  (*stage)->start();
  (*stage)->push(&requests[0]);
  inside.acquire();
  for (size_t i = 1; i < requests.size(); ++i) (*stage)->push(&requests[i]);
  std::thread stopper([&] { (*stage)->stop(); });
  while (!(*stage)->stopping()) std::this_thread::yield();
  leave.release();
  leave.release();
  stopper.join();
  EXPECT_EQ(group.batches, 1u);
  request::Request* done = nullptr;
  EXPECT_EQ((*returned)->pop(&done, 1), 1u) << "the batch that ran is given back";
  EXPECT_EQ(done, &requests[0]);
  EXPECT_TRUE((*returned)->empty());
  std::free(requests[0].result.data);
}

}  // namespace
}  // namespace itif::pipeline::test
