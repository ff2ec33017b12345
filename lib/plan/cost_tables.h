// What GEMMs cost on a device, measured when a group starts: the tables A and B of ITIF's Algorithms
// 1 and 2 (section 4.1), at some lengths and batch sizes. cost_model.h reads between them.
//
// A[length][batch]: the GEMMs of the encoder for one tenant's mini-batch of `batch` requests padded to
// `length`: the cost of the whole mini-batch, not of a request of it (TurboTransformers' table holds
// the latter).
// B[length][count][size]: the same GEMMs as BatchedGEMMs over `count` mini-batches of `size` requests
// each, padded to `length`. Count 1 is A.
// Both may be of one layer or of all: planners compare costs and add them up. A decoder's steps are laid
// out by no planner: its tables have neither.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

namespace itif::plan {

// A GEMM of several tenants, ranges of equal rows, by how the ranges share the device.
struct SharedGemm {
  uint32_t n = 0, k = 0;           // its shape
  std::vector<double> in_turn_ns;  // [range_counts, range_rows]: one after another
  std::vector<double> at_once_ns;  // [range_counts, range_rows]: side by side
  bool operator==(const SharedGemm&) const = default;
};

struct CostTables {
  // What was measured, one line each: tables of another device or backbone mean nothing.
  std::string device;
  std::string backbone;

  // A and B all empty: no planner can use the tables.
  std::vector<uint32_t> lengths;  // tokens
  std::vector<uint32_t> batches;  // requests
  std::vector<double> gemm_ns;    // A: [lengths, batches]
  // Both empty: the device has no BatchedGEMM, and B is empty.
  std::vector<uint32_t> counts;         // mini-batches, from 2
  std::vector<uint32_t> sizes;          // requests of each
  std::vector<double> batched_gemm_ns;  // B: [lengths, counts, sizes]
  // What the GEMM scheduler chooses by, a shape once; all three empty: its even deal decides.
  std::vector<uint32_t> range_counts;  // from 2
  std::vector<uint32_t> range_rows;    // of each range
  std::vector<SharedGemm> shared_gemms;

  bool operator==(const CostTables&) const = default;
  bool serve_planners() const { return !lengths.empty(); }
};

inline constexpr size_t kMaxBuckets = 64;               // of one axis
inline constexpr uint32_t kMaxBucket = (1u << 24) - 1;  // the largest length, batch, count or size
inline constexpr double kMaxCostNs = 1e13;              // 10,000 s
inline constexpr size_t kMaxShapes = 16;                // of GEMMs
inline constexpr size_t kMaxNameBytes = 256;            // of device and backbone

// Errors: kInvalidArgument, naming the field: an axis that is empty, too long or not ascending from 1
// (counts: 2) or more; a table of another size than its axes; a cost that is not positive and finite.
Status validate(const CostTables& tables);

// Costs that fall where work grows, to the measured noise's mean: afterwards no cost is below that of
// a smaller shape. Each becomes the mean of the largest cost of the shapes it contains and the
// smallest of those that contain it; a table that is monotone already does not change.
//
// Why: stage by stage the planners are optimal over all ways to divide a batch only if a longer
// mini-batch never costs less than a shorter one (swapping two requests into length order then never
// costs more), and a dip of noise would be sought out by each plan. The running maximum alone would
// raise everything behind one outlier. What is lost are true dips, as where a length meets the
// kernels' tile: a plan pads to the longest request and not beyond, so it could rarely use them.
// The scheduler's tables stay as they are: it compares two costs of one shape.
// REQUIRES: validate(), serve_planners(). Optional: planners take any valid tables.
void make_monotone(CostTables& tables);

// Of `count` ranges of `rows` rows each from one of a SharedGemm's tables: linear between measured
// points, the nearest beyond them. REQUIRES: the tables' axes are not empty.
double shared_gemm_ns(const CostTables& tables, const std::vector<double>& costs_ns, double count,
                      double rows) noexcept;

}  // namespace itif::plan
