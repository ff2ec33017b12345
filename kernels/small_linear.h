// The small heads, in f32: see SmallLinear in args.h.
#pragma once

#include "kernels/host/launch.h"

namespace itif::kernels::host {
void small_linear(const SmallLinear& args, const HostLaunch& launch) noexcept;
}
