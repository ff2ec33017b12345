// The time lines of itif-bench slices.
#pragma once

#include <string>
#include <vector>

#include "workload/gslice_models.h"

namespace itif::bench {

// The setting that all runs of itif-bench slices share.
struct SliceBed {
  const BenchOptions& options;
  device::Device& device;
  std::string dtype;
  ServedModels& models;
  uint64_t slo_ns = 0;  // of every group

  Result<ServedModel*> model(const GsliceModel& model) const {
    return models.get(model.name(options), options, device, dtype);
  }
};

// Figure 15, under slab without shares, tuned slices and Clipper's aimd, and Figure 16.
Status slices_over_time(const SliceBed& bed, Report& report);
// The names of its cases.
std::vector<std::string> slices_over_time_cases();

}  // namespace itif::bench
