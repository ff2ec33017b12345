// DPDK telemetry endpoints, for dpdk-telemetry.py: /itif/stats, /itif/drops, /itif/repeats,
// /itif/worker,<id>, /itif/tenants, /itif/tenant,<id>, /itif/groups. One object per process. The
// callbacks run in EAL's telemetry thread.
#pragma once

#include "pipeline/pipeline.h"
#include "serving/tenant_service.h"

namespace itif::serving {

class DpdkTelemetry {
 public:
  // Registers the endpoints. Without EAL's telemetry (--no-telemetry) they are never called.
  DpdkTelemetry(const pipeline::Pipeline& pipeline, const TenantService& service);
  ~DpdkTelemetry();  // the endpoints fail from then on
  DpdkTelemetry(const DpdkTelemetry&) = delete;
  DpdkTelemetry& operator=(const DpdkTelemetry&) = delete;
};

}  // namespace itif::serving
