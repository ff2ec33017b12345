// Complete generations: small MarianMT models must give the token ids of transformers' generate()
// (tests/reference/make_generation_goldens.py) in any batch and with any size of the K/V cache.
#include "support/generation.h"

#include <map>
#include <set>
#include <string>

#include "base/random.h"
#include "support/plain_device.h"

namespace itif::runtime {
namespace {

using wire::StatusCode;

INSTANTIATE_TEST_SUITE_P(, GenerationBothWays, ::testing::Bool(), [](const auto& info) {
  return info.param ? "Asynchronous" : "Synchronous";
});

// Covers the GEMMs of sources and of steps, including the projection onto the vocabulary.
TEST_F(Generation, SchedulesFollowTheGroupsCosts) {
  auto made = std::make_unique<testing::PlainDevice>(2);
  std::vector<kernels::ShapeMode>& launched = made->state().gemms;
  open("beams-4", {}, std::move(made));
  admit("beams-3-smaller");
  const uint32_t hidden = group_->spec().hidden, vocab = group_->spec().vocab;
  const auto modes = [&] {
    launched.clear();
    submit(cases_of("beams-4").front().ids, 0);
    submit(cases_of("beams-3-smaller").front().ids, 1);
    step();
    std::map<std::pair<uint32_t, uint32_t>, std::set<kernels::GemmMode>> by_shape;
    for (const kernels::ShapeMode& gemm : launched) by_shape[{gemm.n, gemm.k}].insert(gemm.mode);
    run_all();
    return by_shape;
  };
  using enum kernels::GemmMode;
  for (const auto& [shape, of] : modes()) EXPECT_EQ(of, std::set{kConcurrent}) << shape.first;

  auto costs = std::make_shared<plan::CostTables>();
  costs->device = costs->backbone = "any";
  costs->range_counts = {2};
  costs->range_rows = {4};
  costs->shared_gemms = {{hidden, hidden, {1}, {9}}, {vocab, hidden, {1}, {9}}};
  ASSERT_TRUE(plan::validate(*costs));
  group_->set_costs(costs);
  for (const auto& [shape, of] : modes()) {
    const bool named = shape.second == hidden && (shape.first == hidden || shape.first == vocab);
    EXPECT_EQ(of, std::set{named ? kSequential : kConcurrent})
        << shape.first << " x " << shape.second;
  }
  // The list of GEMMs to profile marks those of a step.
  std::set<uint32_t> of_step;
  for (const backbone::GemmUse& use : group_->gemms())
    if (use.in_step) of_step.insert(use.shape.n);
  EXPECT_TRUE(of_step.contains(vocab) && of_step.contains(3 * hidden));
  EXPECT_FALSE(of_step.contains(2 * hidden));  // keys and values of sources
}

// Adapters of models that generate are merged into weights of their own
// (tests/reference/make_adapter_goldens.py).
TEST_F(Generation, MergesAdapters) {
  const std::string adapter = testing::test_data("generation_adapters/marian");
  std::ifstream file(adapter + "/golden.json");
  const nlohmann::json golden = nlohmann::json::parse(file);
  open("beams-2-gelu");
  const std::string base = testing::test_data(golden["base"].get<std::string>());
  const auto slot = group_->admit({adapter, base}, nullptr);
  ASSERT_TRUE(slot) << slot.error().message;
  EXPECT_NE(group_->model(*slot)->weight_slot, group_->model(0)->weight_slot);
  std::vector<std::pair<const request::Request*, std::vector<uint32_t>>> sent;
  for (const auto& one : golden["cases"]) {
    const auto ids = one["ids"].get<std::vector<uint32_t>>();
    sent.emplace_back(&submit(ids, *slot), one["tokens"].get<std::vector<uint32_t>>());
    submit(ids, 0);
  }
  run_all();
  for (const auto& [request, tokens] : sent) expect_tokens(*request, tokens);
}

// Sequences of tenants whose weights are the same bytes are rows of one GEMM.
TEST_F(Generation, TenantsOfEqualWeightsShareEachGemm) {
  auto made = std::make_unique<testing::PlainDevice>();
  testing::PlainDeviceState& state = made->state();
  open("beams-4", {}, std::move(made));
  admit("beams-3-smaller");
  admit("beams-4");
  std::set<size_t> num_ranges;
  state.on_gemm = [&](const kernels::GroupedGemm& gemm) { num_ranges.insert(gemm.ranges.size()); };
  const auto cases = cases_of("beams-4");
  std::vector<const request::Request*> all;
  for (size_t i = 0; i < 4; ++i) all.push_back(&submit(cases[i].ids, i % 2 == 0 ? 0 : 2));
  run_all();
  EXPECT_EQ(num_ranges, (std::set<size_t>{1}));
  const Case other = cases_of("beams-3-smaller").front();
  num_ranges.clear();
  for (size_t i = 0; i < 4; ++i) all.push_back(&submit(cases[i].ids, i % 2 == 0 ? 2 : 0));
  all.push_back(&submit(other.ids, 1));
  run_all();
  EXPECT_EQ(*num_ranges.rbegin(), 2u);
  for (size_t i = 0; i < 8; ++i) expect_tokens(*all[i], cases[i % 4].tokens);
  expect_tokens(*all[8], other.tokens);
  state.on_gemm = nullptr;
}

TEST_P(GenerationBothWays, SameTokensAsTransformersOneByOne) {
  for (const char* name : kModels) {
    SCOPED_TRACE(name);
    open(name);
    for (const Case& c : cases_of(name)) {
      const request::Request& r = submit(c.ids);
      run_all();
      expect_tokens(r, c.tokens);
    }
  }
}

TEST_F(Generation, SameTokensFromPlainLoops) {
  open("beams-4", {}, std::make_unique<testing::PlainDevice>());
  const auto cases = cases_of("beams-4");
  std::vector<const request::Request*> all;
  for (const Case& c : cases) all.push_back(&submit(c.ids));
  run_all();
  for (size_t i = 0; i < all.size(); ++i) expect_tokens(*all[i], cases[i].tokens);
}

// Sequences enter and leave between steps. Each step is padded to a graph bucket.
TEST_F(Generation, SameTokensWithStepsPaddedToBuckets) {
  const auto first = cases_of("beams-4"), second = cases_of("beams-3-smaller");
  for (const auto& [rows, planner] :
       {std::pair(16u, "packed"), std::pair(64u, "packed"), std::pair(512u, "packed"),
        std::pair(512u, "concat"), std::pair(512u, "naive")}) {
    SCOPED_TRACE(std::to_string(rows) + planner);
    auto device = std::make_unique<testing::PlainDevice>();
    device->use_buckets_of(rows);
    open("beams-4", {.max_beams = 24}, std::move(device));
    ASSERT_GT(group_->num_buckets(), 0u);
    admit("beams-3-smaller");
    ASSERT_TRUE(executor_->set_planner(planner, device_->info(), nullptr));
    std::vector<std::pair<const request::Request*, const Case*>> all;
    uint32_t num_padded = 0;
    for (size_t i = 0; i < 8; ++i) {
      const Case& c = (i % 2 ? second : first)[i];
      all.emplace_back(&submit(c.ids, i % 2, 64), &c);
      for (size_t steps = 0; steps < 2 * i; ++steps) {
        const BatchFigures figures = step();
        EXPECT_GE(figures.num_rows, figures.num_tokens);
        num_padded += figures.num_rows > figures.num_tokens;
      }
    }
    run_all();
    EXPECT_GT(num_padded, 5u);
    for (const auto& [request, c] : all) expect_tokens(*request, c->tokens);
  }
}

// Sequences of two tenants enter when they arrive and leave when they are done. Each gives the same
// tokens as alone.
TEST_P(GenerationBothWays, SequencesEnterAndLeaveBetweenSteps) {
  const auto first = cases_of("beams-4"), second = cases_of("beams-3-smaller");
  for (const uint32_t max_beams : {4u, 11u, 64u}) {
    SCOPED_TRACE(max_beams);
    open("beams-4", {.max_beams = max_beams});
    const uint32_t other = admit("beams-3-smaller");
    ASSERT_EQ(other, 1u);
    Random random(max_beams);
    std::vector<std::pair<const request::Request*, const Case*>> all;
    for (size_t i = 0; i < 2 * first.size(); ++i) {
      const auto& cases = i % 2 ? second : first;
      const Case& c = cases[random.below(cases.size())];
      all.emplace_back(&submit(c.ids, i % 2, 64), &c);
      for (uint64_t steps = random.below(9); steps > 0; --steps) step();
    }
    run_all();
    for (const auto& [request, c] : all) expect_tokens(*request, c->tokens);
  }
}

// 40 tokens of 4 beams take 12 blocks, the source up to 4. The sizes hold one, two or a few
// sequences.
TEST_P(GenerationBothWays, TooFewBlocksMakeSequencesWait) {
  const auto cases = cases_of("beams-4");
  const uint64_t block_bytes =
      uint64_t{3} * 2 * backbone::Decoder::kBlockTokens * 36 * sizeof(float);
  for (const uint32_t blocks : {16u, 17u, 35u, 70u}) {
    SCOPED_TRACE(blocks);
    open("beams-4", {.max_cache_bytes = blocks * block_bytes});
    ASSERT_EQ(executor_->blocks().num_blocks(), blocks);
    std::vector<const request::Request*> all;
    for (const Case& c : cases) all.push_back(&submit(c.ids));
    uint32_t most = 0;
    while (completed_ < requests_.size()) {
      step();
      most = std::max(most, executor_->num_executing());
      ASSERT_LE(executor_->blocks().num_used(), executor_->blocks().num_reserved());
    }
    EXPECT_LE(most, blocks / 13);
    run_all();
    for (size_t i = 0; i < all.size(); ++i) expect_tokens(*all[i], cases[i].tokens);
  }
}

TEST_F(Generation, RefusesSequencesLargerThanTheCache) {
  const uint64_t block_bytes =
      uint64_t{3} * 2 * backbone::Decoder::kBlockTokens * 36 * sizeof(float);
  open("beams-4", {.max_cache_bytes = 13 * block_bytes});
  const request::Request& fits = submit(std::vector<uint32_t>(16, 5));
  const request::Request& never = submit(std::vector<uint32_t>(17, 5));
  run_all();
  EXPECT_EQ(fits.status, StatusCode::kOk);
  EXPECT_EQ(never.status, StatusCode::kTooLong);
  EXPECT_NE(std::string(never.detail).find("K/V memory"), std::string::npos);
}

TEST_P(GenerationBothWays, RefusalsDoNotAffectOtherRequests) {
  open("beams-4");
  const auto good = cases_of("beams-4")[7];
  const request::Request& before = submit(good.ids);
  EXPECT_EQ(submit({97}).status, StatusCode::kMalformed);
  EXPECT_EQ(submit({}).status, StatusCode::kMalformed);
  EXPECT_EQ(submit(std::vector<uint32_t>(97, 5)).status, StatusCode::kTooLong);
  request::Request text;
  const request::Piece piece{reinterpret_cast<const std::byte*>("good"), 4};
  text.payload_kind = wire::PayloadKind::kText;
  text.payload_bytes = 4;
  text.pieces = {&piece, 1};
  executor_->submit(&text);
  EXPECT_EQ(text.status, StatusCode::kUnsupportedKind);
  for (const auto kind : {wire::ResultKind::kHidden, wire::ResultKind::kText}) {
    request::Request other;
    other.payload_kind = wire::PayloadKind::kTokensU32;
    other.result_kind = kind;
    executor_->submit(&other);
    EXPECT_EQ(other.status, StatusCode::kUnsupportedKind);
    step();
    --completed_;
  }
  --completed_;
  run_all();
  expect_tokens(before, good.tokens);
}

TEST_P(GenerationBothWays, DeadlinesEndWaitingAndRunningSequences) {
  open("beams-4", {.max_beams = 4});
  deadline_ns_ = clock_.now_ns() + 1'000'000;
  const request::Request& runs = submit(cases_of("beams-4")[8].ids);
  const request::Request& waits = submit(cases_of("beams-4")[8].ids);
  deadline_ns_ = 0;
  const auto last = cases_of("beams-4")[9];
  const request::Request& patient = submit(last.ids);
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(executor_->num_executing(), 1u);
  EXPECT_EQ(executor_->num_queued(), 2u);
  clock_.advance_ns(2'000'000);
  run_all();
  EXPECT_EQ(runs.status, StatusCode::kDeadlineLaunch);
  EXPECT_EQ(waits.status, StatusCode::kDeadlineQueue);
  expect_tokens(patient, last.tokens);
}

// The policy has chosen the request and reserved its beams and blocks when it is found expired.
TEST_P(GenerationBothWays, AnExpiredRequestGivesBackItsReservation) {
  open("beams-4", {.max_beams = 4});
  deadline_ns_ = clock_.now_ns() + 1'000'000'000;
  request::Request& expired = submit(cases_of("beams-4")[8].ids);
  deadline_ns_ = 0;
  const auto last = cases_of("beams-4")[9];
  const request::Request& runs = submit(last.ids);
  request::expire(expired);
  run_all();
  EXPECT_EQ(expired.result.data, nullptr);
  expect_tokens(runs, last.tokens);
  EXPECT_EQ(executor_->blocks().num_reserved(), 0u);
}

// Sequences run one at a time and take 40 steps of 10 ms. Waits above 1 s are refused at
// submission.
TEST_P(GenerationBothWays, RefusesRequestsThatWouldWaitTooLong) {
  open("beams-4", {.max_beams = 4});
  const auto c = cases_of("beams-4")[7];
  ASSERT_EQ(c.tokens.size(), 39u);
  const auto run = [&](int steps) {
    for (int i = 0; i < steps; ++i) {
      step();
      clock_.advance_ns(10'000'000);
    }
  };
  submit(c.ids);
  run(60);
  ASSERT_EQ(completed_, 1u);
  uint32_t refused = 0;
  for (int i = 0; i < 20; ++i) refused += submit(c.ids).status == StatusCode::kOverloaded;
  EXPECT_GE(refused, 15u);
  EXPECT_LE(refused, 18u);
  for (const request::Request& r : requests_)
    EXPECT_TRUE(r.status != StatusCode::kOverloaded || r.retry_after_us >= 500'000u);
  run_all();
}

// Requests that fit together are not refused because an earlier one took long.
TEST_P(GenerationBothWays, AcceptsRequestsThatFit) {
  open("beams-4", {.max_beams = 64});
  const auto c = cases_of("beams-4")[7];
  submit(c.ids);
  while (completed_ < 1) {
    step();
    clock_.advance_ns(1'000'000'000);
  }
  for (int i = 0; i < 16; ++i) submit(c.ids);
  run_all();
  for (const request::Request& r : requests_) EXPECT_EQ(r.status, StatusCode::kOk) << r.detail;
}

TEST_P(GenerationBothWays, AFailedDeviceFailsAllRequests) {
  auto plain = std::make_unique<testing::PlainDevice>();
  testing::PlainDevice& device = *plain;
  open("beams-4", {.max_beams = 4}, std::move(plain));
  for (int i = 0; i < 3; ++i) submit(cases_of("beams-4")[3].ids);
  stream_clock_.holds = true;  // the step must not run before the failure is set
  BatchFigures figures;
  executor_->step(*this, figures);
  device.state().fail_synchronize = true;
  stream_clock_.release();
  EXPECT_TRUE(step().device_failed);
  EXPECT_TRUE(executor_->device_failed());
  run_all();
  submit(cases_of("beams-4")[3].ids);
  run_all();
  for (const request::Request& r : requests_) EXPECT_EQ(r.status, StatusCode::kDeviceFailed);
}

TEST_P(GenerationBothWays, AStepWithoutMemoryIsRefusedAndTheDeviceRecovers) {
  auto plain = std::make_unique<testing::PlainDevice>();
  testing::PlainDevice& device = *plain;
  open("beams-4", {.max_beams = 4}, std::move(plain));
  submit(cases_of("beams-4")[3].ids);
  stream_clock_.holds = true;
  BatchFigures figures;
  executor_->step(*this, figures);
  device.state().fail_synchronize = true;
  device.state().failure = Code::kResourceExhausted;
  stream_clock_.release();
  EXPECT_FALSE(step().device_failed);
  device.state().fail_synchronize = false;
  EXPECT_EQ(requests_[0].status, StatusCode::kOverloaded);
  submit(cases_of("beams-4")[3].ids);
  run_all();
  expect_tokens(requests_[1], cases_of("beams-4")[3].tokens);
}

// A step has rows only for live beams: finished sequences cost nothing.
TEST_F(Generation, FinishedSequencesLeaveTheStep) {
  open("beams-4");
  const auto cases = cases_of("beams-4");
  for (size_t i = 0; i < 12; ++i) submit(cases[i].ids);
  while (completed_ < requests_.size()) {
    const uint32_t running = executor_->num_executing();
    const BatchFigures figures = step();
    if (running == 0) continue;  // the first step also encodes sources
    EXPECT_EQ(figures.num_tokens, 4 * running);
  }
}

TEST_F(Generation, Bf16SequencesEnd) {
  auto device = testing::open_tested_device("bf16");
  if (!device) GTEST_SKIP() << device.error().message;
  open("beams-4", {}, std::move(*device));
  for (const Case& c : cases_of("beams-4")) submit(c.ids);
  run_all();
  for (const request::Request& r : requests_) {
    EXPECT_EQ(r.status, StatusCode::kOk);
    EXPECT_GE(r.result_rows, 1u);
  }
}

}  // namespace
}  // namespace itif::runtime
