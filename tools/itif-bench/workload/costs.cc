#include "workload/costs.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "backbone/family.h"
#include "base/clock.h"
#include "runtime/cost/pass_limits.h"

namespace itif::bench {

Result<std::shared_ptr<const plan::CostTables>> measure_costs(
    device::Device& device, device::Stream& stream, const model::BackboneSpec& spec,
    backbone::FusionMode fusion_mode, const runtime::ProfileOptions& options) {
  static const SystemClock clock;
  static std::map<std::string, std::shared_ptr<const plan::CostTables>> measured;
  const std::string key =
      fmt::format("{} {}, {}, {}, {} {} {} {} {}", device.info().description,
                  compute_name(device.info().compute), model::signature(spec),
                  static_cast<int>(fusion_mode), options.max_rows, options.max_step_rows,
                  options.max_length, options.max_requests, options.max_tenants);
  auto& known = measured[key];
  if (known) return known;
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  const std::vector<backbone::GemmUse> gemms = backbone::gemms(*family, spec, fusion_mode);
  runtime::ProfileOptions all_options = options;
  all_options.max_pass_tenants = runtime::pass_limits(device.info(), gemms).max_tenants;
  runtime::Profiler profiler(device, clock, gemms, model::signature(spec), all_options);
  while (profiler.step(stream)) {
  }
  ITIF_ASSIGN(plan::CostTables tables, profiler.finish());
  known = std::make_shared<const plan::CostTables>(std::move(tables));
  return known;
}

}  // namespace itif::bench
