#include "report/gslice_rows.h"

#include <fmt/format.h>

#include "telemetry/gue.h"

namespace itif::bench {
namespace {

Row with(Row row, const Stated& stated) {
  if (stated.from > 0) row.paper = stated.from;
  if (stated.to > 0) row.paper_to = stated.to;
  return row;
}

// The table's values of a pair; 0: it has none.
std::pair<double, double> stated_pair(const std::string& what, const StatedSharing* stated) {
  if (stated == nullptr) return {};
  if (what == kLoadTime) return {stated->load_ms, stated->shared_load_ms};
  if (what == kTenantMemory) return {stated->memory_mb, stated->shared_memory_mb};
  if (what == kTenantsThatFit) return {stated->instances, stated->shared_instances};
  return {};
}

}  // namespace

double Served::gue() const {
  return telemetry::gue(per_s, batch_ms * 1e6);
}

void add_served(const AddRow& add, const std::string& name, const std::string& mode, Way way,
                const Served& served, const StatedMix* stated) {
  add({.name = name,
       .mode = mode,
       .value = served.per_s,
       .unit = "answers/s",
       .spread = served.spread});
  add(with({.name = name, .mode = mode, .value = served.batch_ms, .unit = "batch ms"},
           {.to = stated && way != Way::kDefault ? kStatedObjectiveMs : 0}));
  add(with({.name = name, .mode = mode, .value = served.gue(), .unit = "GUE"},
           {.from = stated ? stated->gue[static_cast<size_t>(way)] : 0}));
}

void add_times(const AddRow& add, const std::string& name, const std::string& mode,
               const AnswerTimes& times) {
  add({.name = name, .mode = mode, .value = times.p50_ms, .unit = "p50 ms"});
  add({.name = name, .mode = mode, .value = times.p99_ms, .unit = "p99 ms"});
  add({.name = name, .mode = mode, .value = times.late_percent, .unit = "% late"});
}

void add_gains(const AddRow& add, const std::string& name, Way way, const Gains& gains,
               const StatedMix& stated) {
  const double gain = way == Way::kSlab ? stated.slab_gain : stated.slices_gain;
  add({.name = name,
       .mode = fmt::format("GUE, {} / default", gains.mode),
       .value = gains.gue,
       .unit = "times",
       .paper = 1 + gain / 100});
  add(with({.name = name,
            .mode = fmt::format("answers/s, {} / default", gains.mode),
            .value = gains.per_s,
            .unit = "times"},
           way == Way::kSlices ? stated.over_default : Stated{}));
  if (gains.over_slab > 0)
    add(with({.name = name,
              .mode = fmt::format("answers/s, {} / slab", gains.mode),
              .value = gains.over_slab,
              .unit = "times"},
             stated.over_slab));
}

void add_heaviest(const AddRow& add, const std::string& name, const std::string& mode,
                  double over_slab) {
  add({.name = name,
       .mode = fmt::format("{} / slab", mode),
       .value = over_slab,
       .unit = "of its answers/s",
       .paper = kStatedHeaviest});
}

void add_component(const AddRow& add, const std::string& name, const Component& component,
                   const std::string& network, const ComponentRun& run) {
  add({.name = name,
       .mode = component.name,
       .value = run.served.per_s,
       .unit = "answers/s",
       .spread = run.served.spread});
  for (const auto& [value, unit] :
       {std::pair{run.served.batch_ms, "batch ms"}, {run.p50_ms, "p50 ms"}, {run.p99_ms, "p99 ms"}})
    add({.name = name, .mode = component.name, .value = value, .unit = unit});
  if (!run.over_none) return;
  const std::string mode = fmt::format("{} / none", component.name);
  add({.name = name,
       .mode = mode,
       .value = *run.over_none,
       .unit = "times",
       .paper = stated_gain(network, component)});
  add(with({.name = name, .mode = mode, .value = run.batch_over_none, .unit = "of a batch's time"},
           component.batches && !component.overlaps ? kStatedBatchingLatency : Stated{}));
}

void add_control(const AddRow& add, const std::string& name, const std::string& control,
                 const Served& served, const AnswerTimes& times) {
  add({.name = name,
       .mode = control,
       .value = served.per_s,
       .unit = "answers/s",
       .spread = served.spread});
  add({.name = name, .mode = control, .value = served.batch_ms, .unit = "batch ms"});
  add_times(add, name, control, times);
}

void add_slab_over_aimd(const AddRow& add, const std::string& name, double ratio) {
  add(with({.name = name, .mode = "slab / aimd", .value = ratio, .unit = "times"},
           kStatedSlabOverAimd));
}

void add_convergence(const AddRow& add, const Converged& converged) {
  Stated stated;
  for (const StatedConvergence& one : kStatedConvergences)
    if (one.slo_ms == converged.slo_ms && converged.step == kObjectiveRises)
      stated =
          converged.control == "slab" ? Stated{.to = one.slab_ms} : Stated{.from = one.aimd_ms};
  add(with({.name = fmt::format("convergence, {} ms, {}, {}", converged.slo_ms, converged.step,
                                converged.dtype),
            .mode = converged.control,
            .value = converged.ms,
            .unit = "ms",
            .spread = converged.spread},
           stated));
}

TimeLine convergence_line(uint32_t slo_ms, double low_ms, double interval_s) {
  return {
      .name = fmt::format("figure-12c-{}ms", slo_ms),
      .title = fmt::format("Figure 12c: batches while the objective steps between {:.1f} and {} ms",
                           low_ms, slo_ms),
      .interval_s = interval_s};
}

void add_shared_pair(const AddRow& add, const std::string& name, const SharedPair& pair,
                     const StatedSharing* stated) {
  const auto [alone, shared] = stated_pair(pair.what, stated);
  add(with({.name = name,
            .mode = fmt::format("{}, alone", pair.what),
            .value = pair.alone,
            .unit = pair.unit},
           {.from = alone}));
  add(with({.name = name,
            .mode = fmt::format("{}, shared", pair.what),
            .value = pair.shared,
            .unit = pair.unit,
            .limit = pair.alone,
            .ratio = pair.shared / pair.alone},
           {.from = shared}));
  // Tenants of identical models take next to no memory of their own.
  constexpr double kNegligible = 1e-3;
  if (alone == 0 || pair.shared <= kNegligible * pair.alone) return;
  const bool is_rate = pair.is_better_larger;
  add({.name = name,
       .mode = fmt::format("{}, {}", pair.what, is_rate ? "shared / alone" : "alone / shared"),
       .value = is_rate ? pair.shared / pair.alone : pair.alone / pair.shared,
       .unit = "times",
       .paper = is_rate ? shared / alone : alone / shared});
}

void add_model_size(const AddRow& add, const std::string& name, double size_mb,
                    const StatedSharing* stated) {
  add(with({.name = name, .mode = "size", .value = size_mb, .unit = "MB"},
           {.from = stated ? stated->size_mb : 0}));
}

std::string sharing_text(const StatedSharing& stated) {
  return fmt::format(
      "GSLICE's Table 1, {} ({:g} MB), alone and shared: load {:g} and {:g} ms ({:.2f} times as "
      "fast), memory {:g} and {:g} MB ({:.2f} times as much alone), {:g} and {:g} instances "
      "({:.2f} "
      "times as many)",
      stated.network, stated.size_mb, stated.load_ms, stated.shared_load_ms,
      stated.load_ms / stated.shared_load_ms, stated.memory_mb, stated.shared_memory_mb,
      stated.memory_mb / stated.shared_memory_mb, stated.instances, stated.shared_instances,
      stated.shared_instances / stated.instances);
}

}  // namespace itif::bench
