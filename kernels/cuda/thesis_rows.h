// Row operators with the thesis's launch geometry (thesis_grid.h), for the fusion mode "thesis".
#pragma once

#include "kernels/args.h"
#include "kernels/cuda/plan.h"

namespace itif::kernels::cuda {

void thesis_bias_activation(const Launcher& launch, const BiasActivation& args, const Rows& rows);
void thesis_layer_norm(const Launcher& launch, const ResidualLayerNorm& args, const Rows& rows);

}  // namespace itif::kernels::cuda
