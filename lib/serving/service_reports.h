// Reports of the running process to the service manager (service_manager.h). Main thread.
#pragma once

#include <cstdint>

#include "base/clock.h"
#include "control/server.h"
#include "pipeline/pipeline.h"
#include "serving/main_loop.h"
#include "serving/tenant_service.h"

namespace itif::serving {

// Keeps the service manager from ending a start that takes long because many models are loaded,
// until the loop has announced that the service is ready. `service` outlives the loop's waits.
void report_start(MainLoop& loop, const TenantService& service);
// Sends the service manager's watchdog a sign of life, if it expects any, as long as control and
// all workers make progress. The arguments outlive the loop's waits.
void answer_watchdog(MainLoop& loop, const Clock& clock, control::Server& server,
                     const pipeline::Pipeline& plane);
// Announces that the process stops: it answers accepted requests first, for drain_timeout_ns.
void report_stop(uint64_t drain_timeout_ns);

}  // namespace itif::serving
