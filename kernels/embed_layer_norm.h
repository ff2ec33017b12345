// out = LayerNorm(word + position + type): see EmbedLayerNorm in args.h.
#pragma once

#include "kernels/host/launch.h"

namespace itif::kernels::host {
void embed_layer_norm(const EmbedLayerNorm& args, const HostLaunch& launch) noexcept;
}
