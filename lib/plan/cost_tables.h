// GEMM costs of a device, measured when a group starts: the tables A and B of ITIF's Algorithms 1
// and 2 (section 4.1), at some lengths and batch sizes. cost_model.h interpolates between them.
//
// A[length][batch]: the encoder's GEMMs for one tenant's mini-batch of `batch` requests padded to
// `length`. The cost is of the whole mini-batch, not of one request (TurboTransformers' table holds
// the latter).
// B[length][count][size]: the same GEMMs as BatchedGEMMs over `count` mini-batches of `size`
// requests each, padded to `length`. Count 1 is A.
// Both may cover one layer or all: planners compare costs and add them up. A decoder's tables have
// neither A nor B, because no planner lays out its steps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace itif::plan {

// Costs of a GEMM over several tenants' ranges, by the way to run them (kernels::GemmMode). Each
// table is [range_counts, range_rows].
struct SharedGemm {
  uint32_t n = 0, k = 0;  // its shape
  // For ranges of equal rows.
  std::vector<double> sequential_ns = {};
  std::vector<double> concurrent_ns = {};  // on a GPU: of tenants whose slots are equally far apart
  uint32_t times = 1;                      // GEMMs of this shape in a pass
  // The following are measured on a GPU only; empty: not measured.
  std::vector<double> streams_ns = {};
  std::vector<double> pointers_ns = {};
  // For ranges of unequal rows, by their mean. On a CPU they follow from those of equal rows
  // (runtime/cost/range_costs.h).
  std::vector<double> uneven_sequential_ns = {};
  std::vector<double> uneven_streams_ns = {};
  std::vector<double> uneven_concurrent_ns = {};
  bool operator==(const SharedGemm&) const = default;
};

// A table of SharedGemm, with its name in files, documents and messages.
struct SharedGemmTable {
  const char* name;
  std::vector<double> SharedGemm::*costs_ns;
  bool is_optional;  // empty if not measured
};
inline constexpr SharedGemmTable kSharedGemmTables[] = {
    {"in_turn_ns", &SharedGemm::sequential_ns, false},
    {"at_once_ns", &SharedGemm::concurrent_ns, false},
    {"streams_ns", &SharedGemm::streams_ns, true},
    {"pointers_ns", &SharedGemm::pointers_ns, true},
    {"uneven_in_turn_ns", &SharedGemm::uneven_sequential_ns, true},
    {"uneven_streams_ns", &SharedGemm::uneven_streams_ns, true},
    {"uneven_at_once_ns", &SharedGemm::uneven_concurrent_ns, true},
};

struct CostTables {
  // The measured device and backbone, one line each. The tables are valid for this pair only.
  std::string device;
  std::string backbone;

  // A's and B's fields all empty: planners cannot use the tables.
  std::vector<uint32_t> lengths;  // tokens
  std::vector<uint32_t> batches;  // requests
  std::vector<double> gemm_ns;    // A: [lengths, batches]
  // Both axes empty: the device has no BatchedGEMM, and B is empty.
  std::vector<uint32_t> counts;         // mini-batches, from 2
  std::vector<uint32_t> sizes;          // requests of each
  std::vector<double> batched_gemm_ns;  // B: [lengths, counts, sizes]
  // The operators of a pass that are not GEMMs: cost of a row, by its request's length. Empty: not
  // measured.
  std::vector<double> other_row_ns;  // [lengths]
  // The least time of a pass whose kernels are launched one by one; 0: not measured.
  // A pass with planned calls, or more rows than the largest graph bucket, takes at least this.
  double launch_ns = 0;
  // For the GEMM scheduler; shared_gemms has one entry per shape. All three empty: not measured,
  // and the scheduler decides by how evenly the ranges are partitioned. One range has the same cost
  // in sequential_ns and concurrent_ns.
  std::vector<uint32_t> range_counts;
  std::vector<uint32_t> range_rows;  // of each range
  std::vector<SharedGemm> shared_gemms;

  bool operator==(const CostTables&) const = default;
  bool serve_planners() const { return !lengths.empty(); }
};

inline constexpr size_t kMaxBuckets = 64;               // of one axis
inline constexpr uint32_t kMaxBucket = (1u << 24) - 1;  // the largest length, batch, count or size
// 11 days. The largest cells are never run, only extrapolated: 16 tenants with 256 requests of 512
// tokens each would keep two cores busy for hours with ALBERT-large.
inline constexpr double kMaxCostNs = 1e15;
inline constexpr size_t kMaxShapes = 16;      // of GEMMs
inline constexpr size_t kMaxNameBytes = 256;  // of device and backbone

// Errors: kInvalidArgument, naming the field: an axis that is empty, too long, or not ascending
// from at least 1 (counts: 2); a table whose size does not match its axes; a cost that is not
// positive and at most kMaxCostNs.
Status validate(const CostTables& tables);

// Evens out costs that fall where work grows, as measurement noise does: afterwards no cost is
// below that of a smaller shape. Each cost becomes the mean of two: the largest cost of the shapes
// it contains, and the smallest of the shapes that contain it. A monotone table does not change.
//
// Each planner stage is optimal over all divisions of a batch only if a longer mini-batch never
// costs less than a shorter one, because swapping two requests into length order then never costs
// more. Besides, every plan would prefer a shape whose cost is low by noise. A running maximum
// alone would raise all costs after an outlier. True dips, as at lengths that match the kernels'
// tile, are lost, but plans could rarely use them: they pad to the longest request and no further.
// The GEMM scheduler's tables do not change, because it compares two costs of one shape.
// REQUIRES: validate(), serve_planners(). Optional: planners accept any valid tables.
void make_monotone(CostTables& tables);

// Returns the cost of a row in the operators that are not GEMMs, by its request's length: linear
// between measured lengths, outside them that of the nearest; 0: not measured.
double other_row_ns(const CostTables& tables, uint32_t length) noexcept;

// Returns the cost of `count` ranges of `rows` rows each, from one of a SharedGemm's tables. Linear
// between measured points. Below the first point: its cost. Beyond the last: in proportion.
// REQUIRES: the tables' axes are not empty.
double shared_gemm_ns(const CostTables& tables, const std::vector<double>& costs_ns, double count,
                      double rows) noexcept;

}  // namespace itif::plan
