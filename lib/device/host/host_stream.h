// Launches on the host run at once, on the calling thread and its OpenMP pool; those of a stream that runs
// apart on a thread of its own (device/queued_stream.h).
#pragma once

#include <memory>

#include "device/device.h"
#include "device/host/gemm.h"
#include "kernels/host/launch.h"

namespace itif::device {

// Errors: kResourceExhausted, kInternal.
Result<std::unique_ptr<Stream>> make_host_stream(GemmLibrary& gemms,
                                                 const kernels::host::HostLaunch& launch,
                                                 const StreamLimits& limits,
                                                 const StreamOptions& options);

}  // namespace itif::device
