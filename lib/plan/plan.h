// A batch plan: each request's rows in a batch, and the GEMM calls that cover it. All planners use
// this representation.
//
// ITIF carries the layout in a linked list with one node per request: its location, its length
// after padding and its operator type. Batching reorders locations and never memory (sections
// 3.3.1, 4.2.3). We keep the same contract in flat arrays. Each element covers a run of the array
// above it:
//
//   segments      one per request, in the order of their rows     (the list's nodes)
//   mini_batches  consecutive segments of one tenant              (Algorithm 1's result)
//   calls         consecutive mini-batches of equal shape         (Algorithm 2's result)
//   passes        consecutive calls that fit the workspace together
//
// Invariants (verify.h checks them):
//  1. Every item has exactly one segment. Each array covers the one above it in order, without gap.
//  2. Rows count from 0 in each pass, without gap: segments, mini-batches and calls are adjacent.
//  3. The last num_rows - num_tokens rows of a segment are padding: they are never read as a result
//     and must not be attended to.
//  4. If a call has several mini-batches, they have equal numbers of segments, all of equal
//     num_rows: one BatchedGEMM with num_rows × hidden inputs at a constant stride. A tenant may
//     occur in it more than once.
//  5. Segments of a pass that share a matrix of attention scores are adjacent: a batch row, or a
//     slot of it (TCB, section 4). Only the last of them has padding. A matrix has
//     Pass::matrix_rows rows, unless it is that of one longer request.
//  6. A pass has at most PlanLimits::max_rows rows, of at most max_pass_tenants tenants. If it has
//     several tenants and no shared scores, it has at most max_shared_tokens tokens. Passes run
//     sequentially; within a pass, each operator that is not a GEMM runs once over all rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace itif::plan {

// The adapter of a request whose tenant has none.
inline constexpr uint32_t kNoAdapter = UINT32_MAX;

// A request as the planners see it. REQUIRES: slot and rank() < 2^24,
// 1 ≤ num_tokens ≤ PlanLimits::max_rows.
struct Item {
  static constexpr uint32_t kBySlot = UINT32_MAX;

  // TenantModel::weight_slot. Tenants whose models have equal weights have the same slot, and are
  // one tenant for planners.
  uint32_t slot = 0;
  uint32_t num_tokens = 0;
  uint32_t order = kBySlot;       // as rank(); kBySlot: the slot
  uint32_t adapter = kNoAdapter;  // its low-rank updates are added to the rows

  // Planners that sort by tenant put smaller ranks first. Items of one slot should have one rank.
  constexpr uint32_t rank() const noexcept { return order == kBySlot ? slot : order; }
};

// A segment's score_matrix if it shares none.
inline constexpr uint32_t kOwnScores = UINT32_MAX;

// A request's rows in the batch.
struct Segment {
  uint32_t item = 0;  // index into the planner's input
  uint32_t slot = 0;
  uint32_t first_row = 0;   // within its pass
  uint32_t num_rows = 0;    // its length after padding
  uint32_t num_tokens = 0;  // its length
  // The matrix of attention scores that it shares with others, counted from 0 in the plan.
  uint32_t score_matrix = kOwnScores;
  uint32_t adapter = kNoAdapter;  // the item's
};

// Adjacent rows that share one tenant's weights: the A of one GEMM, num_rows × k.
struct MiniBatch {
  uint32_t slot = 0;
  uint32_t first_row = 0;
  uint32_t num_rows = 0;
  uint32_t first_segment = 0;
  uint32_t num_segments = 0;
};

// One GEMM call for each compute-bound operator.
struct Call {
  uint32_t first_mini_batch = 0;
  uint32_t num_mini_batches = 0;  // 1: a GEMM; more: a BatchedGEMM
  uint32_t num_rows = 0;          // of each of its mini-batches
  float cost_ns = 0;              // by the cost tables; 0: the planner does not predict

  bool batched() const noexcept { return num_mini_batches > 1; }
};

// Calls that run through the encoder together.
struct Pass {
  uint32_t first_call = 0;
  uint32_t num_calls = 0;
  uint32_t first_mini_batch = 0;
  uint32_t num_mini_batches = 0;
  uint32_t first_segment = 0;
  uint32_t num_segments = 0;
  uint32_t num_rows = 0;
  uint32_t matrix_rows = 0;  // of each shared score matrix; 0: segments share none
};

struct PlanLimits {
  uint32_t max_requests = 256;     // of one batch
  uint32_t max_rows = 4096;        // of one pass: what the workspace holds
  uint32_t max_pass_tenants = 0;   // of one pass; 0: any number (tenant_passes.h)
  uint32_t max_shared_tokens = 0;  // of one pass of several tenants; 0: any number
};

// The predicted price of one planner's plan, which auto has compared with the others'.
struct Offer {
  std::string_view planner;  // a name in planner_names.h
  double price_ns = 0;       // predicted time of the whole batch
};

struct Plan {
  std::vector<Segment> segments;
  std::vector<MiniBatch> mini_batches;
  std::vector<Call> calls;
  std::vector<Pass> passes;
  uint64_t num_tokens = 0;  // of all passes
  uint64_t num_rows = 0;    // of all passes, padding included
  double cost_ns = 0;       // of its calls, by the cost tables; 0: the planner does not predict
  // Made by auto: which planner's plan this is, and what the plans of all would have cost.
  std::vector<Offer> offers;
  uint32_t chosen_offer = 0;
  // The device runs `calls` as they are. False: each mini-batch is a call of its own, and the GEMM
  // scheduler may choose others.
  bool has_fixed_calls = false;

  static constexpr size_t kMaxOffers = 4;

  // Reserves room for any plan of max_requests requests. Planning then allocates nothing.
  void reserve(size_t max_requests);
  void clear() noexcept;
};

}  // namespace itif::plan
