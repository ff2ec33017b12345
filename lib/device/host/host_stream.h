// Host launches run synchronously, on the calling thread and its OpenMP pool. Asynchronous streams
// run them on their own thread (device/stream/async_stream.h).
#pragma once

#include <memory>

#include "device/device.h"
#include "device/host/gemm.h"
#include "device/host/pool_throttle.h"
#include "device/host/turns.h"
#include "kernels/host/launch.h"

namespace itif::device {

// `throttle` outlives the stream. `turns`: of the stream's CPUs. Errors: kResourceExhausted,
// kInternal.
Result<std::unique_ptr<Stream>> make_host_stream(
    GemmLibrary& gemms, const kernels::host::HostLaunch& launch, PoolThrottle& throttle,
    std::shared_ptr<Turns> turns, const StreamLimits& limits, const StreamOptions& options);

}  // namespace itif::device
