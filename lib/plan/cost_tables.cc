#include "plan/cost_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

namespace itif::plan {
namespace {

Status check_name(const char* field, const std::string& name) {
  const auto control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (name.empty() || name.size() > kMaxNameBytes || std::any_of(name.begin(), name.end(), control))
    return fail(
        Code::kInvalidArgument,
        fmt::format("cost tables: {} must be one line of 1 to {} bytes", field, kMaxNameBytes));
  return {};
}

Status check_axis(const char* field, const std::vector<uint32_t>& axis, uint32_t least) {
  if (axis.empty() || axis.size() > kMaxBuckets)
    return fail(Code::kInvalidArgument, fmt::format("cost tables: {} has {} values, not 1 to {}",
                                                    field, axis.size(), kMaxBuckets));
  for (size_t i = 0; i < axis.size(); ++i) {
    if (axis[i] < least || axis[i] > kMaxBucket || (i > 0 && axis[i] <= axis[i - 1]))
      return fail(Code::kInvalidArgument,
                  fmt::format("cost tables: {} must ascend within {} to {}, but its value {} is {}",
                              field, least, kMaxBucket, i + 1, axis[i]));
  }
  return {};
}

Status check_costs(const char* field, const std::vector<double>& costs, size_t cells) {
  if (costs.size() != cells)
    return fail(Code::kInvalidArgument,
                fmt::format("cost tables: {} has {} costs where its axes ask for {}", field,
                            costs.size(), cells));
  for (size_t i = 0; i < costs.size(); ++i)
    if (!(costs[i] > 0 && costs[i] <= kMaxCostNs))
      return fail(
          Code::kInvalidArgument,
          fmt::format("cost tables: {} must be above 0 and at most {}, but its cost {} is {}",
                      field, kMaxCostNs, i + 1, costs[i]));
  return {};
}

Status check_shared(const CostTables& tables) {
  if (tables.range_counts.empty() && tables.range_rows.empty() && tables.shared_gemms.empty())
    return {};
  ITIF_TRY(check_axis("range_counts", tables.range_counts, 1));
  ITIF_TRY(check_axis("range_rows", tables.range_rows, 1));
  const size_t shapes = tables.shared_gemms.size(),
               cells = tables.range_counts.size() * tables.range_rows.size();
  if (shapes == 0 || shapes > kMaxShapes)
    return fail(
        Code::kInvalidArgument,
        fmt::format("cost tables: shared_gemms has {} shapes, not 1 to {}", shapes, kMaxShapes));
  for (size_t i = 0; i < shapes; ++i) {
    const SharedGemm& gemm = tables.shared_gemms[i];
    for (const uint32_t size : {gemm.n, gemm.k, gemm.times})
      if (size == 0 || size > kMaxBucket)
        return fail(Code::kInvalidArgument,
                    fmt::format("cost tables: shape {} of shared_gemms is {} x {}, {} times", i + 1,
                                gemm.n, gemm.k, gemm.times));
    for (size_t j = 0; j < i; ++j)
      if (tables.shared_gemms[j].n == gemm.n && tables.shared_gemms[j].k == gemm.k)
        return fail(
            Code::kInvalidArgument,
            fmt::format("cost tables: shared_gemms has shape {} x {} twice", gemm.n, gemm.k));
    for (const SharedGemmTable& table : kSharedGemmTables)
      if (const auto& costs = gemm.*table.costs_ns; !table.is_optional || !costs.empty())
        ITIF_TRY(check_costs(table.name, costs, cells));
  }
  return {};
}

// A value's position on an axis: between the points `lower` and `lower + 1`.
struct TablePosition {
  size_t lower = 0;
  double beyond = 0;  // fraction of the way to the next point
};
TablePosition position_in(const std::vector<uint32_t>& axis, double value) noexcept {
  if (axis.size() < 2 || value <= axis.front()) return {};
  if (value >= axis.back()) return {axis.size() - 2, 1};
  size_t lower = 0;
  while (value >= axis[lower + 1]) ++lower;
  return {lower, (value - axis[lower]) / (axis[lower + 1] - axis[lower])};
}

// Replaces each of the row-major `costs`, axis by axis, by the largest so far going up, or the
// smallest so far going down. Later axes keep the earlier ones monotone.
void envelope(std::vector<double>& costs, std::span<const size_t> shape, bool upper) {
  size_t stride = costs.size();
  for (const size_t extent : shape) {
    stride /= extent;
    for (size_t i = 0; i < costs.size(); ++i) {
      const size_t at = upper ? i : costs.size() - 1 - i;
      const size_t index = at / stride % extent;
      if (upper && index > 0) costs[at] = std::max(costs[at], costs[at - stride]);
      if (!upper && index + 1 < extent) costs[at] = std::min(costs[at], costs[at + stride]);
    }
  }
}

void make_monotone(std::vector<double>& costs, std::span<const size_t> shape) {
  std::vector<double> lower = costs;
  envelope(costs, shape, true);
  envelope(lower, shape, false);
  for (size_t i = 0; i < costs.size(); ++i) costs[i] = std::midpoint(costs[i], lower[i]);
}

}  // namespace

Status validate(const CostTables& tables) {
  ITIF_TRY(check_name("device", tables.device));
  ITIF_TRY(check_name("backbone", tables.backbone));
  if (!(tables.launch_ns >= 0 && tables.launch_ns <= kMaxCostNs))
    return fail(Code::kInvalidArgument,
                fmt::format("cost tables: launch_ns must be 0 to {}, but is {}", kMaxCostNs,
                            tables.launch_ns));
  if (tables.lengths.empty() && tables.batches.empty() && tables.gemm_ns.empty() &&
      tables.counts.empty() && tables.sizes.empty() && tables.batched_gemm_ns.empty() &&
      tables.other_row_ns.empty())
    return check_shared(tables);
  ITIF_TRY(check_axis("lengths", tables.lengths, 1));
  ITIF_TRY(check_axis("batches", tables.batches, 1));
  ITIF_TRY(check_costs("gemm_ns", tables.gemm_ns, tables.lengths.size() * tables.batches.size()));
  if (!tables.counts.empty() || !tables.sizes.empty()) {
    ITIF_TRY(check_axis("counts", tables.counts, 2));
    ITIF_TRY(check_axis("sizes", tables.sizes, 1));
  }
  ITIF_TRY(check_costs("batched_gemm_ns", tables.batched_gemm_ns,
                       tables.lengths.size() * tables.counts.size() * tables.sizes.size()));
  if (!tables.other_row_ns.empty())
    ITIF_TRY(check_costs("other_row_ns", tables.other_row_ns, tables.lengths.size()));
  return check_shared(tables);
}

double other_row_ns(const CostTables& tables, uint32_t length) noexcept {
  if (tables.other_row_ns.empty()) return 0;
  const TablePosition at = position_in(tables.lengths, length);
  const double* costs = tables.other_row_ns.data() + at.lower;
  return at.beyond == 0 ? costs[0] : std::lerp(costs[0], costs[1], at.beyond);
}

double shared_gemm_ns(const CostTables& tables, const std::vector<double>& costs_ns, double count,
                      double rows) noexcept {
  const TablePosition c = position_in(tables.range_counts, count),
                      r = position_in(tables.range_rows, rows);
  const size_t columns = tables.range_rows.size();
  const double times = std::max(1.0, count / tables.range_counts.back()) *
                       std::max(1.0, rows / tables.range_rows.back());
  const auto of_count = [&](size_t index) {
    const double* costs = costs_ns.data() + index * columns + r.lower;
    return r.beyond == 0 ? costs[0] : std::lerp(costs[0], costs[1], r.beyond);
  };
  return times * (c.beyond == 0 ? of_count(c.lower)
                                : std::lerp(of_count(c.lower), of_count(c.lower + 1), c.beyond));
}

void make_monotone(CostTables& tables) {
  const size_t gemm[] = {tables.lengths.size(), tables.batches.size()};
  make_monotone(tables.gemm_ns, gemm);
  if (tables.counts.empty()) return;
  const size_t batched[] = {tables.lengths.size(), tables.counts.size(), tables.sizes.size()};
  make_monotone(tables.batched_gemm_ns, batched);
}

}  // namespace itif::plan
