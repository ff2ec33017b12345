#include "devices.h"

#include <fmt/format.h>

namespace itif::bench {

Status on_each_device(const BenchOptions& options, Report& report, const OnDevice& run) {
  for (const std::string& dtype : options.dtypes) {
    const auto device =
        device::open_device({.kind = "host", .dtype = dtype, .num_threads = options.threads});
    if (!device && device.error().code == Code::kUnsupported) {
      report.note(fmt::format("skipped {}: {}", dtype, device.error().message));
      continue;
    }
    if (!device) return std::unexpected(device.error());
    report.add_device(fmt::format("{} on {}", dtype, (*device)->info().description));
    ITIF_TRY(run(**device, dtype));
  }
  return {};
}

}  // namespace itif::bench
