// Small batches padded to a form: no form asks for more than it may, and what is padded changes no result by a bit.
#include "runtime/batch_forms.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "support/ask.h"
#include "support/small_group.h"

namespace itif::runtime {
namespace {

using kernels::RowRange;
using testing::Answer;
using testing::Ask;
using wire::ResultKind;

constexpr uint32_t kFormRows = 96;

std::vector<RowRange> runs_of(std::initializer_list<uint32_t> lengths) {
  std::vector<RowRange> runs;
  for (const uint32_t length : lengths)
    runs.push_back({0, length, static_cast<uint32_t>(runs.size())});
  return runs;
}

TEST(BatchForms, AreFewAndWithinTheirRows) {
  for (const uint32_t max_rows : {0u, 15u, 16u, 96u, 200u, 512u}) {
    const BatchForms forms(max_rows, 0);
    EXPECT_LE(forms.all().size(), 80u);
    EXPECT_EQ(forms.all().empty(), max_rows < 16);
    for (const BatchForm& form : forms.all()) {
      EXPECT_LE(form.num_rows(), max_rows);
      EXPECT_EQ(form.range_rows % 16, 0u);
    }
  }
}

TEST(BatchForms, HoldWhatTheyAreFoundFor) {
  const BatchForms forms(512, 0);
  const auto rows_of = [&](std::initializer_list<uint32_t> lengths) {
    const BatchForm* form = forms.find(runs_of(lengths), lengths.size(), lengths.size());
    return form == nullptr ? std::pair(0u, 0u) : std::pair(form->range_rows, form->num_ranges);
  };
  EXPECT_EQ(rows_of({1}), std::pair(16u, 1u));
  EXPECT_EQ(rows_of({16}), std::pair(16u, 1u));
  EXPECT_EQ(rows_of({17}), std::pair(32u, 1u));
  EXPECT_EQ(rows_of({128, 128, 128, 128}), std::pair(128u, 4u)) << "without padding";
  EXPECT_EQ(rows_of({512}).second * rows_of({512}).first, 512u);
  EXPECT_EQ(rows_of({513}), std::pair(0u, 0u));
  EXPECT_EQ(rows_of({120, 120, 120, 120, 120}), std::pair(0u, 0u));
  EXPECT_EQ(forms.find({}, 0, 0), nullptr);
  // Any single request that is small has one.
  for (uint32_t length = 1; length <= 512; ++length) {
    const BatchForm* form = forms.find(runs_of({length}), 1, 1 + length * 4 / 500);
    ASSERT_NE(form, nullptr) << length;
    EXPECT_LT(form->num_rows(), length + (length <= 64 ? 32 : 64)) << length;
  }
}

TEST(BatchForms, OfImagesHoldOneARange) {
  const BatchForms forms(512, 197);
  ASSERT_EQ(forms.all().size(), 2u);
  EXPECT_EQ(forms.find(runs_of({394}), 2, 0)->num_rows(), 2 * 208u);
  EXPECT_EQ(forms.find(runs_of({591}), 3, 0), nullptr);
}

TEST(BatchForms, OfStepsAreOneEachAndHoldAFewBeamsOfManyTenants) {
  const BatchForms forms = BatchForms::of_steps(512);
  EXPECT_LE(forms.all().size(), 60u);
  EXPECT_EQ(forms.max_rows(), 512u);
  EXPECT_EQ(BatchForms().max_rows(), 0u);
  EXPECT_TRUE(BatchForms::of_steps(7).all().empty());
  std::set<std::pair<uint32_t, uint32_t>> kinds;
  for (const BatchForm& form : forms.all()) {
    EXPECT_EQ(form.range_rows % 8, 0u);
    kinds.emplace(form.range_rows, form.num_ranges);
  }
  EXPECT_EQ(kinds.size(), forms.all().size());
  EXPECT_EQ(forms.find(runs_of({4}), 0, 0)->num_rows(), 8u);
  EXPECT_EQ(forms.find(runs_of({4, 1, 4, 6}), 0, 0)->num_rows(), 32u);
  EXPECT_EQ(forms.find(runs_of({128}), 0, 0)->num_ranges, 1u);
}

TEST(BatchForms, RangesHoldARunEachAndThenTheFormsOthers) {
  const BatchForm form = {.range_rows = 8, .num_ranges = 5};
  std::vector<RowRange> ranges;
  EXPECT_EQ(append_ranges(&form, 0, 9, 3, ranges), 16u);
  EXPECT_EQ(append_ranges(&form, 16, 8, 1, ranges), 24u);
  EXPECT_EQ(fill_ranges(form, 24, ranges), 40u);
  const RowRange expected[] = {{0, 8, 3}, {8, 8, 3}, {16, 8, 1}, {24, 8, 1}, {32, 8, 1}};
  ASSERT_EQ(ranges.size(), std::size(expected));
  for (size_t i = 0; i < ranges.size(); ++i) {
    EXPECT_EQ(ranges[i].first_row, expected[i].first_row);
    EXPECT_EQ(ranges[i].num_rows, expected[i].num_rows);
    EXPECT_EQ(ranges[i].slot, expected[i].slot);
  }
  ranges.clear();
  EXPECT_EQ(append_ranges(nullptr, 2, 9, 3, ranges), 11u);
  EXPECT_EQ(ranges.size(), 1u);
}

// A batch of up to 8 requests, tenants ascending; some cannot run.
std::vector<Ask> random_asks(std::mt19937& random, const Group& group) {
  const auto any = [&](uint32_t most) { return static_cast<uint32_t>(random() % most); };
  std::vector<Ask> asks(1 + any(8));
  for (Ask& ask : asks) {
    ask.slot = any(6);  // 5 are loaded
    const uint32_t length = 1 + any(any(2) == 0 ? 5 : 41);
    for (uint32_t i = 0; i < length; ++i) ask.ids.push_back(any(131));
    if (any(20) == 0) ask.ids[any(length)] = 131;
    for (uint32_t i = 0; any(3) == 0 && i < length; ++i) ask.token_types.push_back(any(2) != 0);
    if (ask.token_types.size() != length) ask.token_types.clear();
    const auto kind = static_cast<ResultKind>(any(7));
    const model::TenantModel* model = group.model(ask.slot);
    if (model != nullptr && supports(model->head.spec, kind)) ask.kind = kind;
    ask.ids_a_piece = 1 + any(16);
    ask.padding = any(4) == 0 ? any(4) : 0;
  }
  std::ranges::sort(asks, {}, &Ask::slot);
  return asks;
}

// Its loops give a row the same result wherever it stands.
TEST(BatchForms, PaddingChangesNoResult) {
  testing::PlainDevice device;
  testing::SmallGroup unpadded(device);
  device.ask_for_forms(kFormRows);
  testing::SmallGroup padded(device);
  ASSERT_EQ(unpadded.group->num_forms(), 0u);
  ASSERT_GT(padded.group->num_forms(), 0u);
  std::mt19937 random(7);
  uint32_t num_padded = 0;
  for (int turn = 0; turn < 150; ++turn) {
    const std::vector<Ask> asks = random_asks(random, *padded.group);
    const std::vector<Answer> expected = run_batch(*unpadded.group, *unpadded.stream, asks);
    testing::AskedBatch asked(asks);
    Batch batch = asked.batch();
    ASSERT_TRUE(padded.group->forward(*padded.stream, batch));
    num_padded += batch.num_padding_rows > 0;
    const std::vector<Answer> answers = asked.answers();
    for (size_t i = 0; i < asks.size(); ++i) {
      EXPECT_EQ(answers[i].status, expected[i].status);
      EXPECT_EQ(answers[i].bytes, expected[i].bytes)
          << "turn " << turn << ", request " << i << " of tenant " << asks[i].slot << ", kind "
          << static_cast<int>(asks[i].kind);
    }
  }
  EXPECT_GT(num_padded, 75u);
}

}  // namespace
}  // namespace itif::runtime
