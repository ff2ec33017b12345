// Results of small Hugging Face models compared with those of transformers
// (tests/reference/make_goldens.py), on the tested device in every type it offers.
#include "support/golden_model.h"

namespace itif::runtime {
namespace {

using testing::Answer;
using testing::TestRequest;

struct Case {
  TestRequest input;
  std::vector<float> expected;
};

class Golden : public testing::GoldenModel {
 protected:
  void SetUp() override {
    open("golden.json", 512);
    if (IsSkipped() || HasFatalFailure()) return;
    stream_ = device_->make_stream(group_->stream_limits()).value();
    for (const auto& one : golden_["cases"]) {
      Case test_case;
      test_case.input.slot = slot_;
      test_case.input.ids = one["ids"].get<std::vector<uint32_t>>();
      test_case.input.token_types = one["token_types"].get<std::vector<uint8_t>>();
      test_case.input.kind = testing::kind_of(one["kind"]);
      test_case.input.id_bytes = cases_.size() % 2 ? 2 : 4;
      test_case.expected = one["values"].get<std::vector<float>>();
      cases_.push_back(std::move(test_case));
    }
  }

  void expect_answer(const Case& test_case, const Answer& answer) const {
    ASSERT_TRUE(answer.ok()) << answer.detail;
    EXPECT_EQ(answer.kind, test_case.input.kind);
    expect_close(answer.floats(), test_case.expected);
  }

  // Each batch takes as many cases as fit.
  void run_in_batches(bool are_padded, uint32_t row_tokens = 0) {
    for (size_t first = 0; first < cases_.size();) {
      std::vector<TestRequest> inputs;
      size_t longest = 0, last = first;
      for (size_t rows = 0; last < cases_.size(); ++last) {
        const size_t tokens = cases_[last].input.ids.size();
        const size_t most = std::max(longest, tokens);
        rows = are_padded ? (inputs.size() + 1) * most : rows + tokens;
        if (rows > 512) break;
        longest = most;
        inputs.push_back(cases_[last].input);
      }
      if (are_padded)
        for (TestRequest& input : inputs)
          input.padding = static_cast<uint32_t>(longest - input.ids.size());
      if (row_tokens > 0) share_rows(inputs, row_tokens);
      const std::vector<Answer> answers = testing::run_batch(*group_, *stream_, inputs);
      for (size_t i = first; i < last; ++i) {
        SCOPED_TRACE(i);
        expect_answer(cases_[i], answers[i - first]);
      }
      first = last;
    }
  }

  // Concatenates requests in rows of at most row_tokens, unless one is longer.
  static void share_rows(std::vector<TestRequest>& inputs, uint32_t row_tokens) {
    uint32_t row = 0;
    size_t tokens = 0;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (i > 0 && tokens + inputs[i].ids.size() > row_tokens) {
        ++row;
        tokens = 0;
      }
      tokens += inputs[i].ids.size();
      inputs[i].score_matrix = row;
    }
  }

  std::unique_ptr<device::Stream> stream_;
  std::vector<Case> cases_;
};

TEST_P(Golden, OneByOne) {
  for (size_t i = 0; i < cases_.size(); ++i) {
    SCOPED_TRACE(std::to_string(i) + " " + wire::result_kind_name(cases_[i].input.kind) + " of " +
                 std::to_string(cases_[i].input.ids.size()) + " tokens");
    expect_answer(cases_[i], testing::run_batch(*group_, *stream_, {cases_[i].input})[0]);
  }
}

TEST_P(Golden, AllInBatches) {
  run_in_batches(false);
}
// Attention over whole rows, masked to each request: concat's rows are long, slotted's slots short.
class GoldenInSharedRows : public Golden {};
TEST_P(GoldenInSharedRows, AllInBatches) {
  for (const uint32_t row_tokens : {64u, 512u}) run_in_batches(false, row_tokens);
}
INSTANTIATE_TEST_SUITE_P(
    Models, GoldenInSharedRows,
    ::testing::Combine(::testing::ValuesIn(testing::golden_names("golden.json")),
                       ::testing::Values("f32", "bf16"), ::testing::Values("fused")),
    testing::golden_test_name);
// Every request is padded to the longest, as the naive planner does.
TEST_P(Golden, AllInPaddedBatches) {
  run_in_batches(true);
}

INSTANTIATE_TEST_SUITE_P(Models, Golden, testing::golden_params("golden.json"),
                         testing::golden_test_name);

}  // namespace
}  // namespace itif::runtime
