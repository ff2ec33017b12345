#include "workload/floor.h"

#include <utility>

#include "report/timing.h"

namespace itif::bench {

Result<std::unique_ptr<Bare>> fastest_floor(const std::vector<MakeBare>& ways) {
  std::unique_ptr<Bare> fastest;
  for (const MakeBare& make : ways) {
    auto made = make();
    if (!made && made.error().code == Code::kUnsupported && fastest != nullptr) continue;
    if (!made) return made;
    if (fastest != nullptr) {
      // In turn, so that a machine whose speed drifts does not decide.
      const auto samples = measure({[&] { fastest->run(); }, [&] { (*made)->run(); }},
                                   {.seconds = 0, .least = 5, .warm_ups = 1});
      if (samples[1].min() >= samples[0].min()) continue;
    }
    fastest = std::move(*made);
  }
  return fastest;
}

std::vector<GemmOrder> orders_by_tenant(const GemmOrder& order) {
  std::vector<GemmOrder> by_tenant(order.empty() ? 0 : order.front().size());
  for (const std::vector<uint32_t>& group : order)
    for (size_t tenant = 0; tenant < by_tenant.size(); ++tenant)
      by_tenant[tenant].push_back({group[tenant]});
  return by_tenant;
}

GemmOrder one_after_another(const std::vector<GemmOrder>& by_tenant) {
  GemmOrder order;
  for (const GemmOrder& tenant : by_tenant) order.insert(order.end(), tenant.begin(), tenant.end());
  return order;
}

}  // namespace itif::bench
