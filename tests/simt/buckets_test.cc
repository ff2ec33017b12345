// Small batches on the CUDA device: after the warm-up of its graph buckets, every small batch is
// one graph, for any tenants and any lengths of requests.
#include <gtest/gtest.h>

#include <random>

#include "device/cuda/device.h"
#include "make_adapter.h"
#include "runtime.h"
#include "support/generation.h"
#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {
namespace {

using testing::Answer;
using testing::SmallGroup;
using testing::TestRequest;

constexpr GroupOptions kOptions = {.max_tokens = 128, .max_requests = 16, .max_tenants = 6};
constexpr uint32_t kVocab = 131;

class Buckets : public ::testing::TestWithParam<std::string> {
 protected:
  Buckets()
      : device_(device::open_cuda_device({.kind = "cuda",
                                          .dtype = GetParam() == "f32" ? "f32" : "bf16",
                                          .attention = is_cudnn() ? "cudnn" : "itif"})
                    .value()),
        all_(*device_, spec(), kOptions) {}
  static bool is_cudnn() { return GetParam() == "cudnn"; }
  static model::BackboneSpec spec() {
    model::BackboneSpec spec = testing::odd_spec();
    if (is_cudnn()) {  // heads that cuDNN supports, and rows aligned for products by pointers
      spec.hidden = 24;
      spec.intermediate = 40;
    }
    return spec;
  }

  uint32_t any(uint32_t most) { return static_cast<uint32_t>(random_() % most); }
  TestRequest input(uint32_t slot, uint32_t length) {
    TestRequest input{.slot = slot};
    for (uint32_t i = 0; i < length; ++i) input.ids.push_back(any(kVocab));
    return input;
  }
  // Returns requests of up to three tenants.
  std::vector<TestRequest> small_batch() {
    std::vector<TestRequest> inputs;
    for (uint32_t i = 0, count = 1 + any(3); i < count; ++i)
      inputs.push_back(input(any(5), 1 + any(any(8) == 0 ? 32 : 12)));
    std::ranges::sort(inputs, {}, &TestRequest::slot);
    return inputs;
  }
  std::vector<Answer> run(const std::vector<TestRequest>& inputs) {
    return run_batch(*all_.group, *all_.stream, inputs);
  }
  void warm_up() {
    for (size_t bucket = 0; bucket < all_.group->num_buckets(); ++bucket)
      ASSERT_TRUE(all_.group->warm_up(*all_.stream, bucket));
  }
  device::Stream::Graphs graphs() const { return all_.stream->graphs(); }

  std::mt19937 random_{3};
  std::unique_ptr<device::Device> device_;
  SmallGroup all_;
};

TEST_P(Buckets, AfterWarmUpEverySmallBatchIsOneGraph) {
  const simt::Counts before_all = simt::counts();
  warm_up();
  EXPECT_EQ(graphs().failures, 0u);
  EXPECT_EQ(simt::counts().cudnn_calls > before_all.cudnn_calls, is_cudnn());
  // cuDNN's plans may need memory.
  const uint64_t allocations = is_cudnn() ? simt::counts().allocations : before_all.allocations;
  // Buckets may share a cuDNN plan, and with it all launches.
  const uint64_t kept = graphs().kept;
  if (is_cudnn())
    EXPECT_GT(kept, all_.group->num_buckets() / 2);
  else
    ASSERT_EQ(kept, all_.group->num_buckets());
  for (uint32_t slot = 0; slot < 5; ++slot) {
    const uint64_t before = graphs().launches;
    EXPECT_TRUE(run({input(slot, 1 + any(41))})[0].ok());
    EXPECT_EQ(graphs().launches, before + 1) << "the first request of tenant " << slot;
  }
  const uint64_t before = graphs().launches;
  for (int turn = 0; turn < 200; ++turn) run(small_batch());
  EXPECT_EQ(graphs().kept, kept) << "no batch needed another graph";
  EXPECT_EQ(graphs().launches, before + 200);
  EXPECT_EQ(simt::counts().allocations, allocations);
}

// A group of one layer, without a head, has too few launches for a graph.
TEST(BucketsOfFewLaunches, AreCountedAsFailures) {
  const auto device = device::open_cuda_device({.kind = "cuda", .dtype = "f32"}).value();
  model::BackboneSpec spec = testing::odd_spec();
  spec.layers = 1;
  SmallGroup small(*device, spec, kOptions);
  ASSERT_GT(small.group->num_buckets(), 0u);
  ASSERT_TRUE(small.group->warm_up(*small.stream, 0));
  EXPECT_EQ(small.stream->graphs().failures + small.stream->graphs().kept, 1u);
}

TEST_P(Buckets, LargestFirstBatchAllocatesNothing) {
  if (is_cudnn()) warm_up();
  const uint64_t allocations = simt::counts().allocations;
  std::vector<TestRequest> inputs;
  for (uint32_t i = 0; i < kOptions.max_requests; ++i) {
    inputs.push_back(
        input(i * 5 / kOptions.max_requests, kOptions.max_tokens / kOptions.max_requests));
    inputs.back().kind = wire::ResultKind::kHidden;
  }
  for (const Answer& answer : run(inputs)) EXPECT_TRUE(answer.ok());
  EXPECT_EQ(simt::counts().allocations, allocations);
}

TEST_P(Buckets, TenantsShareGraphs) {
  run({input(0, 9), input(1, 12)});
  run({input(2, 3), input(4, 16)});
  run({input(0, 9), input(1, 2), input(2, 5)});
  run({input(2, 3), input(4, 16), input(0, 1)});
  ASSERT_EQ(graphs().kept, 2u);
  const uint64_t before = graphs().launches;
  EXPECT_TRUE(run({input(4, 16)})[0].ok()) << "in the bucket of two ranges";
  EXPECT_TRUE(run({input(1, 1), input(3, 5), input(4, 2)})[0].ok());
  EXPECT_EQ(graphs().kept, 2u);
  EXPECT_EQ(graphs().launches, before + 2);
}

// A graph reads the batch's adapters when it is replayed.
TEST_P(Buckets, AdaptersShareGraphs) {
  for (const uint32_t slot : {3u, 4u}) all_.group->release(slot);
  std::vector<uint32_t> slots;
  for (const uint32_t rank : {4u, 20u}) {
    const std::string adapter = all_.files.file("adapter" + std::to_string(rank));
    ASSERT_TRUE(mkmodel::make_adapter({.spec = spec(), .rank = rank, .range = 0.3f}, adapter));
    slots.push_back(all_.group->admit({adapter, all_.directories[0]}, nullptr).value());
  }
  const std::vector<TestRequest> one = {input(slots[0], 9), input(1, 12)};
  run({input(0, 9), input(1, 12)});
  run({input(0, 9), input(1, 12)});
  ASSERT_EQ(graphs().kept, 1u);
  const std::vector<Answer> expected = run(one);
  run(one);
  ASSERT_EQ(graphs().kept, 2u) << "updates are further launches";
  for (int turn = 0; turn < 8; ++turn) {
    const uint64_t before = graphs().launches;
    for (const Answer& answer : run({input(slots[turn % 2], 1 + any(12)), input(2, 1 + any(12))}))
      EXPECT_TRUE(answer.ok());
    const std::vector<Answer> again = run(one);
    EXPECT_EQ(graphs().launches, before + 2);
    EXPECT_EQ(graphs().kept, 2u);
    for (size_t i = 0; i < one.size(); ++i)
      EXPECT_EQ(again[i].bytes, expected[i].bytes) << "replayed after other batches";
  }
}

// Batch rows of the planner concat: the requests of two or three tenants share a score matrix.
TEST_P(Buckets, BatchRowsShareGraphs) {
  const auto rows = [&](std::vector<TestRequest> inputs) {
    for (TestRequest& input : inputs) input.score_matrix = 0;
    inputs.back().padding = any(4);
    return inputs;
  };
  const std::vector<TestRequest> two = {input(0, 9), input(1, 12)};
  run(two);  // a graph is captured the second time
  const std::vector<Answer> packed = run(two);
  ASSERT_EQ(graphs().kept, 1u);
  run(rows(two));
  const std::vector<Answer> expected = run(rows(two));
  ASSERT_EQ(graphs().kept, 2u) << "masked attention is another graph";
  for (int turn = 0; turn < 8; ++turn) {
    const uint64_t before = graphs().launches;
    for (const Answer& answer : run(rows({input(2, 1 + any(12)), input(4, 1 + any(12))})))
      EXPECT_TRUE(answer.ok());
    // Two batch rows.
    std::vector<TestRequest> apart = {input(2, 1 + any(12)), input(3, 1 + any(12))};
    for (uint32_t i = 0; i < 2; ++i) apart[i].score_matrix = i;
    for (const Answer& answer : run(apart)) EXPECT_TRUE(answer.ok());
    const std::vector<Answer> again = run(rows(two));
    EXPECT_EQ(graphs().launches, before + 3);
    EXPECT_EQ(graphs().kept, 2u);
    for (size_t i = 0; i < two.size(); ++i) {
      EXPECT_EQ(again[i].bytes, expected[i].bytes) << "replayed after other batches";
      EXPECT_GT(testing::cosine(again[i].floats(), packed[i].floats()), 0.999);
    }
  }
}

// The answer does not depend on earlier contents of padding rows, on other requests, or on
// replaying a graph.
TEST_P(Buckets, AnswerIsSameInEveryBatchOfItsBucket) {
  const std::vector<TestRequest> one = {input(2, 11), input(3, 14)};
  const std::vector<Answer> expected = run(one);
  for (int turn = 0; turn < 8; ++turn) {
    run(small_batch());
    const std::vector<Answer> again = run(one);
    for (size_t i = 0; i < one.size(); ++i) EXPECT_EQ(again[i].bytes, expected[i].bytes);
    const std::vector<Answer> beside_others = run({one[0], input(3, 5), input(3, 2)});
    EXPECT_EQ(beside_others[0].bytes, expected[0].bytes);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Buckets, ::testing::Values("f32", "bf16", "cudnn"),
                         [](const auto& info) { return info.param; });

// Compares batches in graph buckets with the host's, which have no padding.
TEST(CudaBuckets, AgreeWithTheHost) {
  const auto device = device::open_cuda_device({.kind = "cuda", .dtype = "f32"}).value();
  SmallGroup on_cuda(*device, testing::odd_spec(), kOptions);
  testing::PlainDevice plain;
  SmallGroup on_host(plain, testing::odd_spec(), kOptions);
  std::mt19937 random(5);
  for (int turn = 0; turn < 15; ++turn) {
    std::vector<TestRequest> inputs(1 + random() % 4);
    for (TestRequest& input : inputs) {
      input.slot = random() % 5;
      for (uint32_t i = 0, length = 1 + random() % 30; i < length; ++i)
        input.ids.push_back(random() % kVocab);
    }
    std::ranges::sort(inputs, {}, &TestRequest::slot);
    const auto expected = run_batch(*on_host.group, *on_host.stream, inputs);
    // In every third batch, the requests share batch rows.
    for (size_t i = 0; turn % 3 == 2 && i < inputs.size(); ++i) {
      inputs[i].score_matrix = static_cast<uint32_t>(i / 2);
      if (i % 2 == 1) inputs[i].padding = random() % 4;
    }
    const auto answers = run_batch(*on_cuda.group, *on_cuda.stream, inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      ASSERT_EQ(answers[i].bytes.size(), expected[i].bytes.size());
      if (answers[i].kind == wire::ResultKind::kClasses) continue;  // names between the numbers
      EXPECT_LT(testing::max_difference(answers[i].floats(), expected[i].floats()), 1e-4)
          << "turn " << turn << ", tenant " << inputs[i].slot;
    }
  }
}

// A sequence grows by a token per step, and so does what its steps read. Block copies and new
// sources of any tenant come before some steps.
class Steps : public Generation {
 protected:
  void release_packets(std::span<request::Request* const> requests) noexcept override {
    ++num_encoded_;
    Generation::release_packets(requests);
  }
  void run_step() { num_steps_ += step().num_tokens > 0; }
  size_t num_steps_ = 0, num_encoded_ = 0;  // steps, and encodings of sources before them
};

TEST_F(Steps, AfterWarmUpEveryStepIsOneGraph) {
  open("beams-4", {.max_beams = 16});
  admit("beams-3-smaller");
  for (size_t bucket = 0; bucket < group_->num_buckets(); ++bucket)
    ASSERT_TRUE(group_->warm_up(*stream_, bucket));
  const uint64_t kept = stream_->graphs().kept, allocations = simt::counts().allocations;
  ASSERT_EQ(kept, group_->num_buckets());
  const std::vector<Case> cases[] = {cases_of("beams-4"), cases_of("beams-3-smaller")};
  std::vector<std::pair<const request::Request*, const Case*>> all;
  for (size_t i = 0; i < 2 * cases[0].size(); ++i) {
    const Case& c = cases[i % 2][i / 2];
    all.emplace_back(&submit(c.ids, i % 2), &c);
    for (size_t steps = 0; steps < 3; ++steps) run_step();
  }
  while (completed_ < requests_.size()) run_step();
  for (const auto& [request, c] : all) expect_tokens(*request, c->tokens);
  EXPECT_EQ(stream_->graphs().kept, kept) << "no step needed another graph";
  EXPECT_EQ(stream_->graphs().launches, num_steps_ + num_encoded_);
  EXPECT_EQ(simt::counts().allocations, allocations);
}

}  // namespace
}  // namespace itif::runtime
