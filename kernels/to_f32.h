// Activations as f32: see ToF32 in args.h.
#pragma once

#include "kernels/host/launch.h"

namespace itif::kernels::host {
void to_f32(const ToF32& args, const HostLaunch& launch) noexcept;
}
