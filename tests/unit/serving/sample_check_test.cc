// Comparison of a model's answers with its samples, and samples of a model that does not serve yet.
#include "serving/sample_check.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tenant_service_fixture.h"
#include "wire/classes.h"

namespace itif::serving::test {
namespace {

using Answer = pipeline::LocalRequests::Answer;

Answer answer_of(wire::ResultKind kind, const void* data, size_t bytes) {
  Answer answer;
  answer.result_kind = kind;
  answer.result.resize(bytes);
  if (bytes > 0) std::memcpy(answer.result.data(), data, bytes);
  return answer;
}

Answer values(std::initializer_list<float> v) {
  return answer_of(wire::ResultKind::kLogits, std::data(v), v.size() * sizeof(float));
}

template <class Expected>
model::Sample sample(Expected expected) {
  model::Sample s;
  s.origin = "f:1";
  s.expected = std::move(expected);
  return s;
}

std::string why(const model::Sample& s, const Answer& answer) {
  const Status good = compare(s, answer);
  EXPECT_FALSE(good);
  return good ? "" : good.error().message;
}

TEST(SampleCheck, ValuesMayDifferByTheTolerance) {
  const auto s = sample(model::ExpectedValues{{1, 2, 3}, 0.5});
  EXPECT_TRUE(compare(s, values({1.5, 1.5, 3})));
  const std::string message = why(s, values({1.5, 4, 3.6f}));
  EXPECT_NE(message.find("f:1: value 1 of 3 is 4, expected 2"), std::string::npos) << message;
  EXPECT_NE(message.find("difference of 2 is the largest"), std::string::npos) << message;
  EXPECT_NE(why(s, values({1, 2})).find("gives 2 values"), std::string::npos);
  EXPECT_NE(why(s, values({NAN, 2, 3})).find("value 0"), std::string::npos);
  EXPECT_NE(why(s, values({1, 2, INFINITY})).find("value 2"), std::string::npos);
  EXPECT_NE(why(s, answer_of(wire::ResultKind::kTokens, nullptr, 0)).find("answers tokens"),
            std::string::npos);
}

TEST(SampleCheck, LabelIsThatOfTheBestClass) {
  const wire::ClassEntry classes[] = {{1, 0.75f, "yes"}, {0, 0.25f, "no"}};
  std::vector<std::byte> bytes(wire::encoded_classes_bytes(classes));
  ASSERT_EQ(wire::encode_classes(classes, bytes), bytes.size());
  const Answer answer = answer_of(wire::ResultKind::kClasses, bytes.data(), bytes.size());
  EXPECT_TRUE(compare(sample(model::ExpectedLabel{"yes"}), answer));
  EXPECT_NE(why(sample(model::ExpectedLabel{"no"}), answer).find("'yes' (probability 0.75"),
            std::string::npos);
  EXPECT_NE(why(sample(model::ExpectedLabel{"no"}), values({1})).find("answers logits"),
            std::string::npos);
}

TEST(SampleCheck, GeneratedTokensAndTextsAreEqual) {
  const uint32_t ids[] = {5, 6, 7};
  const Answer tokens = answer_of(wire::ResultKind::kTokens, ids, sizeof ids);
  EXPECT_TRUE(compare(sample(model::ExpectedTokens{{5, 6, 7}}), tokens));
  EXPECT_NE(why(sample(model::ExpectedTokens{{5, 6}}), tokens).find("from token 2 on"),
            std::string::npos);
  const Answer text = answer_of(wire::ResultKind::kText, "Tag", 3);
  EXPECT_TRUE(compare(sample(model::ExpectedText{"Tag"}), text));
  EXPECT_NE(why(sample(model::ExpectedText{"Tage"}), text).find("'Tag', expected 'Tage'"),
            std::string::npos);
}

class SampleCheckTest : public TenantServiceTest {
 protected:
  void SetUp() override {
    TenantServiceTest::SetUp();
    std::filesystem::copy(settings(1).model_dir, directory_);
  }
  void TearDown() override {
    std::filesystem::remove_all(directory_);
    TenantServiceTest::TearDown();
  }
  void samples(const std::string& text) {
    std::ofstream(directory_ + "/itif-samples.jsonl") << text;
  }
  tenant::Record record_of(uint32_t id) const {
    tenant::Record r = settings(id);
    r.model_dir = directory_;
    return r;
  }
  const std::string directory_ =
      (std::filesystem::temp_directory_path() / ("itif-checked-" + std::to_string(getpid())))
          .string();
};

// A FakeGroup answers the token ids.
TEST_F(SampleCheckTest, ModelIsCheckedBeforeItServes) {
  samples(R"({"ids": [5, 6], "expect": {"values": [5, 6]}})");
  ASSERT_TRUE(admit(record_of(1)));
  EXPECT_EQ(snapshot().find(1)->lease->num_in_flight(), 0u);
  samples(R"({"ids": [5, 6], "expect": {"values": [5, 7]}})");
  const Status refused = admit(record_of(2));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
  EXPECT_NE(refused.error().message.find("value 1 of 2 is 6, expected 7"), std::string::npos);
  EXPECT_EQ(snapshot().find(2), nullptr);
  EXPECT_EQ(groups[0]->num_tenants(), 1u);
  EXPECT_FALSE(install(1));
  EXPECT_FALSE(install_canary(1, 5));
  EXPECT_EQ(snapshot().find(1)->version, 1u);
  EXPECT_EQ(groups[0]->num_tenants(), 1u);
}

TEST_F(SampleCheckTest, ModelOfTheRegistryIsNotCheckedAgain) {
  samples("not JSON");
  service->expect({record_of(1)}, "");
  EXPECT_TRUE(admit(record_of(1)));
}

TEST_F(SampleCheckTest, RefusedModelLeavesNoGroup) {
  samples(R"({"ids": [5, 6], "expect": {"label": "a"}})");
  EXPECT_FALSE(admit(record_of(1)));
  EXPECT_TRUE(service->groups().empty());
}

TEST_F(SampleCheckTest, SampleOfAFailedDeviceIsNoFault) {
  ASSERT_TRUE(admit(settings(9)));
  groups[0]->fail_next = true;
  samples(R"({"ids": [5, 6], "expect": {"values": [5, 6]}})");
  EXPECT_EQ(admit(record_of(1)).error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace itif::serving::test
