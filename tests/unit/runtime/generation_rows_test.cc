// The rows and slots that a batch policy decides are those in which the sources are encoded, also
// if only a part of a selection finds room at a step. Request::row and row_slot tell the decision.
#include <map>

#include "base/random.h"
#include "support/generation.h"
#include "support/plain_device.h"

namespace itif::runtime {
namespace {

class GenerationRows : public Generation, public ::testing::WithParamInterface<uint32_t> {
 protected:
  void open_with(uint32_t max_beams, const char* policy, const char* planner) {
    auto device = std::make_unique<testing::PlainDevice>();
    device->state().on_operator = [this](const kernels::Operator& op) {
      const auto* attention = std::get_if<const kernels::Attention*>(&op);
      if (attention == nullptr) return;
      segments_.assign((*attention)->segments.begin(), (*attention)->segments.end());
      matrices_.assign((*attention)->score_matrices.begin(), (*attention)->score_matrices.end());
    };
    open("beams-4", {.max_beams = max_beams}, std::move(device));
    admit("beams-3-smaller");
    ASSERT_TRUE(executor_->set_scheduler(policy));
    const Status set = executor_->set_planner(planner, device_->info(), nullptr);
    ASSERT_TRUE(set) << set.error().message;
  }
  // One golden case of each length, so that a pass's segments tell them apart.
  static std::map<size_t, std::pair<uint32_t, Case>> cases() {
    std::map<size_t, std::pair<uint32_t, Case>> by_length;
    for (const uint32_t slot : {0u, 1u})
      for (const Case& c : cases_of(slot ? "beams-3-smaller" : "beams-4"))
        by_length.insert({c.ids.size(), {slot, c}});
    return by_length;
  }
  // The requests that share each matrix of the last pass of sources, and the matrices' lengths.
  std::map<uint32_t, std::vector<const request::Request*>> by_matrix() {
    std::map<uint32_t, std::vector<const request::Request*>> members;
    for (const kernels::SegmentRows& segment : segments_) {
      const auto request =
          std::ranges::find(requests_, segment.num_rows, &request::Request::num_tokens);
      const auto matrix = std::ranges::find_if(matrices_, [&](const kernels::SegmentRows& of) {
        return segment.first_row >= of.first_row &&
               segment.first_row + segment.num_rows <= of.first_row + of.num_rows;
      });
      EXPECT_NE(request, requests_.end());
      EXPECT_NE(matrix, matrices_.end());
      members[matrix->first_row].push_back(&*request);
    }
    return members;
  }
  // Runs all cases. Returns how many rows or slots held several sources.
  size_t run_cases(uint32_t request::Request::*number, uint32_t row_tokens) {
    const auto all = cases();
    EXPECT_GE(all.size(), 8u);
    for (const auto& [length, c] : all) submit(c.second.ids, c.first);
    size_t num_shared = 0;
    for (int i = 0; i < 100'000 && completed_ < requests_.size(); ++i) {
      segments_.clear();
      matrices_.clear();
      step();
      std::set<uint32_t> numbers;
      for (const auto& [first_row, members] : by_matrix()) {
        for (const request::Request* member : members)
          EXPECT_EQ(member->*number, members.front()->*number);
        EXPECT_TRUE(numbers.insert(members.front()->*number).second) << "a row is in two";
        num_shared += members.size() > 1;
      }
      for (const kernels::SegmentRows& matrix : matrices_)
        EXPECT_EQ(matrix.num_rows, row_tokens != 0 ? row_tokens : matrix.num_rows);
    }
    run_all();
    for (const request::Request& r : requests_)
      expect_tokens(r, all.at(r.num_tokens).second.tokens);
    return num_shared;
  }

  std::vector<kernels::SegmentRows> segments_, matrices_;  // of the last pass of sources
};

// Beams of one or two sequences, or of all.
INSTANTIATE_TEST_SUITE_P(MaxBeams, GenerationRows, ::testing::Values(8, 64));

TEST_P(GenerationRows, DasFillsTheRowsOfConcat) {
  open_with(GetParam(), "das", "concat:row_tokens=128");
  const size_t num_shared = run_cases(&request::Request::row, 128);
  EXPECT_GE(num_shared, 1u);
}

TEST_P(GenerationRows, SlottedDasFillsTheSlotsOfSlotted) {
  open_with(GetParam(), "slotted_das", "slotted:row_tokens=128");
  const size_t num_shared = run_cases(&request::Request::row_slot, 0);
  EXPECT_GE(num_shared, GetParam() == 64 ? 1u : 0u);
}

}  // namespace
}  // namespace itif::runtime
