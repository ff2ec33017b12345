// Planning allocates nothing. Counts the calls of this program's operator new.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "plan/make_planner.h"
#include "support/row_pricer.h"
#include "support/tables.h"

namespace {
std::atomic<size_t> num_allocations{0};
}

// noinline: otherwise GCC sees half of a new/delete pair and warns of a mismatch.
[[gnu::noinline]] void* operator new(size_t bytes) {
  ++num_allocations;
  if (void* memory = std::malloc(bytes ? bytes : 1)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}

namespace itif::plan {
namespace {

TEST(Planners, AllocateNothingWhenPlanning) {
  const CostTables tables = full_tables(
      {16, 64, 128}, 8, [](uint32_t l, uint32_t b) { return 50.0 + l * b; },
      [](uint32_t l, uint32_t c, uint32_t s) { return 60.0 + 1.0 * l * c * s; });
  const auto expect_none = [&](const char* name, uint32_t max_pass_tenants) {
    const PlanLimits limits{
        .max_requests = 64, .max_rows = 512, .max_pass_tenants = max_pass_tenants};
    const auto planner = *make_planner(
        name, {.limits = limits, .tables = &tables, .pricer = std::make_shared<RowPricer>()});
    Plan plan;
    plan.reserve(limits.max_requests);
    Random random(1);
    std::vector<Item> items(limits.max_requests);
    for (int round = 0; round < 100; ++round) {
      // Round 0 fills every array: each request is a mini-batch, a call and a pass.
      for (Item& item : items)
        item = {static_cast<uint32_t>(random.below(round == 0 ? 1u << 24 : 6)),
                round == 0 ? 512u : 1 + static_cast<uint32_t>(random.below(128))};
      const size_t before = num_allocations;
      planner->plan(items, plan);
      ASSERT_EQ(num_allocations - before, 0u) << name;
    }
  };
  for (const char* name : {"packed", "naive", "turbo", "itif", "joint", "auto"})
    for (const uint32_t max_pass_tenants : {0u, 1u, 3u}) expect_none(name, max_pass_tenants);
}

}  // namespace
}  // namespace itif::plan
