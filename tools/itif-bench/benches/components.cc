// itif-bench components: GSLICE's Figures 12a and 12b on this device: what each of its components
// brings alone, and all together. Their counterparts here:
//
// - streams: batching.overlap, by which a group prepares a batch while another computes;
// - zero copy: a batch gathers its inputs from packet buffers. Without it, payloads are first
//   copied to contiguous memory, as by a stack that receives into buffers of its own. The bench
//   `gather` measures the gather alone;
// - batching: slab. Without it, a batch has one request.
//
// The clients are in this process, so the copy of the network's own stack is not part of it.
#include <fmt/format.h>

#include "benches.h"
#include "report/gslice_rows.h"
#include "workload/gslice_models.h"

namespace itif::bench {
namespace {

constexpr uint32_t kComponentsInFlight = 16;

constexpr GsliceModel kModels[] = {kAlexnet, kResNet, kVgg};

Result<GroupResult> run_component(const BenchOptions& options, device::Device& device,
                                  const std::string& dtype, const ServedModel& model,
                                  const Component& component) {
  ITIF_ASSIGN(const auto groups, ServedGroups::make(options, device, dtype, Sharing::kNone));
  Batching batching = {.overlaps = component.overlaps};
  if (!component.batches) {
    batching.control = sched::BatchControlKind::kFixed;
    batching.max_requests = 1;
  }
  ITIF_ASSIGN(const size_t group, groups->add(model, batching,
                                              {.in_flight = kComponentsInFlight,
                                               .slo_ns = objective_of(model.alone_ns),
                                               .copies_payload = !component.is_zero_copy}));
  groups->begin(group);
  const double seconds = options.run_seconds();
  ITIF_ASSIGN(const auto results, measure_groups(*groups, {model.name}, seconds / 4, seconds));
  return results.front();
}

Status run_components(const BenchOptions& options, device::Device& device, const std::string& dtype,
                      ServedModels& models, const GsliceModel& of, Report& report) {
  const std::string name = fmt::format("{}, {}", of.name(options), dtype);
  if (!options.wants_any({name, of.name(options)})) return {};
  ITIF_ASSIGN(const ServedModel* model, models.get(of.name(options), options, device, dtype));
  GroupResult none;
  for (const Component& component : kComponents) {
    ITIF_ASSIGN(const GroupResult result, run_component(options, device, dtype, *model, component));
    ComponentRun run = {
        .served = result.served(), .p50_ms = result.p50_ms, .p99_ms = result.p99_ms};
    if (&component == &kComponents[0]) {
      none = result;
    } else {
      run.over_none = paired_ratios(result.per_s, none.per_s).median();
      run.batch_over_none = result.execute_ms / none.execute_ms;
    }
    add_component([&](Row row) { report.add(std::move(row)); }, name, component, of.network, run);
  }
  return {};
}

}  // namespace

Status bench_components(const BenchOptions& options, Report& report) {
  report.note(fmt::format(
      "{} requests in flight, texts of {} tokens; objectives of 25 ms, or four times the time of "
      "a request alone if that is more. minilm-l6, vit-base and albert-large take the place of "
      "Alexnet, ResNet-50 and VGG-19",
      kComponentsInFlight, kGsliceTokens));
  report.note(
      "streams are batching.overlap, zero copy is the gather from packet buffers, batching is "
      "slab; the clients are in this process, without a network");
  report.note(kSourcesOfComponents);
  return on_best_type(options, report,
                      [&](device::Device& device, const std::string& dtype) -> Status {
                        ITIF_ASSIGN(ServedModels models, ServedModels::make(kGsliceTokens));
                        for (const GsliceModel& of : kModels)
                          ITIF_TRY(run_components(options, device, dtype, models, of, report));
                        return {};
                      });
}

}  // namespace itif::bench
