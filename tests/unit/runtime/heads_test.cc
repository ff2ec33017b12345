// Heads that only some models have (several labels, regression, dense layers after the pooling),
// and results that the host computes.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/batch/make_encoder_group.h"
#include "runtime/result_bytes.h"
#include "support/reference_bert.h"
#include "support/safetensors_text.h"
#include "support/small_group.h"
#include "support/test_batch.h"

namespace itif::runtime {
namespace {

using model::Problem;
using nlohmann::json;
using testing::Answer;
using wire::ResultKind;
using wire::StatusCode;

class Heads : public ::testing::Test {
 protected:
  Heads()
      : group_(make_encoder_group(device_, testing::odd_spec(),
                                  {.max_tokens = 100, .max_requests = 8, .max_tenants = 4})
                   .value()),
        stream_(device_.make_stream(group_->stream_limits()).value()) {}

  std::string make(const std::string& name, mkmodel::HeadChoice head,
                   std::vector<std::string> labels = {}) {
    auto options = testing::loud_model(testing::odd_spec(), head, ++seed_);
    options.labels = std::move(labels);
    EXPECT_TRUE(mkmodel::make_model(options, files_.file(name)));
    return files_.file(name);
  }
  void edit_config(const std::string& name, const char* key, json value) {
    json config = json::parse(files_.read(name + "/config.json"));
    config[key] = std::move(value);
    files_.write(name + "/config.json", config.dump());
  }
  Answer input(uint32_t slot, ResultKind kind) {
    return testing::run_batch(*group_, *stream_, {{.slot = slot, .ids = kIds, .kind = kind}})[0];
  }

  const std::vector<uint32_t> kIds = {3, 1, 4, 1, 5};
  uint64_t seed_ = 0;
  testing::PlainDevice device_;
  testing::TempDirectory files_;
  std::unique_ptr<EncoderGroup> group_;
  std::unique_ptr<device::Stream> stream_;
};

TEST_F(Heads, MultiLabelHeadsApplyASigmoidPerLabel) {
  const std::string directory =
      make("m", mkmodel::HeadChoice::kClassification, {"urgent", "spam", "question"});
  edit_config("m", "problem_type", "multi_label_classification");
  const uint32_t slot = group_->admit(directory, nullptr).value();
  const std::vector<float> logits = input(slot, ResultKind::kLogits).floats();
  const Answer classes = input(slot, ResultKind::kDefault);
  ASSERT_EQ(classes.kind, ResultKind::kClasses);
  wire::ClassReader reader(classes.bytes);
  float previous = 2;
  int seen = 0;
  for (wire::ClassEntry entry; reader.next(entry); ++seen) {
    EXPECT_NEAR(entry.probability, 1 / (1 + std::exp(-logits[entry.index])), 1e-6);
    EXPECT_LE(entry.probability, previous);
    previous = entry.probability;
    EXPECT_EQ(entry.name, group_->model(slot)->head.spec.labels[entry.index]);
  }
  EXPECT_EQ(seen, 3);
}

// The wire's `aux` counts entries of classes (docs/protocol.md, section 5).
TEST(ResultRows, AreTokensLabelsOrOne) {
  model::HeadSpec head;
  head.kind = model::HeadKind::kClassification;
  head.labels = {"a", "b", "c"};
  EXPECT_EQ(result_rows(head, ResultKind::kClasses, 9), 3u);
  EXPECT_EQ(result_rows(head, ResultKind::kLogits, 9), 1u);
  EXPECT_EQ(result_rows(head, ResultKind::kHidden, 9), 9u);
  EXPECT_EQ(result_rows(head, ResultKind::kTokenLogits, 9), 9u);
  EXPECT_EQ(result_rows(head, ResultKind::kPooled, 9), 1u);
}

TEST_F(Heads, SegmentsReportResultRows) {
  const uint32_t slot =
      group_->admit(make("m", mkmodel::HeadChoice::kClassification, {"a", "b", "c"}), nullptr)
          .value();
  EXPECT_EQ(input(slot, ResultKind::kDefault).rows, 3u);
  EXPECT_EQ(input(slot, ResultKind::kHidden).rows, 5u);
  EXPECT_EQ(input(slot, ResultKind::kLogits).rows, 1u);
}

TEST_F(Heads, RegressionAnswersANumberAndHasNoClasses) {
  const uint32_t slot =
      group_->admit(make("m", mkmodel::HeadChoice::kClassification, {"score"}), nullptr).value();
  EXPECT_EQ(input(slot, ResultKind::kDefault).kind, ResultKind::kLogits);
  EXPECT_EQ(input(slot, ResultKind::kDefault).floats().size(), 1u);
  EXPECT_EQ(input(slot, ResultKind::kClasses).status, StatusCode::kUnsupportedKind);
}

TEST_F(Heads, DenseLayersRunAfterPoolingAndBeforeNormalization) {
  const std::string directory = make("m", mkmodel::HeadChoice::kEmbedding);
  const std::string type = "sentence_transformers.models.";
  files_.write("m/modules.json", json({{{"path", ""}, {"type", type + "Transformer"}},
                                       {{"path", "1_Pooling"}, {"type", type + "Pooling"}},
                                       {{"path", "2_Dense"}, {"type", type + "Dense"}},
                                       {{"path", "3_Normalize"}, {"type", type + "Normalize"}}})
                                     .dump());
  files_.write("m/2_Dense/config.json", R"({"in_features":21,"out_features":2,"bias":true,
      "activation_function":"torch.nn.modules.activation.Tanh"})");
  // Row 0 picks component 0, row 1 component 20. Their biases differ.
  std::vector<float> values(2 * 21 + 2);
  values[0] = 1;
  values[21 + 20] = 1;
  values[42] = 0.5f;
  values[43] = -0.25f;
  files_.write(
      "m/2_Dense/model.safetensors",
      testing::safetensors("{" + testing::entry("linear.weight", "F32", "[2,21]", 0, 168) + "," +
                               testing::entry("linear.bias", "F32", "[2]", 168, 176) + "}",
                           testing::f32_bytes(values)));
  const uint32_t slot = group_->admit(directory, nullptr).value();
  const testing::ReferenceBert reference(directory);
  const auto mean = testing::ReferenceBert::mean(reference.hidden(kIds, {}), false);
  double x = std::tanh(mean[0] + 0.5), y = std::tanh(mean[20] - 0.25);
  const double length = std::hypot(x, y);
  // Batched with a tenant that has the same pooling but no dense layer.
  const uint32_t other = group_->admit(make("n", mkmodel::HeadChoice::kEmbedding), nullptr).value();
  const auto answers = testing::run_batch(
      *group_, *stream_,
      {{.slot = slot, .ids = {7}}, {.slot = slot, .ids = kIds}, {.slot = other, .ids = kIds}});
  const std::vector<float> got = answers[1].floats();
  ASSERT_EQ(got.size(), 2u);
  EXPECT_NEAR(got[0], x / length, 1e-5);
  EXPECT_NEAR(got[1], y / length, 1e-5);
  const testing::ReferenceBert plain(files_.file("n"));
  EXPECT_LE(testing::max_difference(answers[2].floats(),
                                    testing::ReferenceBert::flat(testing::ReferenceBert::mean(
                                        plain.hidden(kIds, {}), true))),
            1e-5);
}

TEST_F(Heads, WeightsThatOverflowAffectOnlyTheirTenant) {
  const uint32_t good =
      group_->admit(make("good", mkmodel::HeadChoice::kClassification), nullptr).value();
  const std::vector<float> before = input(good, ResultKind::kLogits).floats();
  const std::string directory = make("bad", mkmodel::HeadChoice::kClassification);
  std::string bytes = files_.read("bad/model.safetensors");
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  // Loading accepts finite weights only. Sums of these are infinite, and LayerNorm makes NaN.
  const float huge = std::numeric_limits<float>::max();
  for (size_t at = 8 + header; at + 4 <= bytes.size(); at += 4) std::memcpy(&bytes[at], &huge, 4);
  files_.write("bad/model.safetensors", bytes);
  const uint32_t bad = group_->admit(directory, nullptr).value();
  const auto answers =
      testing::run_batch(*group_, *stream_,
                         {{.slot = good, .ids = kIds, .kind = ResultKind::kLogits},
                          {.slot = bad, .ids = kIds, .kind = ResultKind::kClasses},
                          {.slot = bad, .ids = kIds, .kind = ResultKind::kHidden}});
  EXPECT_EQ(answers[0].floats(), before);
  wire::ClassReader reader(answers[1].bytes);
  for (wire::ClassEntry entry; reader.next(entry);) EXPECT_EQ(entry.probability, 0);
  EXPECT_TRUE(reader.ok());
  EXPECT_FALSE(std::isfinite(answers[2].floats().at(0))) << "the weights did not overflow";
}

TEST_F(Heads, ResultsLongerThanAMessageAreRefused) {
  model::BackboneSpec spec = testing::odd_spec();
  spec.layers = 1;
  spec.hidden = spec.intermediate = 4;
  spec.heads = 1;
  spec.max_positions = 65536;
  auto options = testing::loud_model(spec, mkmodel::HeadChoice::kTokenClassification, 1);
  for (int i = 0; i < 100; ++i) options.labels.push_back("label" + std::to_string(i));
  ASSERT_TRUE(mkmodel::make_model(options, files_.file("long")));
  const auto group =
      make_encoder_group(device_, spec, {.max_tokens = 65536, .max_requests = 1, .max_tenants = 1})
          .value();
  const uint32_t slot = group->admit(files_.file("long"), nullptr).value();
  const auto stream = device_.make_stream(group->stream_limits()).value();
  // 16 MiB are 4,194,304 floats: 41,943 tokens of 100 logits.
  const auto answer = testing::run_batch(
      *group, *stream,
      {{.slot = slot, .ids = std::vector<uint32_t>(41'944, 1), .ids_per_piece = 50'000}})[0];
  EXPECT_EQ(answer.status, StatusCode::kTooLong);
  EXPECT_EQ(answer.detail, "the result would be longer than a response can be");
}

TEST(ResultBytes, SoftmaxHandlesLargeAndNonFiniteLogits) {
  std::vector<float> x = {1000, 1000, -1000};
  to_probabilities(x, Problem::kSingleLabel);
  EXPECT_FLOAT_EQ(x[0], 0.5f);
  EXPECT_FLOAT_EQ(x[1], 0.5f);
  EXPECT_FLOAT_EQ(x[2], 0);
  x = {std::numeric_limits<float>::infinity(), 1, std::numeric_limits<float>::quiet_NaN()};
  to_probabilities(x, Problem::kSingleLabel);
  for (float p : x) EXPECT_TRUE(std::isfinite(p));
  x = {-1000, 0, 1000};
  to_probabilities(x, Problem::kMultiLabel);
  EXPECT_FLOAT_EQ(x[0], 0);
  EXPECT_FLOAT_EQ(x[1], 0.5f);
  EXPECT_FLOAT_EQ(x[2], 1);
}

TEST(ResultBytes, ClassesAreSortedByProbabilityThenIndex) {
  model::HeadSpec head;
  head.kind = model::HeadKind::kClassification;
  head.labels = {"a", "bb", "ccccc", ""};
  std::vector<wire::ClassEntry> scratch(4);
  std::vector<std::byte> out(result_bytes(head, 8, ResultKind::kClasses, 1));
  EXPECT_EQ(out.size(), 4 * 12 + 4 + 4 + 8 + 0u);
  write_classes(head, std::vector<float>{0.25f, 0.1f, 0.25f, 0.4f}, scratch, out);
  wire::ClassReader reader(out);
  std::vector<uint32_t> order;
  for (wire::ClassEntry entry; reader.next(entry);) order.push_back(entry.index);
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(order, (std::vector<uint32_t>{3, 0, 2, 1}));
}

TEST(ResultBytes, NormalizeGivesUnitLength) {
  std::vector<float> x = {3, 4};
  normalize(x);
  EXPECT_FLOAT_EQ(x[0], 0.6f);
  EXPECT_FLOAT_EQ(x[1], 0.8f);
  x = {0, 0};
  normalize(x);
  EXPECT_EQ(x, (std::vector<float>{0, 0}));
}

}  // namespace
}  // namespace itif::runtime
