// Admission to a group's queue: refusals in their order, and when they are handed back.
#include "runtime/admission.h"

#include <string>

#include "support/executor_fixture.h"

namespace itif::runtime {
namespace {

using wire::StatusCode;

constexpr double kNoWait = 0;
constexpr uint32_t kFreeSlot = 3;

class AdmissionTest : public ::testing::Test, protected CompletionSink {
 protected:
  AdmissionTest() {
    group_.free_slot = kFreeSlot;
    options_.queue = {.max_requests = 4, .max_tenant_requests = 2, .max_slots = 4};
    options_.max_wait_ns = 1'000'000'000;
    policy_ = sched::make_policy("fcfs", {.queue = options_.queue}).value();
    admission_ = std::make_unique<Admission>(group_, clock_, options_, *policy_,
                                             InputOptions{.max_tokens = 8, .image = {}});
    clock_.advance_ns(1000);
  }
  void complete(std::span<request::Request* const> requests) noexcept override {
    completed_.insert(completed_.end(), requests.begin(), requests.end());
  }
  // Returns true if the request is in the queue.
  bool submit(request::Request& r, uint32_t slot = 0, double wait_ns = kNoWait,
              uint32_t num_ids = 2) {
    piece_ = {ids_, 2 * num_ids};
    r.slot = slot;
    r.payload_kind = wire::PayloadKind::kTokensU16;
    r.payload_bytes = piece_.bytes;
    r.pieces = {&piece_, 1};
    const auto* model = admission_->admit(&r, [&](const model::TenantModel&) { return wait_ns; });
    if (model == nullptr || !admission_->prepare(&r, *model)) return false;
    admission_->push(&r, {});
    return true;
  }
  size_t complete_refused() { return admission_->complete_refused(*this); }

  using Requests = std::vector<request::Request*>;
  alignas(4) const std::byte ids_[64] = {};
  request::Piece piece_;
  VirtualClock clock_;
  testing::TimedGroup group_;
  ExecutorOptions options_;
  std::unique_ptr<sched::BatchPolicy> policy_;
  std::unique_ptr<Admission> admission_;
  Requests completed_;
  request::Request a_, b_, c_;
};

TEST_F(AdmissionTest, QueuesARequestThatCanRun) {
  EXPECT_TRUE(submit(a_));
  EXPECT_EQ(policy_->queue().num_requests(), 1u);
  EXPECT_EQ(a_.num_tokens, 2u);
  EXPECT_EQ(complete_refused(), 0u);
}

TEST_F(AdmissionTest, RefusesARequestThatWouldWaitTooLong) {
  EXPECT_TRUE(submit(a_, 0, 1e9));
  EXPECT_FALSE(submit(b_, 0, 1.1e9));
  EXPECT_EQ(b_.status, StatusCode::kOverloaded);
  EXPECT_STREQ(b_.detail, "the tenant's requests wait longer than the group allows");
  EXPECT_EQ(b_.retry_after_us, 550'000u) << "half the wait";
  EXPECT_EQ(b_.done_ns, clock_.now_ns());
}

TEST_F(AdmissionTest, RefusesARequestThatWouldWaitPastItsDeadline) {
  a_.deadline_ns = b_.deadline_ns = c_.deadline_ns = clock_.now_ns() + 50'000'000;
  EXPECT_TRUE(submit(a_, 0, 49e6));
  EXPECT_FALSE(submit(b_, 0, 50e6));
  EXPECT_EQ(b_.status, StatusCode::kOverloaded);
  EXPECT_STREQ(b_.detail, "the tenant's requests wait longer than the deadline allows");
  EXPECT_EQ(b_.retry_after_us, 25'000u);
  clock_.advance_ns(50'000'000);
  EXPECT_TRUE(submit(c_, 1, kNoWait)) << "nothing is ahead: the policy decides";
}

TEST_F(AdmissionTest, ClampsTheTimeToRetry) {
  EXPECT_TRUE(submit(a_));
  EXPECT_TRUE(submit(b_));
  EXPECT_FALSE(submit(c_)) << "the tenant's queue is full";
  EXPECT_STREQ(c_.detail, "the group's queue, or the tenant's share of it, is full");
  EXPECT_EQ(c_.retry_after_us, 1000u);
  EXPECT_FALSE(submit(c_, 1, 1e12));
  EXPECT_EQ(c_.retry_after_us, 10'000'000u);
}

TEST_F(AdmissionTest, RefusesBeforeItReadsThePayload) {
  constexpr uint32_t kTooMany = 9;
  EXPECT_FALSE(submit(a_, kFreeSlot, 1e12, kTooMany));
  EXPECT_EQ(a_.status, StatusCode::kNotAdmitted);
  EXPECT_FALSE(submit(a_, 0, 1e12, kTooMany));
  EXPECT_EQ(a_.status, StatusCode::kOverloaded);
  EXPECT_FALSE(submit(a_, 0, kNoWait, kTooMany));
  EXPECT_EQ(a_.status, StatusCode::kTooLong);
}

TEST_F(AdmissionTest, AFailedDeviceRefusesQueuedAndLaterRequests) {
  ASSERT_TRUE(submit(a_));
  ASSERT_TRUE(submit(b_, 1));
  admission_->fail_device();
  EXPECT_TRUE(admission_->device_failed());
  EXPECT_EQ(policy_->queue().num_requests(), 0u);
  EXPECT_FALSE(submit(c_, kFreeSlot));
  EXPECT_TRUE(completed_.empty());
  EXPECT_EQ(complete_refused(), 3u);
  EXPECT_EQ(completed_, (Requests{&a_, &b_, &c_}));
  for (const request::Request* r : completed_) {
    EXPECT_EQ(r->status, StatusCode::kDeviceFailed);
    EXPECT_STREQ(r->detail, "the group's device has failed");
  }
  EXPECT_EQ(complete_refused(), 0u) << "each once";
}

TEST_F(AdmissionTest, ALateRequestsStatusSaysWhy) {
  const sched::Refused passed{&a_, sched::DeadlineMiss::kPassed};
  const sched::Refused too_soon{&b_, sched::DeadlineMiss::kTooSoon};
  EXPECT_FALSE(admission_->refuse(std::span(&passed, 1)));
  EXPECT_TRUE(admission_->refuse(std::span(&too_soon, 1))) << "by an estimate";
  EXPECT_EQ(a_.status, StatusCode::kDeadlineQueue);
  EXPECT_EQ(b_.status, StatusCode::kDeadlineLaunch);
  const sched::Refused waited{&c_, sched::DeadlineMiss::kWaitedTooLong};
  EXPECT_FALSE(admission_->refuse(std::span(&waited, 1)));
  EXPECT_EQ(c_.status, StatusCode::kOverloaded);
  EXPECT_EQ(c_.retry_after_us, 500'000u) << "half the longest wait";
  EXPECT_EQ(complete_refused(), 3u);
}

// Its worker has answered it, so the group neither runs nor refuses it.
TEST_F(AdmissionTest, AnExpiredRequestIsHandedBackWithoutAnOutcome) {
  constexpr uint32_t kTooMany = 9;
  for (request::Request* r : {&a_, &b_, &c_}) r->deadline_ns = 1;
  request::expire(a_);
  EXPECT_FALSE(submit(a_, 0, 1e12, kTooMany));
  ASSERT_TRUE(submit(b_));
  request::expire(b_);
  ASSERT_TRUE(submit(c_, 1));
  request::expire(c_);
  admission_->fail_device();
  EXPECT_EQ(complete_refused(), 3u);
  EXPECT_EQ(completed_, (Requests{&a_, &b_, &c_}));
  for (const request::Request* r : completed_) {
    EXPECT_EQ(r->status, StatusCode::kOk);
    EXPECT_STREQ(r->detail, "");
    EXPECT_EQ(r->retry_after_us, 0u);
  }
}

}  // namespace
}  // namespace itif::runtime
