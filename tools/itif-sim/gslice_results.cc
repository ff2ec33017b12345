// The simulated experiments as rows of the benches slices, slab and components.
#include <fmt/format.h>

#include <algorithm>

#include "gslice.h"
#include "report/gslice_rows.h"

namespace itif::sim {
namespace {

bench::AddRow into(bench::Results& results) {
  return [&results](bench::Row row) { results.rows.push_back(std::move(row)); };
}

const MixRow& row_of(const GsliceReport& report, const MixRow& row, bench::Way way) {
  return *std::ranges::find_if(
      report.mixes, [&](const MixRow& other) { return other.mix == row.mix && other.way == way; });
}

std::string case_of(const MixRow& row, const std::string& groups) {
  return fmt::format("{}, {}, {}", row.mix, groups, kGsliceType);
}

void add_mix(const GsliceReport& report, const MixRow& row, const bench::AddRow& add) {
  const std::string mode = kWays[static_cast<size_t>(row.way)], all = case_of(row, "all groups");
  const bench::StatedMix& stated = bench::stated_mix(row.networks);
  bench::add_served(add, all, mode, row.way, row.served(), &stated);
  const bool is_alone = row.groups.size() == 1;
  if (is_alone) bench::add_times(add, all, mode, row.groups.front().times);
  for (const MixRow::Group& group : row.groups) {
    if (is_alone) break;
    bench::add_served(add, case_of(row, group.model), mode, row.way, group.served, nullptr);
    bench::add_times(add, case_of(row, group.model), mode, group.times);
  }
  if (row.way == bench::Way::kDefault) return;
  const MixRow& base = row_of(report, row, bench::Way::kDefault);
  const MixRow& slab = row_of(report, row, bench::Way::kSlab);
  const bool has_slices = row.way == bench::Way::kSlices && !is_alone;
  bench::add_gains(add, all, row.way,
                   {.mode = mode,
                    .gue = row.served().gue() / base.served().gue(),
                    .per_s = row.served().per_s / base.served().per_s,
                    .over_slab = has_slices ? row.served().per_s / slab.served().per_s : 0},
                   stated);
  if (has_slices && row.groups.size() > 2)
    bench::add_heaviest(add, case_of(row, row.groups.back().model), mode,
                        row.groups.back().served.per_s / slab.groups.back().served.per_s);
}

void add_component(const GsliceReport& report, const ComponentRow& row, const bench::AddRow& add) {
  const ComponentRow& none = *std::ranges::find(report.components, row.model, &ComponentRow::model);
  bench::ComponentRun run = {.served = row.served, .p50_ms = row.p50_ms, .p99_ms = row.p99_ms};
  if (&row != &none) {
    run.over_none = row.served.per_s / none.served.per_s;
    run.batch_over_none = row.served.batch_ms / none.served.batch_ms;
  }
  bench::add_component(add, fmt::format("{}, {}", row.model, kGsliceType), row.component,
                       row.network, run);
}

// Each objective has one row per control: slab, then aimd.
void add_controls(const GsliceReport& report, const bench::AddRow& add) {
  for (size_t i = 0; i + 1 < report.controls.size(); i += 2) {
    const ControlRow &slab = report.controls[i], &aimd = report.controls[i + 1];
    const std::string name = fmt::format("objective, {} ms, {}", slab.slo_ms, kGsliceType);
    for (const ControlRow* row : {&slab, &aimd})
      bench::add_control(add, name, row->control, row->served, row->times);
    bench::add_slab_over_aimd(add, name, slab.served.per_s / aimd.served.per_s);
  }
  for (const bench::Converged& converged : report.convergences)
    bench::add_convergence(add, converged);
}

}  // namespace

std::vector<bench::Results> results_of(const GsliceReport& report) {
  bench::Results slices = {.bench = "slices", .notes = {bench::kSourcesOfMixes}};
  for (const MixRow& row : report.mixes) add_mix(report, row, into(slices));
  bench::Results components = {.bench = "components", .notes = {bench::kSourcesOfComponents}};
  for (const ComponentRow& row : report.components) add_component(report, row, into(components));
  bench::Results slab = {.bench = "slab", .notes = {bench::kSourcesOfControls}};
  add_controls(report, into(slab));
  slab.time_lines = report.convergence_lines;
  // Figures 15 and 16 have no rows.
  bench::Results over_time = {.bench = "time lines"};
  over_time.time_lines = report.time_lines;
  return {std::move(slices), std::move(components), std::move(slab), std::move(over_time)};
}

}  // namespace itif::sim
