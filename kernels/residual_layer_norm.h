// out = LayerNorm(x + residual): see ResidualLayerNorm in args.h.
#pragma once

#include "kernels/host/launch.h"

namespace itif::kernels::host {
void residual_layer_norm(const ResidualLayerNorm& args, const HostLaunch& launch) noexcept;
}
