// The figures that Prometheus scrapes, named itif_….
#pragma once

#include "pipeline/directory.h"
#include "pipeline/pipeline.h"
#include "telemetry/prometheus.h"

namespace itif::appliance {

telemetry::Families collect_metrics(const pipeline::Pipeline& pipeline,
                                    const pipeline::Directory& directory);

}  // namespace itif::appliance
