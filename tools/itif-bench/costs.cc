#include "costs.h"

#include "backbone/family.h"
#include "base/clock.h"

namespace itif::bench {

Result<std::shared_ptr<const plan::CostTables>> measure_costs(
    device::Device& device, device::Stream& stream, const model::BackboneSpec& spec,
    const runtime::ProfileOptions& options) {
  static const SystemClock clock;
  ITIF_ASSIGN(const backbone::Family* family, backbone::find_family(spec.family));
  runtime::Profiler profiler(device, clock, family->gemms(spec), model::signature(spec), options);
  while (profiler.step(stream)) {
  }
  ITIF_ASSIGN(plan::CostTables tables, profiler.finish());
  return std::make_shared<const plan::CostTables>(std::move(tables));
}

}  // namespace itif::bench
