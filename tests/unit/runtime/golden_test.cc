// Small models of Hugging Face transformers against what the library computed with them
// (tests/reference/make_goldens.py), on the host device in every type it offers.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "backbone/open_model.h"
#include "runtime/group.h"
#include "support/ask.h"

namespace itif::runtime {
namespace {

using testing::Answer;
using testing::Ask;

std::vector<std::string> golden_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(ITIF_GOLDENS_DIR))
    if (std::filesystem::exists(entry.path() / "golden.json"))
      names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

wire::ResultKind kind_of(const std::string& name) {
  for (int kind = 0; kind <= 6; ++kind)
    if (wire::result_kind_name(static_cast<wire::ResultKind>(kind)) == name)
      return static_cast<wire::ResultKind>(kind);
  ADD_FAILURE() << "unknown kind " << name;
  return wire::ResultKind::kDefault;
}

using Form = std::string;  // a fidelity's name

struct Case {
  Ask ask;
  std::vector<float> expected;
};

class Golden : public ::testing::TestWithParam<std::tuple<std::string, std::string, Form>> {
 protected:
  const std::string& name() const { return std::get<0>(GetParam()); }
  const std::string& dtype() const { return std::get<1>(GetParam()); }

  const Form& form() const { return std::get<2>(GetParam()); }

  void SetUp() override {
    device::DeviceOptions options;
    options.kind = "host";
    options.dtype = dtype();
    options.num_threads = 1;
    auto opened = device::open_device(options);
    if (!opened && opened.error().code == Code::kUnsupported)
      GTEST_SKIP() << opened.error().message;
    ASSERT_TRUE(opened) << opened.error().message;
    device_ = std::move(*opened);

    const std::string directory = std::string(ITIF_GOLDENS_DIR) + "/" + name();
    const auto spec = backbone::read_backbone_spec(directory);
    ASSERT_TRUE(spec) << spec.error().message;
    auto group = Group::create(*device_, *spec,
                               {.max_tokens = 512,
                                .max_requests = 64,
                                .max_tenants = 2,
                                .fidelity = backbone::parse_fidelity(form()).value()});
    ASSERT_TRUE(group) << group.error().message;
    group_ = std::move(*group);
    const auto slot = group_->admit(directory, nullptr);
    ASSERT_TRUE(slot) << slot.error().message;
    stream_ = device_->make_stream(group_->stream_limits()).value();

    std::ifstream file(directory + "/golden.json");
    const nlohmann::json golden = nlohmann::json::parse(file);
    for (const auto& one : golden["cases"]) {
      Case test_case;
      test_case.ask.slot = *slot;
      test_case.ask.ids = one["ids"].get<std::vector<uint32_t>>();
      test_case.ask.token_types = one["token_types"].get<std::vector<uint8_t>>();
      test_case.ask.kind = kind_of(one["kind"]);
      test_case.ask.id_bytes = cases_.size() % 2 ? 2 : 4;
      test_case.expected = one["values"].get<std::vector<float>>();
      cases_.push_back(std::move(test_case));
    }
    ASSERT_GT(cases_.size(), 3u);
  }

  void expect_close(const Case& test_case, const Answer& answer) const {
    ASSERT_TRUE(answer.ok()) << answer.detail;
    EXPECT_EQ(answer.kind, test_case.ask.kind);
    const std::vector<float> got = answer.floats();
    ASSERT_EQ(got.size(), test_case.expected.size());
    if (dtype() == "f32")
      EXPECT_LE(testing::max_difference(got, test_case.expected), 1e-4);
    else if (got.size() > 8)
      EXPECT_GE(testing::cosine(got, test_case.expected), 0.999);
    else  // a few numbers have hardly a direction
      EXPECT_LE(testing::max_difference(got, test_case.expected), 0.02);
  }

  // As many as fit in each.
  void run_in_batches(bool are_padded) {
    for (size_t first = 0; first < cases_.size();) {
      std::vector<Ask> asks;
      size_t longest = 0, last = first;
      for (size_t rows = 0; last < cases_.size(); ++last) {
        const size_t tokens = cases_[last].ask.ids.size();
        const size_t most = std::max(longest, tokens);
        rows = are_padded ? (asks.size() + 1) * most : rows + tokens;
        if (rows > 512) break;
        longest = most;
        asks.push_back(cases_[last].ask);
      }
      if (are_padded)
        for (Ask& ask : asks) ask.padding = static_cast<uint32_t>(longest - ask.ids.size());
      const std::vector<Answer> answers = testing::run_batch(*group_, *stream_, asks);
      for (size_t i = first; i < last; ++i) {
        SCOPED_TRACE(i);
        expect_close(cases_[i], answers[i - first]);
      }
      first = last;
    }
  }

  std::unique_ptr<device::Device> device_;
  std::unique_ptr<Group> group_;
  std::unique_ptr<device::Stream> stream_;
  std::vector<Case> cases_;
};

TEST_P(Golden, OneByOne) {
  for (size_t i = 0; i < cases_.size(); ++i) {
    SCOPED_TRACE(std::to_string(i) + " " + wire::result_kind_name(cases_[i].ask.kind) + " of " +
                 std::to_string(cases_[i].ask.ids.size()) + " tokens");
    expect_close(cases_[i], testing::run_batch(*group_, *stream_, {cases_[i].ask})[0]);
  }
}

TEST_P(Golden, AllInBatches) {
  run_in_batches(false);
}
// As the planners of the papers lay batches out: every request as long as the longest.
TEST_P(Golden, AllInPaddedBatches) {
  run_in_batches(true);
}

INSTANTIATE_TEST_SUITE_P(Models, Golden,
                         ::testing::Combine(::testing::ValuesIn(golden_names()),
                                            ::testing::Values("f32", "bf16"),
                                            ::testing::Values("fused", "thesis")),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param) + "_on_" +
                                              std::get<1>(info.param) + "_" +
                                              std::get<2>(info.param);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace itif::runtime
