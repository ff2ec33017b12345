// Fills rows with requests end to end, for the planners of TCB (section 4): concat and slotted.
//
// Requests are placed tenant by tenant, a tenant's longest first, each in the newest row with room,
// else in a new row. No two rows fit into one, so at most twice the minimum number of rows is used.
// The paper leaves this choice to its scheduler, which knows no tenants. A tenant's requests are
// kept together because each run of a tenant's rows is a GEMM of its own: with B rows and T tenants
// there are about B + T runs, rather than up to B · T if the longest requests of all tenants went
// first.
//
// Every row is padded to the capacity. A request that is longer than it gets a row of its own
// length: the paper's scheduler never chooses such a request, but a client waits for its answer.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "plan/plan.h"
#include "plan/planner.h"

namespace itif::plan {

class RowFilling {
 public:
  explicit RowFilling(const PlanLimits& limits);

  // Replaces `plan`: rows of `capacity` tokens, each a score matrix. `groups`: the group of each
  // item, or empty. Requests of two groups share no row; those of one that fit a row together share
  // it. Time is quadratic in the number of requests, at worst. Allocates nothing. REQUIRES: 1 ≤
  // capacity ≤ max_rows if there are items.
  void fill(std::span<const Item> items, std::span<const uint32_t> groups, uint32_t capacity,
            Plan& plan) noexcept;
  // As fill(), but ignores the groups if that pays. With one tenant: if it takes fewer rows, as
  // placing the longest requests first often does. With several: if it takes at most an eighth more
  // rows, because each run of a tenant's requests is a GEMM, and placing tenant by tenant gives
  // fewer runs.
  void fill_few(std::span<const Item> items, std::span<const uint32_t> groups, uint32_t capacity,
                Plan& plan) noexcept;

 private:
  struct Row {
    uint32_t free = 0;  // tokens
    uint32_t first_item = 0, last_item = 0;
  };
  // 1/kMoreRowsDivisor more rows are worth the fewer runs of several tenants' requests.
  static constexpr size_t kMoreRowsDivisor = 8;

  void assign(std::span<const Item> items, std::span<const uint32_t> groups,
              uint32_t capacity) noexcept;
  void assign_group(std::span<const Item> items, std::span<const uint64_t> group,
                    uint32_t capacity) noexcept;
  void append_rows(std::span<const Item> items, uint32_t capacity, Plan& plan) const noexcept;
  void append(std::span<const Item> items, const Row& row, uint32_t capacity,
              Plan& plan) const noexcept;

  const PlanLimits limits_;
  std::vector<uint64_t> grouped_;  // the items by group: (group, item)
  std::vector<uint64_t> keys_;
  std::vector<Row> rows_;
  std::vector<uint32_t> next_;  // the next item of the same row
};

// Returns the rows of row_tokens that fit a pass of max_rows; none if row_tokens is 0.
std::optional<PlannedRows> planned_rows(uint32_t row_tokens, uint32_t max_rows) noexcept;
// Returns the longest request of at most `most` tokens; 0: there is none.
uint32_t longest_of(std::span<const Item> items, uint32_t most = UINT32_MAX) noexcept;

}  // namespace itif::plan
