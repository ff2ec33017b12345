// The memory for the outputs of all heads of a group, and batches that it is divided among.
#include "runtime/head_scratch.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {
namespace {

using model::HeadKind;
using wire::ResultKind;

constexpr GroupOptions kScratchOptions{.max_tokens = 100, .max_requests = 8, .max_tenants = 16};

model::HeadSpec classifier(size_t labels, HeadKind kind = HeadKind::kClassification) {
  model::HeadSpec head;
  head.kind = kind;
  head.classifier.emplace_back();
  head.labels.resize(labels);
  return head;
}

class HeadScratchTest : public ::testing::Test {
 protected:
  size_t live() { return device_.state().buffer_bytes; }

  testing::PlainDevice device_;
  HeadScratch scratch_{device_, kScratchOptions};
};

TEST_F(HeadScratchTest, IsAsLargeAsTheLargestHeadNeeds) {
  const auto large = classifier(1000), small = classifier(12);
  const auto tokens = classifier(20, HeadKind::kTokenClassification);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(scratch_.add(small));
  EXPECT_EQ(live(), 8u * 12 * sizeof(float));
  EXPECT_EQ(scratch_.added_bytes(small), 0u);
  EXPECT_EQ(scratch_.added_bytes(large), 8u * 1000 * sizeof(float));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(scratch_.add(large));
  EXPECT_EQ(live(), 8u * 1000 * sizeof(float));
  // A batch may have requests of both.
  EXPECT_EQ(scratch_.added_bytes(tokens), (8u * 1000 + 100 * 20) * sizeof(float));
  ASSERT_TRUE(scratch_.add(tokens));
  EXPECT_EQ(live(), (8u * 1000 + 100 * 20) * sizeof(float));
  EXPECT_EQ(scratch_.bytes(), live());
}

TEST_F(HeadScratchTest, ShrinksWhenTheLargestHeadIsRemoved) {
  const auto large = classifier(1000), small = classifier(12);
  ASSERT_TRUE(scratch_.add(small));
  ASSERT_TRUE(scratch_.add(large));
  ASSERT_TRUE(scratch_.add(large));
  scratch_.remove(large);
  EXPECT_EQ(live(), 8u * 1000 * sizeof(float));
  scratch_.remove(large);
  EXPECT_EQ(live(), 8u * 12 * sizeof(float));
  scratch_.remove(small);
  EXPECT_EQ(live(), 0u);
  EXPECT_EQ(scratch_.bytes(), 0u);
}

TEST_F(HeadScratchTest, WithoutMemoryNothingChanges) {
  const auto large = classifier(1000), small = classifier(12);
  ASSERT_TRUE(scratch_.add(small));
  device_.state().allocations_until_failure = 0;
  EXPECT_EQ(scratch_.add(large).error().code, Code::kResourceExhausted);
  EXPECT_EQ(scratch_.bytes(), 8u * 12 * sizeof(float));
  device_.state().allocations_until_failure = -1;
  ASSERT_TRUE(scratch_.add(large));
  device_.state().allocations_until_failure = 0;
  scratch_.remove(large);  // keeps the larger memory
  EXPECT_EQ(scratch_.bytes(), 8u * 1000 * sizeof(float));
  scratch_.remove(small);
  EXPECT_EQ(live(), 0u);
}

TEST_F(HeadScratchTest, MemoryThatABatchHoldsIsFreedAfterIt) {
  const auto large = classifier(1000), small = classifier(12);
  ASSERT_TRUE(scratch_.add(small));
  HeadScratch::Memory& held = scratch_.hold(1);
  ASSERT_TRUE(scratch_.add(large));
  EXPECT_EQ(live(), 8u * (12 + 1000) * sizeof(float));
  EXPECT_EQ(scratch_.bytes(), live());
  EXPECT_EQ(scratch_.held(1), &held);
  EXPECT_NE(&scratch_.hold(0), &held);
  scratch_.drop(1);
  ASSERT_TRUE(scratch_.add(large));
  scratch_.remove(small);
  EXPECT_EQ(live(), 8u * 1000 * sizeof(float));
  scratch_.drop(0);
}

class SharedHeadScratch : public ::testing::Test {
 protected:
  SharedHeadScratch()
      : group_(make_encoder_group(device_, testing::odd_spec(), kScratchOptions).value()),
        stream_(device_.make_stream(group_->stream_limits()).value()) {}

  std::string make(mkmodel::HeadChoice head, size_t num_labels) {
    auto options = testing::loud_model(testing::odd_spec(), head, 1);  // one encoder
    options.is_tuned = [](const std::string& tensor) { return tensor.starts_with("classifier"); };
    options.tuned_seed = ++seed_;
    for (size_t i = 0; i < num_labels; ++i) options.labels.push_back("label" + std::to_string(i));
    const std::string directory = files_.file("m" + std::to_string(seed_));
    EXPECT_TRUE(mkmodel::make_model(options, directory));
    return directory;
  }
  std::vector<std::byte> answer(uint32_t slot, ResultKind kind) {
    return testing::run_batch(*group_, *stream_, {{.slot = slot, .ids = kIds, .kind = kind}})[0]
        .bytes;
  }

  const std::vector<uint32_t> kIds = {3, 1, 4, 1, 5};
  uint64_t seed_ = 0;
  testing::PlainDevice device_;
  testing::TempDirectory files_;
  std::unique_ptr<EncoderGroup> group_;
  std::unique_ptr<device::Stream> stream_;
};

// 1,000 labels and a hidden size of 21: the outputs of a batch are larger than the head.
TEST_F(SharedHeadScratch, ManyTenantsWithManyLabelsTakeOneAndTheirHeads) {
  constexpr uint32_t kTenants = 12;
  const size_t none = device_.state().buffer_bytes;
  uint64_t alone = 0, head_bytes = 0;
  for (uint32_t i = 0; i < kTenants; ++i) {
    const uint32_t slot =
        group_->admit(make(mkmodel::HeadChoice::kClassification, 1000), nullptr).value();
    if (i == 0) {
      alone = group_->weight_bytes();
      EXPECT_EQ(group_->model(slot)->weight_bytes, alone);
    }
    // The pooler is shared.
    head_bytes += (21 + 1) * 1000 * sizeof(float);
  }
  const uint64_t one_head = (21 + 1) * 1000 * sizeof(float);
  EXPECT_EQ(group_->weight_bytes(), alone + head_bytes - one_head);
  EXPECT_EQ(device_.state().buffer_bytes - none,
            head_bytes + (21 + 1) * 21 * sizeof(float) + 8 * 1000 * sizeof(float));
  for (uint32_t slot = 0; slot < kTenants; ++slot) group_->release(slot);
  EXPECT_EQ(device_.state().buffer_bytes, none);
  EXPECT_EQ(group_->weight_bytes(), 0u);
}

// Each tenant of a batch has a part of the memory: the answers are those of batches of one.
TEST_F(SharedHeadScratch, ABatchOfManyHeadsAnswersAsEachAlone) {
  using enum mkmodel::HeadChoice;
  std::vector<testing::TestRequest> requests;
  std::vector<std::vector<std::byte>> alone;
  const auto add = [&](mkmodel::HeadChoice head, size_t labels, ResultKind kind) {
    const uint32_t slot = group_->admit(make(head, labels), nullptr).value();
    requests.push_back({.slot = slot, .ids = kIds, .kind = kind});
    alone.push_back(answer(slot, kind));
  };
  add(kClassification, 3, ResultKind::kClasses);
  add(kTokenClassification, 5, ResultKind::kTokenLogits);
  add(kClassification, 7, ResultKind::kPooled);
  add(kClassification, 9, ResultKind::kLogits);
  add(kClassification, 50, ResultKind::kClasses);
  add(kTokenClassification, 2, ResultKind::kTokenLogits);
  requests.push_back(requests[4]);
  alone.push_back(alone[4]);
  requests.push_back(requests[0]);
  alone.push_back(alone[0]);
  const auto answers = testing::run_batch(*group_, *stream_, requests);
  for (size_t i = 0; i < answers.size(); ++i) EXPECT_EQ(answers[i].bytes, alone[i]) << i;
}

// The batch keeps the memory in which its outputs are.
TEST_F(SharedHeadScratch, ALargerHeadIsAdmittedWhileABatchIsInFlight) {
  const uint32_t slot =
      group_->admit(make(mkmodel::HeadChoice::kClassification, 3), nullptr).value();
  const auto alone = answer(slot, ResultKind::kClasses);
  testing::TestBatch test({{.slot = slot, .ids = kIds, .kind = ResultKind::kClasses}});
  Batch batch = test.batch();
  group_->begin(*stream_, batch, 1);
  const uint32_t larger =
      group_->admit(make(mkmodel::HeadChoice::kClassification, 400), nullptr).value();
  const auto of_larger = answer(larger, ResultKind::kClasses);
  ASSERT_TRUE(group_->finish(batch, 1, stream_->synchronize()));
  EXPECT_EQ(test.answers()[0].bytes, alone);
  EXPECT_EQ(answer(larger, ResultKind::kClasses), of_larger);
}

TEST_F(SharedHeadScratch, TenantsComeAndGoWhileBatchesRun) {
  const uint32_t slot =
      group_->admit(make(mkmodel::HeadChoice::kClassification, 5), nullptr).value();
  const auto alone = answer(slot, ResultKind::kClasses);
  const std::string other = make(mkmodel::HeadChoice::kClassification, 60);
  std::atomic<bool> ends = false;
  std::thread control([&] {
    for (int i = 0; i < 100; ++i) group_->release(group_->admit(other, nullptr).value());
    ends = true;
  });
  while (!ends) EXPECT_EQ(answer(slot, ResultKind::kClasses), alone);
  control.join();
}

}  // namespace
}  // namespace itif::runtime
