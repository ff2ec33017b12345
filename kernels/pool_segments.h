// One vector a segment, for sentence embeddings and classifiers: see PoolSegments in args.h.
#pragma once

#include "kernels/host/launch.h"

namespace itif::kernels::host {
void pool_segments(const PoolSegments& args, const HostLaunch& launch) noexcept;
}
