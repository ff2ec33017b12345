// Collects the metrics that Prometheus scrapes, named itif_….
#pragma once

#include "pipeline/pipeline.h"
#include "serving/group_watch.h"
#include "serving/tenant_service.h"
#include "telemetry/prometheus.h"

namespace itif::serving {

telemetry::Families collect_metrics(const pipeline::Pipeline& pipeline,
                                    const TenantService& service, GroupWatch& watch);

}  // namespace itif::serving
