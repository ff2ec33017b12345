// The results of the profiler: cost tables from its measurements.
#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/check.h"
#include "runtime/cost/profiler.h"

namespace itif::runtime {

// Costs of a call of `count` mini-batches of `rows` rows. Beyond the measured rows, they continue
// the line of the last two points: a call has a fixed cost, which does not grow with its rows.
// REQUIRES: a point of at most `count` mini-batches was measured.
Profiler::Costs Profiler::costs_of(const Shape& shape, uint32_t count, uint32_t rows) {
  const Point *best = nullptr, *before = nullptr;
  for (const Point& point : shape.points) {  // ascending
    if (point.count > count || point.rows > std::max(rows, shape.min_rows)) continue;
    before = best != nullptr && best->count == point.count ? best : nullptr;
    best = &point;
  }
  CHECK(best != nullptr);
  const double times = static_cast<double>(count) / best->count;
  const double beyond = rows > best->rows ? rows - best->rows : 0;
  Costs costs;
  for (size_t table = 0; table < costs.size(); ++table) {
    const double ns = best->costs_ns[table], in_proportion = ns / best->rows;
    double per_row = in_proportion;
    if (before != nullptr)
      per_row = std::clamp((ns - before->costs_ns[table]) / (best->rows - before->rows), 0.0,
                           in_proportion);
    costs[table] = times * (ns + beyond * per_row);
  }
  return costs;
}

double Profiler::gemms_ns(uint32_t count, uint32_t rows) const {
  double ns = 0;
  for (const Shape& shape : shapes_) {
    const Costs costs = costs_of(shape, count, rows);
    const double batched = costs[kPointersTable] > 0 ? costs[kPointersTable] : costs[kConcurrentTable];
    ns += (count == 1 ? costs[kSequentialTable] : batched) * shape.times;
  }
  return ns;
}

void Profiler::add_planners(plan::CostTables& tables) const {
  tables.lengths = lengths_;
  tables.batches = powers_of_two(1, options_.max_requests);
  for (const uint32_t length : tables.lengths)
    for (const uint32_t batch : tables.batches)
      tables.gemm_ns.push_back(gemms_ns(1, length * batch));
  for (const uint32_t count : kMiniBatchCounts)
    if (std::ranges::any_of(shapes_,
                            [&](const Shape& shape) { return shape.points.back().count >= count; }))
      tables.counts.push_back(count);
  if (!tables.counts.empty()) tables.sizes = tables.batches;
  for (const uint32_t length : tables.lengths)
    for (const uint32_t count : tables.counts)
      for (const uint32_t size : tables.sizes)
        tables.batched_gemm_ns.push_back(gemms_ns(count, length * size));
}

// A pass's time without its GEMMs, per row. At least a thousandth of the pass: noise may hide the
// rest.
void Profiler::add_others(plan::CostTables& tables) const {
  if (passes_.empty()) return;
  std::vector<double> row_ns;  // by pass
  for (const WholePass& pass : passes_) {
    const uint32_t rows = pass.num_requests * pass.num_tokens;
    row_ns.push_back(std::max(pass.ns - gemms_ns(1, rows), pass.ns / 1000) / rows);
  }
  size_t next = 0;
  for (size_t i = 0; i < lengths_.size(); ++i) {
    while (next + 1 < passes_.size() && passes_[next].length < i) ++next;
    if (passes_[next].length == i || passes_.size() == 1) {
      tables.other_row_ns.push_back(row_ns[next]);
      continue;
    }
    const double from = lengths_[passes_[next - 1].length], to = lengths_[passes_[next].length];
    tables.other_row_ns.push_back(
        std::lerp(row_ns[next - 1], row_ns[next], (lengths_[i] - from) / (to - from)));
  }
}

void Profiler::add_shared(plan::CostTables& tables) const {
  std::set<uint32_t> counts, rows;
  for (const Shape& shape : shapes_)
    for (const Point& point : shape.points) {
      counts.insert(point.count);
      rows.insert(measured_rows(point));
    }
  if (counts.empty()) return;
  tables.range_counts.assign(counts.begin(), counts.end());
  tables.range_rows.assign(rows.begin(), rows.end());
  for (const Shape& shape : shapes_) {
    const auto same = [&](const plan::SharedGemm& gemm) {
      return gemm.n == shape.shape.n && gemm.k == shape.shape.k;
    };
    if (const auto known = std::ranges::find_if(tables.shared_gemms, same);
        known != tables.shared_gemms.end()) {
      known->times += shape.times;
      continue;
    }
    if (tables.shared_gemms.size() == plan::kMaxShapes || shape.points.empty()) continue;
    plan::SharedGemm& gemm = tables.shared_gemms.emplace_back();
    gemm.n = shape.shape.n;
    gemm.k = shape.shape.k;
    gemm.times = shape.times;
    for (const uint32_t count : counts)
      for (const uint32_t size : rows) {
        const Costs costs = costs_of(shape, count, size + (is_planned() && size > 1));
        for (const size_t table : measured_tables_)
          (gemm.*plan::kSharedGemmTables[table].costs_ns).push_back(costs[table]);
      }
  }
}

Result<plan::CostTables> Profiler::finish() const {
  if (!status_) return std::unexpected(status_.error());
  CHECK(num_measured_ == num_points_);
  plan::CostTables tables;
  tables.device = device_.info().description;
  tables.backbone = backbone_;
  if (is_planned()) {
    add_planners(tables);
    add_others(tables);
    tables.launch_ns = launch_ns_;
  }
  add_shared(tables);
  ITIF_TRY(plan::validate(tables));
  if (!tables.lengths.empty()) plan::make_monotone(tables);
  return tables;
}

}  // namespace itif::runtime
