// When sequences enter and when their K/V memory is given back: TCB's early memory cleaning
// (section 4.2.2), between steps and between batches.
#include <map>

#include "support/generation.h"
#include "support/plain_device.h"

namespace itif::runtime {
namespace {

using wire::StatusCode;

constexpr uint64_t kBlockBytes =
    uint64_t{3} * 2 * backbone::Decoder::kBlockTokens * 36 * sizeof(float);

uint32_t blocks_of(size_t tokens) {
  return static_cast<uint32_t>((tokens + backbone::Decoder::kBlockTokens - 1) /
                               backbone::Decoder::kBlockTokens);
}

class GenerationCleaning : public Generation {
 protected:
  void open_with(const std::string& model, const GenerationOptions& generation,
                 const DecoderGroupOptions& decoder = {}, const char* planner = "packed",
                 const char* policy = "fcfs") {
    generation_ = generation;
    open(model, decoder);
    ASSERT_TRUE(executor_->set_scheduler(policy));
    const Status set = executor_->set_planner(planner, device_->info(), nullptr);
    ASSERT_TRUE(set) << set.error().message;
  }
  uint32_t worst_case(const request::Request& r) const {
    const model::GenerationConfig& config = group_->model(0)->head.spec.generation.front();
    return blocks_of(r.num_tokens) + config.num_beams * blocks_of(config.max_length - 1);
  }
  bool is_answered(const request::Request& r) const { return std::ranges::count(order_, &r) > 0; }
};

struct Setting {
  Joining joining;
  Cleaning cleaning;
};
class GenerationSettings : public GenerationCleaning,
                           public ::testing::WithParamInterface<std::tuple<bool, Setting>> {
 protected:
  GenerationSettings() { is_async_ = std::get<0>(GetParam()); }
  const GenerationOptions options_{std::get<1>(GetParam()).joining,
                                   std::get<1>(GetParam()).cleaning};
};
INSTANTIATE_TEST_SUITE_P(
    All, GenerationSettings,
    ::testing::Combine(::testing::Bool(),
                       ::testing::Values(Setting{Joining::kSteps, Cleaning::kSequence},
                                         Setting{Joining::kSteps, Cleaning::kSlot},
                                         Setting{Joining::kSteps, Cleaning::kBatch},
                                         Setting{Joining::kBatches, Cleaning::kSequence},
                                         Setting{Joining::kBatches, Cleaning::kSlot},
                                         Setting{Joining::kBatches, Cleaning::kBatch})));

// A cache for a few sequences, and beams for two or all. run_all() checks that all memory is back.
TEST_P(GenerationSettings, SameTokensWithEveryPlanner) {
  const auto cases = cases_of("beams-4");
  for (const char* planner : {"packed", "concat:row_tokens=100", "slotted:row_tokens=90"})
    for (const uint32_t max_beams : {8u, 64u}) {
      SCOPED_TRACE(planner);
      open_with("beams-4", options_, {.max_beams = max_beams, .max_cache_bytes = 70 * kBlockBytes},
                planner, "slotted_das");
      std::vector<std::pair<const request::Request*, const Case*>> all;
      for (const Case& c : cases) {
        all.emplace_back(&submit(c.ids), &c);
        step();
      }
      run_all();
      for (const auto& [request, c] : all) expect_tokens(*request, c->tokens);
    }
}

TEST_P(GenerationSettings, DeadlinesEndSequencesOfBothBatches) {
  open_with("beams-4", options_, {.max_beams = 4});
  const auto cases = cases_of("beams-4");
  deadline_ns_ = clock_.now_ns() + 1'000'000;
  const request::Request& runs = submit(cases[8].ids);
  const request::Request& next = submit(cases[8].ids);
  deadline_ns_ = 0;
  const request::Request& patient = submit(cases[9].ids);
  for (int i = 0; i < 5; ++i) step();
  EXPECT_EQ(executor_->num_executing(), options_.joining == Joining::kSteps ? 1u : 2u);
  clock_.advance_ns(2'000'000);
  run_all();
  EXPECT_EQ(runs.status, StatusCode::kDeadlineLaunch);
  EXPECT_EQ(next.status, options_.joining == Joining::kSteps ? StatusCode::kDeadlineQueue
                                                             : StatusCode::kDeadlineLaunch);
  expect_tokens(patient, cases[9].tokens);
}

// The device works again at once, so that a sequence that was overlooked would be generated.
TEST_F(GenerationCleaning, AFailedDeviceFailsBothBatches) {
  generation_ = {.joining = Joining::kBatches};
  auto plain = std::make_unique<testing::PlainDevice>();
  testing::PlainDevice& device = *plain;
  open("beams-4", {.max_beams = 4}, std::move(plain));
  for (int i = 0; i < 3; ++i) submit(cases_of("beams-4")[3].ids);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(executor_->num_executing(), 2u);
  device.state().fail_synchronize = true;
  EXPECT_TRUE(step().device_failed);
  device.state().fail_synchronize = false;
  run_all();
  for (const request::Request& r : requests_) EXPECT_EQ(r.status, StatusCode::kDeviceFailed);
}

// After each step, the reserved memory is that of the slots (or batches) with an unanswered
// request. slotted_das has filled the slots, and the planner keeps them: half of the sources fill a
// slot, and two of the others fill one. Packets are released when a sequence has entered.
TEST_F(GenerationCleaning, ASlotGivesItsMemoryBackWithItsLastSequence) {
  const auto cases = cases_of("greedy");
  for (const Cleaning cleaning : {Cleaning::kSequence, Cleaning::kSlot, Cleaning::kBatch}) {
    open_with("greedy", {.cleaning = cleaning}, {.max_beams = 128}, "slotted:row_tokens=250",
              "slotted_das");
    const size_t first = requests_.size();
    for (size_t i = 0; i < cases.size(); ++i) {
      std::vector<uint32_t> ids(i % 2 == 0 ? 8 : 4, cases[i].ids.back());
      for (size_t k = 0; k + 1 < ids.size(); ++k) ids[k] = cases[i].ids[k % cases[i].ids.size()];
      submit(ids);
    }
    std::map<const request::Request*, std::pair<size_t, uint32_t>> group_of;
    uint32_t most_held = 0;
    for (size_t num_steps = 0; completed_ < requests_.size(); ++num_steps) {
      step();
      std::map<std::pair<size_t, uint32_t>, bool> runs;  // by group
      for (size_t i = first; i < requests_.size(); ++i) {
        const request::Request& r = requests_[i];
        const uint32_t number = cleaning == Cleaning::kSlot    ? r.row_slot
                                : cleaning == Cleaning::kBatch ? 0
                                                               : static_cast<uint32_t>(i);
        if (!released_.contains(&r)) continue;
        runs[group_of.try_emplace(&r, num_steps, number).first->second] |= !is_answered(r);
      }
      uint32_t running = 0, expected = 0;
      for (const auto& [r, group] : group_of) {
        if (!is_answered(*r)) running += worst_case(*r);
        if (runs[group]) expected += worst_case(*r);
      }
      EXPECT_EQ(executor_->blocks().num_reserved(), expected);
      EXPECT_LE(executor_->blocks().num_used(), expected);
      most_held = std::max(most_held, expected - running);
    }
    EXPECT_EQ(executor_->blocks().num_reserved(), 0u);
    EXPECT_EQ(most_held > 0, cleaning != Cleaning::kSequence);
    if (cleaning != Cleaning::kSlot) continue;
    std::map<std::pair<size_t, uint32_t>, size_t> members;
    for (const auto& [r, group] : group_of) ++members[group];
    EXPECT_GT(members.size(), 1u) << "several slots";
    EXPECT_LT(members.size(), cases.size() - 2) << "slots with several requests";
  }
}

// The cache holds three sequences, and two end before the third. Their memory goes to the next
// batch's source, which is encoded while the third still runs. Without early cleaning it waits.
TEST_F(GenerationCleaning, TheNextBatchLoadsIntoCleanedMemory) {
  const auto cases = cases_of("beams-4");
  std::vector<const Case*> by_length;
  for (const Case& c : cases) by_length.push_back(&c);
  std::ranges::sort(by_length, {}, [](const Case* c) { return c->tokens.size(); });
  const Case &short_one = *by_length.front(), &long_one = *by_length.back();
  ASSERT_LT(short_one.tokens.size() + 2, long_one.tokens.size());
  const uint32_t blocks = 2 * (blocks_of(short_one.ids.size()) + 4 * blocks_of(39)) +
                          blocks_of(long_one.ids.size()) + 4 * blocks_of(39);
  for (const Cleaning cleaning : {Cleaning::kSequence, Cleaning::kSlot, Cleaning::kBatch}) {
    for (const Joining joining : {Joining::kSteps, Joining::kBatches}) {
      open_with("beams-4", {.joining = joining, .cleaning = cleaning},
                {.max_cache_bytes = blocks * kBlockBytes});
      ASSERT_EQ(executor_->blocks().num_blocks(), blocks);
      released_.clear();
      const request::Request& a = submit(short_one.ids);
      const request::Request& b = submit(short_one.ids);
      const request::Request& c = submit(long_one.ids);
      const request::Request& d = submit(short_one.ids);
      bool loaded_early = false, answered_early = false;
      while (!is_answered(c)) {
        step();
        EXPECT_TRUE(is_answered(a) == is_answered(b));
        loaded_early |= released_.contains(&d) && !is_answered(c);
        answered_early |= is_answered(d) && !is_answered(c);
      }
      EXPECT_EQ(loaded_early, cleaning != Cleaning::kBatch);
      // Between steps it also runs at once.
      EXPECT_EQ(answered_early, cleaning != Cleaning::kBatch && joining == Joining::kSteps);
      run_all();
      for (const request::Request* r : {&a, &b, &d}) expect_tokens(*r, short_one.tokens);
      expect_tokens(c, long_one.tokens);
    }
  }
}

// Requests of a batch are answered before those of the next, whatever their lengths.
TEST_F(GenerationCleaning, ABatchIsDecodedToItsEnd) {
  const auto cases = cases_of("beams-4");
  open_with("beams-4", {.joining = Joining::kBatches}, {.max_beams = 12});
  for (const Case& c : cases) submit(c.ids);
  run_all();
  std::map<const request::Request*, size_t> position;
  for (size_t i = 0; i < order_.size(); ++i) position[order_[i]] = i;
  for (size_t i = 0; i < requests_.size(); ++i) EXPECT_EQ(position[&requests_[i]] / 3, i / 3);
}

TEST(GenerationOptionsTest, NamesAreParsedAndOthersRefused) {
  EXPECT_EQ(parse_joining("steps").value(), Joining::kSteps);
  EXPECT_EQ(parse_joining("batches").value(), Joining::kBatches);
  EXPECT_EQ(parse_cleaning("sequence").value(), Cleaning::kSequence);
  EXPECT_EQ(parse_cleaning("slot").value(), Cleaning::kSlot);
  EXPECT_EQ(parse_cleaning("batch").value(), Cleaning::kBatch);
  EXPECT_EQ(parse_joining("step").error().code, Code::kInvalidArgument);
  EXPECT_NE(parse_cleaning("row").error().message.find("'row'"), std::string::npos);
}

}  // namespace
}  // namespace itif::runtime
