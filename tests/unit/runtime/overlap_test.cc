// Two batches in flight on an asynchronous stream give the same results as each batch alone.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <span>

#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {
namespace {

using testing::Answer;
using testing::SmallGroup;
using testing::TestBatch;
using testing::TestRequest;
using wire::ResultKind;

// Requests to every tenant, for the result kinds of its head. `seed` determines lengths, ids and
// padding.
std::vector<TestRequest> all_kinds(uint32_t seed) {
  std::vector<TestRequest> inputs;
  const auto add = [&](uint32_t slot, ResultKind kind) {
    TestRequest& input = inputs.emplace_back();
    input.slot = slot;
    input.kind = kind;
    for (uint32_t t = 0; t < 1 + (seed * 5 + slot * 3) % 11; ++t)
      input.ids.push_back((seed * 31 + slot * 7 + t * 13) % 131);
    input.token_types.assign(input.ids.size(), seed % 2);
    input.padding = (seed + slot) % 3;
  };
  add(0, ResultKind::kHidden);
  add(1, ResultKind::kPooled);
  add(2, ResultKind::kEmbedding);
  for (const ResultKind kind : {ResultKind::kClasses, ResultKind::kLogits, ResultKind::kClasses})
    add(3, kind);
  add(4, ResultKind::kTokenLogits);
  return inputs;
}

// Compares words of 4 bytes. Floats may differ in their last bits, as from batch to batch on CPUs
// without AVX-512. Small integers are no normal floats, so they must be equal.
void expect_same_words(std::span<const std::byte> seen, std::span<const std::byte> alone) {
  ASSERT_EQ(seen.size(), alone.size());
  for (size_t at = 0; at < seen.size(); at += 4) {
    const size_t bytes = std::min<size_t>(4, seen.size() - at);
    if (std::memcmp(&seen[at], &alone[at], bytes) == 0) continue;
    float one = 0, other = 0;
    std::memcpy(&one, &seen[at], bytes);
    std::memcpy(&other, &alone[at], bytes);
    EXPECT_TRUE(std::isnormal(one) && std::isnormal(other)) << "byte " << at;
    EXPECT_NEAR(one, other, 1e-5f + 1e-4f * std::abs(other)) << "byte " << at;
  }
}

void expect_equal(const std::vector<Answer>& seen, const std::vector<Answer>& alone) {
  ASSERT_EQ(seen.size(), alone.size());
  for (size_t i = 0; i < seen.size(); ++i) {
    EXPECT_EQ(seen[i].status, alone[i].status) << i;
    EXPECT_EQ(seen[i].kind, alone[i].kind) << i;
    expect_same_words(seen[i].bytes, alone[i].bytes);
  }
}

class Overlap : public ::testing::TestWithParam<std::pair<const char*, backbone::FusionMode>> {};

TEST_P(Overlap, TwoBatchesInFlightEqualSingleBatches) {
  const auto device = testing::make_device(GetParam().first);
  ASSERT_TRUE(device);
  SmallGroup tenants(*device, testing::odd_spec(),
                     {.max_tokens = 200, .max_requests = 16, .max_tenants = 6},
                     {.fusion_mode = GetParam().second});
  EncoderGroup& group = *tenants.group;
  const SystemClock clock;
  const auto asynchronous =
      device->make_stream(group.stream_limits(), {.is_async = true, .clock = &clock}).value();

  constexpr uint32_t kBatches = 7;
  std::vector<std::vector<Answer>> alone;
  for (uint32_t i = 0; i < kBatches; ++i) {
    alone.push_back(testing::run_batch(group, *tenants.stream, all_kinds(i)));
    for (const Answer& answer : alone.back()) ASSERT_TRUE(answer.ok()) << answer.detail;
  }
  std::vector<std::unique_ptr<TestBatch>> batches;
  std::vector<device::Stream::Event> events;
  const auto finish = [&](uint32_t i) {
    Batch batch = batches[i]->batch();
    ASSERT_TRUE(group.finish(batch, i % 2, asynchronous->wait(events[i]).status));
    expect_equal(batches[i]->answers(), alone[i]);
  };
  for (uint32_t i = 0; i < kBatches; ++i) {
    batches.push_back(std::make_unique<TestBatch>(all_kinds(i)));
    Batch batch = batches[i]->batch();
    group.begin(*asynchronous, batch, i % 2);
    events.push_back(asynchronous->record());
    if (i > 0) finish(i - 1);
  }
  finish(kBatches - 1);
}

INSTANTIATE_TEST_SUITE_P(Devices, Overlap,
                         ::testing::Values(std::pair("plain", backbone::FusionMode::kFused),
                                           std::pair("plain", backbone::FusionMode::kThesis),
                                           std::pair("f32", backbone::FusionMode::kFused),
                                           std::pair("f32", backbone::FusionMode::kThesis)),
                         [](const auto& info) {
                           return std::string(info.param.first) +
                                  (info.param.second == backbone::FusionMode::kFused ? "Fused"
                                                                                     : "Thesis");
                         });

TEST(OverlapFault, EveryBatchInFlightFails) {
  testing::PlainDevice device;
  SmallGroup tenants(device);
  EncoderGroup& group = *tenants.group;
  const SystemClock clock;
  const auto asynchronous =
      device.make_stream(group.stream_limits(), {.is_async = true, .clock = &clock}).value();
  device.state().fail_synchronize = true;
  TestBatch first(all_kinds(1)), second(all_kinds(2));
  TestBatch* batches[] = {&first, &second};
  device::Stream::Event events[2];
  for (uint32_t flight_index = 0; flight_index < 2; ++flight_index) {
    Batch batch = batches[flight_index]->batch();
    group.begin(*asynchronous, batch, flight_index);
    events[flight_index] = asynchronous->record();
  }
  for (uint32_t flight_index = 0; flight_index < 2; ++flight_index) {
    Batch batch = batches[flight_index]->batch();
    EXPECT_FALSE(
        group.finish(batch, flight_index, asynchronous->wait(events[flight_index]).status));
    for (const Answer& answer : batches[flight_index]->answers()) {
      EXPECT_EQ(answer.status, wire::StatusCode::kDeviceFailed);
      EXPECT_TRUE(answer.bytes.empty());
    }
  }
}

}  // namespace
}  // namespace itif::runtime
