// Chooses the device, and says which and why in one log line.
#include <fmt/format.h>

#include "base/log.h"
#include "device/cuda_probe.h"
#include "device/device.h"
#include "device/host/cpu.h"
#include "device/host/host_device.h"

namespace itif::device {

Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options) {
  if (options.kind == "cuda")
    return fail(Code::kUnsupported,
                fmt::format("device cuda cannot be used: {}; use auto or host", why_no_cuda()));
  if (options.kind != "auto" && options.kind != "host")
    return fail(Code::kInvalidArgument,
                fmt::format("device '{}' is none of auto, host, cuda", options.kind));
  DeviceOptions chosen = options;
  chosen.reason =
      options.kind == "host" ? "as configured" : fmt::format("CUDA is not used: {}", why_no_cuda());
  ITIF_ASSIGN(auto device, open_host_device(chosen, detect_cpu()));
  log::info("device host {}: {} ({})", dtype_name(device->info().compute),
            device->info().description, device->info().reason);
  return device;
}

}  // namespace itif::device
