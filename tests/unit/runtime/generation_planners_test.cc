// Sources are encoded in the rows and slots of a planner. The planner changes no token.
#include <array>
#include <set>
#include <string>
#include <vector>

#include "base/random.h"
#include "support/generation.h"

namespace itif::runtime {
namespace {

// Sources of two tenants share rows and slots. Rows of 100 tokens make several passes of one step.
TEST_P(GenerationBothWays, SameTokensWhateverTheSourcesPlanner) {
  const auto first = cases_of("beams-4"), second = cases_of("beams-3-smaller");
  for (const char* planner : {"packed", "naive", "concat", "concat:row_tokens=100",
                              "slotted:slot_tokens=9", "slotted:row_tokens=90"}) {
    SCOPED_TRACE(planner);
    open("beams-4");
    admit("beams-3-smaller");
    const Status set = executor_->set_planner(planner, device_->info(), nullptr);
    ASSERT_TRUE(set) << set.error().message;
    std::vector<std::pair<const request::Request*, const Case*>> all;
    for (size_t i = 0; i < 2 * std::min(first.size(), second.size()); ++i) {
      const Case& c = (i % 2 ? second : first)[i / 2];
      all.emplace_back(&submit(c.ids, i % 2, 64), &c);
    }
    run_all();
    for (const auto& [request, c] : all) expect_tokens(*request, c->tokens);
  }
}

// Four sources, every assignment to two tenants, rows and slots of every length from the longest
// source's to that of all four. Not run on the simulated GPU, where it takes minutes.
TEST_F(Generation, SameTokensInRowsAndSlotsOfEveryLength) {
  constexpr std::array kLengths = {1u, 3u, 7u, 15u};
  constexpr uint32_t kTotal = 26;
  open("beams-4");
  admit("beams-3-smaller");
  Random random(5);
  std::array<std::vector<uint32_t>, kLengths.size()> sources;
  std::array<std::array<std::vector<uint32_t>, 2>, kLengths.size()> alone;  // [source][tenant]
  for (size_t i = 0; i < kLengths.size(); ++i) {
    for (uint32_t at = 0; at < kLengths[i]; ++at)
      sources[i].push_back(5 + static_cast<uint32_t>(random.below(80)));
    for (const uint32_t slot : {0u, 1u}) {
      const request::Request& r = submit(sources[i], slot);
      run_all();
      alone[i][slot] = tokens_of(r);
    }
  }
  std::vector<std::string> planners;
  for (uint32_t tokens = kLengths.back(); tokens <= kTotal; ++tokens) {
    planners.push_back("concat:row_tokens=" + std::to_string(tokens));
    planners.push_back("slotted:slot_tokens=" + std::to_string(tokens));
  }
  std::set<uint32_t> num_rows;  // of the first steps
  for (uint32_t tenants = 0; tenants < 16; ++tenants) {
    for (const std::string& planner : planners) {
      SCOPED_TRACE(planner + ", tenants " + std::to_string(tenants));
      ASSERT_TRUE(executor_->set_planner(planner, device_->info(), nullptr));
      std::array<const request::Request*, kLengths.size()> sent;
      for (size_t i = 0; i < sent.size(); ++i) sent[i] = &submit(sources[i], tenants >> i & 1);
      num_rows.insert(step().num_rows);
      run_all();
      for (size_t i = 0; i < sent.size(); ++i) expect_tokens(*sent[i], alone[i][tenants >> i & 1]);
      if (HasFailure()) return;
    }
  }
  EXPECT_GE(num_rows.size(), 8u) << "the planners lay out the sources in as many ways";
}

TEST_F(Generation, RefusesPlannersThatLayOutNoSources) {
  open("greedy");
  for (const char* planner : {"turbo", "itif", "joint", "auto"})
    EXPECT_EQ(executor_->set_planner(planner, device_->info(), nullptr).error().code,
              Code::kUnsupported);
  EXPECT_EQ(executor_->set_planner("concat:row_tokens=257", device_->info(), nullptr).error().code,
            Code::kInvalidArgument);
}

}  // namespace
}  // namespace itif::runtime
