// Batches of many tenants compared with a reference that computes one text at a time.
#include <gtest/gtest.h>

#include <numeric>

#include "base/random.h"
#include "support/reference_bert.h"
#include "support/small_group.h"
#include "support/test_batch.h"
#include "wire/classes.h"

namespace itif::runtime {
namespace {

using testing::Answer;
using testing::ReferenceBert;
using testing::SmallGroup;
using testing::TestRequest;
using wire::ResultKind;
using wire::StatusCode;

TestRequest random_input(Random& random, const model::BackboneSpec& spec, uint32_t slot,
                         uint32_t tokens, ResultKind kind) {
  TestRequest input;
  input.slot = slot;
  input.kind = kind;
  input.id_bytes = random.below(2) ? 2 : 4;
  // Pieces are 4-byte aligned.
  input.ids_per_piece = static_cast<uint32_t>(random.below(20) + 1) * 2;
  for (uint32_t i = 0; i < tokens; ++i) {
    input.ids.push_back(static_cast<uint32_t>(random.below(spec.vocab)));
    input.token_types.push_back(static_cast<uint8_t>(random.below(2)));
  }
  if (random.below(2)) input.token_types.clear();
  return input;
}

std::vector<float> expected(const ReferenceBert& bert, const TestRequest& input, ResultKind kind) {
  const auto hidden = bert.hidden(input.ids, input.token_types);
  switch (kind) {
    case ResultKind::kPooled: return ReferenceBert::flat(bert.pooled(hidden));
    case ResultKind::kEmbedding: return ReferenceBert::flat(ReferenceBert::mean(hidden, true));
    case ResultKind::kLogits: return ReferenceBert::flat(bert.classify(bert.pooled(hidden)));
    case ResultKind::kTokenLogits: {
      ReferenceBert::Matrix logits;
      for (const auto& row : hidden) logits.push_back(bert.classify(row));
      return ReferenceBert::flat(logits);
    }
    default: return ReferenceBert::flat(hidden);
  }
}

class Forward : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    device_ = testing::make_device(GetParam());
    if (!device_) GTEST_SKIP() << "this machine has no " << GetParam();
    tenants_ = std::make_unique<SmallGroup>(*device_);
    for (const std::string& directory : tenants_->directories) references_.emplace_back(directory);
  }

  void expect_close(const std::vector<float>& got, const std::vector<float>& wanted) const {
    ASSERT_EQ(got.size(), wanted.size());
    if (GetParam() == "bf16" && got.size() > 2)
      EXPECT_GE(testing::cosine(got, wanted), 0.999);
    else
      EXPECT_LE(testing::max_difference(got, wanted), GetParam() == "bf16" ? 0.05 : 1e-4);
  }

  std::vector<Answer> run(const std::vector<TestRequest>& inputs) {
    return testing::run_batch(*tenants_->group, *tenants_->stream, inputs);
  }

  const model::BackboneSpec spec_ = testing::odd_spec();
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<SmallGroup> tenants_;
  std::vector<ReferenceBert> references_;
};

// The kinds that SmallGroup's tenants answer, by slot.
const std::vector<std::pair<uint32_t, ResultKind>> kAnswered = {
    {0, ResultKind::kHidden},      {1, ResultKind::kPooled},    {1, ResultKind::kHidden},
    {2, ResultKind::kHidden},      {2, ResultKind::kEmbedding}, {3, ResultKind::kLogits},
    {3, ResultKind::kPooled},      {3, ResultKind::kLogits},    {3, ResultKind::kHidden},
    {4, ResultKind::kTokenLogits}, {4, ResultKind::kHidden},    {4, ResultKind::kTokenLogits}};

TEST_P(Forward, EveryResultKindEqualsTheReference) {
  Random random(1);
  for (int round = 0; round < 4; ++round) {
    std::vector<TestRequest> inputs;
    for (const auto& [slot, kind] : kAnswered)
      inputs.push_back(
          random_input(random, spec_, slot, static_cast<uint32_t>(random.below(16) + 1), kind));
    inputs[static_cast<size_t>(round)].ids.resize(1);  // a request of one token
    inputs[static_cast<size_t>(round)].token_types.clear();
    const std::vector<Answer> answers = run(inputs);
    for (size_t i = 0; i < inputs.size(); ++i) {
      SCOPED_TRACE("slot " + std::to_string(inputs[i].slot) + " " +
                   wire::result_kind_name(inputs[i].kind));
      ASSERT_TRUE(answers[i].ok()) << answers[i].detail;
      EXPECT_EQ(answers[i].kind, inputs[i].kind);
      expect_close(answers[i].floats(),
                   expected(references_[inputs[i].slot], inputs[i], inputs[i].kind));
    }
  }
}

TEST_P(Forward, LongestRequestAndFullBatchFit) {
  Random random(2);
  std::vector<TestRequest> inputs;
  uint32_t tokens = 0;
  for (uint32_t slot = 0; slot < 5; ++slot) {
    const uint32_t length = slot < 4 ? spec_.max_positions : 200 - tokens;
    inputs.push_back(random_input(random, spec_, slot, length, ResultKind::kHidden));
    tokens += length;
  }
  ASSERT_EQ(tokens, 200u);
  const std::vector<Answer> answers = run(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    ASSERT_TRUE(answers[i].ok());
    expect_close(answers[i].floats(), expected(references_[i], inputs[i], ResultKind::kHidden));
  }
}

TEST_P(Forward, BatchedResultsEqualSingleResults) {
  Random random(3);
  std::vector<TestRequest> inputs;
  for (const auto& [slot, kind] : kAnswered)
    inputs.push_back(
        random_input(random, spec_, slot, static_cast<uint32_t>(random.below(16) + 1), kind));
  const std::vector<Answer> together = run(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Answer alone = run({inputs[i]})[0];
    expect_close(together[i].floats(), alone.floats());
  }
}

// Regression: a planner may order segments freely. A tenant's second run of segments overwrote the
// logits of its first, so the classes belonged to another request.
TEST_P(Forward, SegmentsMayComeInAnyTenantOrder) {
  Random random(4);
  std::vector<TestRequest> inputs;
  for (const auto& [slot, kind] : {std::pair{3u, ResultKind::kClasses},
                                   {4u, ResultKind::kTokenLogits},
                                   {2u, ResultKind::kEmbedding},
                                   {3u, ResultKind::kPooled},
                                   {0u, ResultKind::kHidden},
                                   {4u, ResultKind::kTokenLogits},
                                   {3u, ResultKind::kClasses},
                                   {2u, ResultKind::kEmbedding},
                                   {1u, ResultKind::kPooled},
                                   {3u, ResultKind::kLogits},
                                   {4u, ResultKind::kTokenLogits},
                                   {3u, ResultKind::kClasses}})
    inputs.push_back(
        random_input(random, spec_, slot, static_cast<uint32_t>(random.below(16) + 1), kind));
  const std::vector<Answer> together = run(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE(i);
    const Answer alone = run({inputs[i]})[0];
    ASSERT_TRUE(together[i].ok() && alone.ok());
    if (inputs[i].kind != ResultKind::kClasses) {
      expect_close(together[i].floats(), alone.floats());
      continue;
    }
    wire::ClassReader one(together[i].bytes), other(alone.bytes);
    for (wire::ClassEntry a, b; one.next(a) && other.next(b);) {
      EXPECT_EQ(a.index, b.index);
      EXPECT_NEAR(a.probability, b.probability, 0.01);
    }
  }
}

TEST_P(Forward, PaddingDoesNotChangeResults) {
  Random random(5);
  std::vector<TestRequest> inputs;
  for (const auto& [slot, kind] : kAnswered) {
    inputs.push_back(
        random_input(random, spec_, slot, static_cast<uint32_t>(random.below(9) + 1), kind));
    inputs.back().padding = 10 - static_cast<uint32_t>(inputs.back().ids.size());
  }
  const std::vector<Answer> padded = run(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE(i);
    inputs[i].padding = 0;
    const Answer alone = run({inputs[i]})[0];
    ASSERT_TRUE(padded[i].ok() && alone.ok());
    expect_close(padded[i].floats(), alone.floats());
  }
}

TEST_P(Forward, TheDefaultKindFollowsTheHead) {
  Random random(4);
  std::vector<TestRequest> inputs;
  for (uint32_t slot = 0; slot < 5; ++slot)
    inputs.push_back(random_input(random, spec_, slot, 5, ResultKind::kDefault));
  const std::vector<Answer> answers = run(inputs);
  EXPECT_EQ(answers[0].kind, ResultKind::kHidden);
  EXPECT_EQ(answers[1].kind, ResultKind::kPooled);
  EXPECT_EQ(answers[2].kind, ResultKind::kEmbedding);
  EXPECT_EQ(answers[3].kind, ResultKind::kClasses);
  EXPECT_EQ(answers[4].kind, ResultKind::kTokenLogits);
  for (const Answer& answer : answers) EXPECT_TRUE(answer.ok()) << answer.detail;
}

TEST_P(Forward, ClassesAreTheNamedSortedSoftmaxOfLogits) {
  Random random(5);
  TestRequest logits = random_input(random, spec_, 3, 7, ResultKind::kLogits);
  TestRequest classes = logits;
  classes.kind = ResultKind::kClasses;
  const TestRequest pooled = random_input(random, spec_, 3, 9, ResultKind::kPooled);
  // The pooled result in between must not mix up the rows of logits and classes.
  const std::vector<Answer> answers =
      run({random_input(random, spec_, 3, 4, ResultKind::kClasses), logits, pooled, classes});
  const std::vector<float> raw = answers[1].floats();
  ASSERT_EQ(raw.size(), 2u);
  const std::span<const std::byte> payload = answers[3].bytes;
  wire::ClassReader reader(payload);
  std::vector<wire::ClassEntry> entries;
  for (wire::ClassEntry entry; reader.next(entry);) entries.push_back(entry);
  ASSERT_TRUE(reader.ok());
  ASSERT_EQ(entries.size(), 2u);
  const uint32_t best = raw[0] >= raw[1] ? 0 : 1;
  const char* names[] = {"negative", "positive"};
  EXPECT_EQ(entries[0].index, best);
  EXPECT_EQ(entries[0].name, names[best]);
  EXPECT_EQ(entries[1].name, names[1 - best]);
  const double probability = 1 / (1 + std::exp(raw[1 - best] - raw[best]));
  EXPECT_NEAR(entries[0].probability, probability, 1e-5);
  EXPECT_NEAR(entries[0].probability + entries[1].probability, 1, 1e-5);
}

TEST_P(Forward, BadSegmentsDoNotAffectOthers) {
  Random random(6);
  const auto good = [&](uint32_t slot, ResultKind kind) {
    return random_input(random, spec_, slot, 6, kind);
  };
  std::vector<TestRequest> inputs = {
      good(0, ResultKind::kHidden),    good(0, ResultKind::kHidden),
      good(0, ResultKind::kPooled),    good(1, ResultKind::kPooled),
      good(1, ResultKind::kHidden),    good(2, ResultKind::kEmbedding),
      good(2, ResultKind::kEmbedding), good(3, ResultKind::kLogits),
      good(3, ResultKind::kLogits),    good(4, ResultKind::kTokenLogits),
      good(5, ResultKind::kHidden),    good(99, ResultKind::kHidden)};
  inputs[1].ids[3] = spec_.vocab;  // the first invalid id
  inputs[1].id_bytes = 4;
  inputs[4].ids.clear();
  inputs[4].token_types.clear();
  inputs[6] = random_input(random, spec_, 2, spec_.max_positions + 1, ResultKind::kEmbedding);
  inputs[8].token_types = {0, 1, 2, 0, 0, 0};
  inputs[9].ids[0] = 0xffffffff;
  inputs[9].id_bytes = 4;
  const std::vector<StatusCode> wanted = {
      StatusCode::kOk,        StatusCode::kMalformed,   StatusCode::kUnsupportedKind,
      StatusCode::kOk,        StatusCode::kMalformed,   StatusCode::kOk,
      StatusCode::kTooLong,   StatusCode::kOk,          StatusCode::kMalformed,
      StatusCode::kMalformed, StatusCode::kNotAdmitted, StatusCode::kNotAdmitted};
  const std::vector<Answer> answers = run(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(answers[i].status, wanted[i]) << answers[i].detail;
    if (answers[i].ok()) {
      expect_close(answers[i].floats(),
                   expected(references_[inputs[i].slot], inputs[i], inputs[i].kind));
    } else {
      EXPECT_TRUE(answers[i].bytes.empty());
      EXPECT_FALSE(answers[i].detail.empty());
    }
  }
}

TEST_P(Forward, UnsupportedKindsAreRefusedPerSegment) {
  Random random(7);
  const bool answered[5][7] = {// default hidden pooled embedding logits token_logits classes
                               {true, true, false, false, false, false, false},
                               {true, true, true, false, false, false, false},
                               {true, true, false, true, false, false, false},
                               {true, true, true, false, true, false, true},
                               {true, true, false, false, false, true, false}};
  for (uint32_t slot = 0; slot < 5; ++slot) {
    for (int kind = 0; kind < 7; ++kind) {
      const Answer answer =
          run({random_input(random, spec_, slot, 3, static_cast<ResultKind>(kind))})[0];
      EXPECT_EQ(answer.status,
                answered[slot][kind] ? StatusCode::kOk : StatusCode::kUnsupportedKind)
          << slot << " " << kind;
    }
    EXPECT_EQ(run({random_input(random, spec_, slot, 3, static_cast<ResultKind>(200))})[0].status,
              StatusCode::kUnsupportedKind);
  }
}

TEST_P(Forward, InconsistentIdsAreMalformed) {
  const std::vector<uint32_t> ids = {1, 2, 3, 4};
  const auto* data = reinterpret_cast<const std::byte*>(ids.data());
  PreparedInput three;
  three.ids = {1, 2, 3};
  struct Case {
    std::vector<request::Piece> pieces;
    const PreparedInput* prepared = nullptr;
  };
  const std::vector<Case> wrong = {
      {{}},
      {{{data, 12}}},
      {{{data, 20}}},
      {{{data, 0xfffffffc}, {data, 20}}},
      {{{data, 16}, {data, 0}}},
      {{{data, 16}, {data, 3}}},
      {{{data, 6}, {data, 10}}},  // an id in two pieces
      {{{data, 16}}, &three},
  };
  for (const Case& one : wrong) {
    request::Request request;
    request.payload_kind = wire::PayloadKind::kTokensU32;
    request.num_tokens = 4;
    request.pieces = one.pieces;
    const BatchRequest segment = {.request = &request, .prepared = one.prepared};
    Batch batch{{&segment, 1}};
    ASSERT_TRUE(tenants_->group->forward(*tenants_->stream, batch));
    EXPECT_EQ(request.status, StatusCode::kMalformed);
    EXPECT_EQ(request.result.data, nullptr);
  }
}

TEST_P(Forward, AnEmptyBatchSucceeds) {
  Batch batch;
  EXPECT_TRUE(tenants_->group->forward(*tenants_->stream, batch));
}

INSTANTIATE_TEST_SUITE_P(Devices, Forward, ::testing::Values("plain", "f32", "bf16"),
                         [](const auto& info) { return info.param; });

TEST(ForwardFault, EverySegmentGetsDeviceFailed) {
  testing::PlainDevice device;
  SmallGroup tenants(device);
  device.state().fail_synchronize = true;
  Random random(8);
  std::vector<TestRequest> inputs;
  for (uint32_t slot = 0; slot < 5; ++slot)
    inputs.push_back(random_input(random, testing::odd_spec(), slot, 5, ResultKind::kDefault));
  Status fault;
  for (const Answer& answer : testing::run_batch(*tenants.group, *tenants.stream, inputs, &fault)) {
    EXPECT_EQ(answer.status, StatusCode::kDeviceFailed);
    EXPECT_TRUE(answer.bytes.empty());
  }
  EXPECT_FALSE(fault);
}

TEST(ForwardFault, ABatchWithoutMemoryOrLibraryIsRefusedAndTheDeviceRecovers) {
  for (const auto& [failure, status] :
       {std::pair{Code::kResourceExhausted, StatusCode::kOverloaded},
        {Code::kUnsupported, StatusCode::kInternal}}) {
    testing::PlainDevice device;
    SmallGroup tenants(device);
    device.state().fail_synchronize = true;
    device.state().failure = failure;
    Random random(8);
    const std::vector<TestRequest> inputs = {
        random_input(random, testing::odd_spec(), 0, 5, ResultKind::kDefault)};
    Status fault;
    EXPECT_EQ(testing::run_batch(*tenants.group, *tenants.stream, inputs, &fault)[0].status,
              status);
    EXPECT_TRUE(fault);
    device.state().fail_synchronize = false;
    EXPECT_TRUE(testing::run_batch(*tenants.group, *tenants.stream, inputs)[0].ok());
  }
}

}  // namespace
}  // namespace itif::runtime
