// A worker and the versions of a tenant's model: which one answers, what the response says, counts.
#include <gtest/gtest.h>

#include <algorithm>

#include "telemetry/version_counts.h"
#include "worker_fixture.h"

namespace itif::pipeline::test {
namespace {

using wire::StatusCode;
using wire::Type;

class VersionTest : public WorkerTest {
 protected:
  void SetUp() override {
    WorkerTest::SetUp();
    lease->counts = std::make_shared<telemetry::VersionCounts>(1);
    canary_lease->counts = std::make_shared<telemetry::VersionCounts>(1);
  }
  // A tenant with version 2 as a canary.
  tenant::Tenant with_canary(uint32_t percent) const {
    tenant::Tenant t = default_tenant();
    t.canary = static_cast<tenant::ServedModel>(t);
    t.canary->version = 2;
    t.canary->slot = 1;
    t.canary->lease = canary_lease;
    t.canary_percent = percent;
    return t;
  }
  wire::Header asking(uint64_t id, uint32_t total_bytes) const {
    wire::Header header = request(id, total_bytes);
    header.flags = wire::kFlagModelVersion;
    return header;
  }

  std::shared_ptr<tenant::Lease> canary_lease = std::make_shared<tenant::Lease>(1);
};

TEST_F(VersionTest, ResponseSaysTheVersionIfAsked) {
  send(datagrams(request(1, 2), token_payload({9}))[0]);
  const Bytes asks = datagrams(asking(2, 2), token_payload({9}))[0];
  send(asks);
  run();
  auto got = answers();
  ASSERT_EQ(got.size(), 2u);
  std::ranges::sort(got, {}, [](const Answer& a) { return uint64_t{a.header.request_id}; });
  EXPECT_EQ(wire::model_version(got[0].header), std::nullopt);
  EXPECT_EQ(wire::model_version(got[1].header), 1);
  tenant::Tenant next = default_tenant();
  next.version = 2;
  publish({next});
  send(asks);
  run();
  EXPECT_EQ(wire::model_version(answers().at(0).header), 1) << "the cached answer";
  send(datagrams(asking(3, 2), token_payload({9}))[0]);
  run();
  EXPECT_EQ(wire::model_version(answers().at(0).header), 2);
}

TEST_F(VersionTest, EveryPieceOfAResponseSaysTheVersion) {
  group->per_token = 400;
  send(datagrams(asking(1, 8), token_payload({1, 2, 3, 4}))[0]);
  run();
  const auto got = answers();
  EXPECT_GT(got.size(), 1u);
  for (const Answer& answer : got) EXPECT_EQ(wire::model_version(answer.header), 1);
}

TEST_F(VersionTest, RequestBelongsToTheVersionOfItsFirstPiece) {
  const auto pieces = datagrams(asking(1, 100), token_payload(50));
  send(pieces[1]);
  run();
  EXPECT_EQ(lease->num_in_flight(), 1u);
  tenant::Tenant next = default_tenant();
  next.version = 2;
  next.slot = 1;
  next.lease = canary_lease;
  publish({next});
  send(pieces[0]);
  run();
  EXPECT_EQ(wire::model_version(answers().at(0).header), 1);
  EXPECT_EQ(lease->num_in_flight(), 0u);
  EXPECT_EQ(lease->counts->sum().answered, 1u);
  EXPECT_EQ(canary_lease->counts->sum().answered, 0u);
}

TEST_F(VersionTest, CanaryAnswersItsPartAndRepeatsGetTheSameVersion) {
  publish({with_canary(30)});
  constexpr uint64_t kRequests = 200;
  uint64_t by_canary = 0;
  for (uint64_t id = 1; id <= kRequests; ++id) {
    wire::Header header = asking(id, 2);
    header.flags |= wire::kFlagNoCache;  // so that a repeat runs again
    const Bytes datagram = datagrams(header, token_payload({9}))[0];
    uint32_t version = 0;
    for (int repeat = 0; repeat < 2; ++repeat) {
      send(datagram);
      run();
      const auto got = answers();
      ASSERT_EQ(got.size(), 1u);
      if (repeat > 0) {
        EXPECT_EQ(wire::model_version(got[0].header), version);
      }
      version = *wire::model_version(got[0].header);
    }
    by_canary += version == 2;
  }
  EXPECT_NEAR(static_cast<double>(by_canary), 0.3 * kRequests, 0.12 * kRequests);
  EXPECT_EQ(canary_lease->counts->sum().answered, 2 * by_canary);
  EXPECT_EQ(lease->counts->sum().answered, 2 * (kRequests - by_canary));
}

TEST_F(VersionTest, StatusesCountAsErrorsOfTheVersion) {
  tenant::Tenant t = with_canary(99);
  t.canary->max_payload_bytes = 8;
  publish({t});
  uint64_t refused = 0;
  for (uint64_t id = 1; id <= 50; ++id) {
    send(datagrams(asking(id, 10), token_payload(5))[0]);
    run();
    for (const Answer& answer : answers()) refused += answer.header.status == StatusCode::kTooLong;
  }
  EXPECT_GT(refused, 40u);
  EXPECT_EQ(canary_lease->counts->sum().errors, refused) << "refused before it was accepted";
  EXPECT_EQ(canary_lease->num_in_flight(), 0u);

  t.canary->max_payload_bytes = 8192;
  publish({t});
  group->fail_next = true;
  uint64_t failed = 0;
  for (uint64_t id = 101; id <= 110; ++id) {
    send(datagrams(asking(id, 2), token_payload({9}))[0]);
    run();
    for (const Answer& answer : answers())
      failed += answer.header.status == StatusCode::kDeviceFailed;
  }
  EXPECT_EQ(failed, 10u);
  EXPECT_EQ(canary_lease->counts->sum().errors + lease->counts->sum().errors, refused + failed);
  EXPECT_EQ(canary_lease->num_in_flight(), 0u);
}

// `itifctl tenant versions` counted these as errors, so that a canary under load looked broken.
TEST_F(VersionTest, RefusalsForTheLoadAreNoErrorsOfTheVersion) {
  uint64_t id = 0;
  const auto ask = [&](StatusCode status) {
    group->refuse_with = status;
    send(datagrams(asking(++id, 2), token_payload({9}))[0]);
    run();
    EXPECT_EQ(answers().at(0).header.status, status);
  };
  for (const StatusCode status : {StatusCode::kOverloaded, StatusCode::kOverQuota,
                                  StatusCode::kDraining, StatusCode::kNotAdmitted})
    ask(status);
  EXPECT_EQ(lease->counts->sum().refused, 4u);
  EXPECT_EQ(lease->counts->sum().errors, 0u);
  for (const StatusCode status :
       {StatusCode::kInternal, StatusCode::kMalformed, StatusCode::kDeadlineLaunch})
    ask(status);
  EXPECT_EQ(lease->counts->sum().refused, 4u);
  EXPECT_EQ(lease->counts->sum().errors, 3u);
  EXPECT_EQ(lease->num_in_flight(), 0u);
}

}  // namespace
}  // namespace itif::pipeline::test
