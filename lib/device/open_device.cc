// Chooses the device, and logs which one and why.
#include <fmt/format.h>

#include "base/log.h"
#include "device/cuda/device.h"
#include "device/device.h"
#include "device/host/cpu.h"
#include "device/host/host_device.h"

namespace itif::device {

Result<std::unique_ptr<Device>> open_device(const DeviceOptions& options) {
  if (options.kind != "auto" && options.kind != "host" && options.kind != "cuda")
    return fail(Code::kInvalidArgument,
                fmt::format("device '{}' is none of auto, host, cuda", options.kind));
  if (options.attention != "itif" && options.attention != "cudnn" &&
      options.attention != "cudnn-only")
    return fail(
        Code::kInvalidArgument,
        fmt::format("attention '{}' is none of itif, cudnn, cudnn-only", options.attention));
  DeviceOptions chosen = options;
  if (chosen.reason.empty())
    chosen.reason = options.kind == "auto" ? "a GPU was found" : "as configured";
  Result<std::unique_ptr<Device>> device =
      options.kind == "host" ? open_host_device(chosen, detect_cpu()) : open_cuda_device(chosen);
  if (!device && options.kind == "cuda")
    return fail(device.error().code, fmt::format("device cuda cannot be used: {}; use auto or host",
                                                 device.error().message));
  if (!device && options.kind == "auto") {
    if (device.error().code != Code::kUnsupported) return device;
    chosen.reason = fmt::format("CUDA is not used: {}", device.error().message);
    device = open_host_device(chosen, detect_cpu());
  }
  if (!device) return device;
  const DeviceInfo& info = (*device)->info();
  if (info.kind == "host" && options.attention != "itif")
    return fail(Code::kUnsupported,
                fmt::format("attention cudnn needs a GPU, but the device is the host ({}): "
                            "use attention itif",
                            info.reason));
  if (info.kind == "host" && options.slices != "auto")
    return fail(
        Code::kUnsupported,
        fmt::format("slices {} need a GPU, but the device is the host ({}): use slices auto",
                    options.slices, info.reason));
  if (info.kind == "host" && options.ordinal != 0)
    return fail(
        Code::kUnsupported,
        fmt::format("ordinal {} names a GPU, but the device is the host ({}): use ordinal 0",
                    options.ordinal, info.reason));
  log::info("device {} {}: {} ({})", info.kind, compute_name(info.compute), info.description,
            info.reason);
  return device;
}

}  // namespace itif::device
