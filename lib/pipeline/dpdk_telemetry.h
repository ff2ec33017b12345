// DPDK telemetry endpoints, for dpdk-telemetry.py: /itif/stats, /itif/drops, /itif/worker,<id>,
// /itif/tenants, /itif/tenant,<id>, /itif/groups. One object a process; EAL's telemetry thread calls
// back into it.
#pragma once

#include "pipeline/directory.h"
#include "pipeline/pipeline.h"

namespace itif::pipeline {

class DpdkTelemetry {
 public:
  // Registers the endpoints; without EAL's telemetry (--no-telemetry) they are just never called.
  DpdkTelemetry(const Pipeline& pipeline, const Directory& directory);
  ~DpdkTelemetry();  // endpoints answer nothing from now on
  DpdkTelemetry(const DpdkTelemetry&) = delete;
  DpdkTelemetry& operator=(const DpdkTelemetry&) = delete;
};

}  // namespace itif::pipeline
