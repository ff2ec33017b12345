// x[r] = activation(x[r] + bias[slot]) in place: what follows a GEMM whose library does not fuse it, or
// fuses it more slowly. Host only.
#pragma once

#include "kernels/host/launch.h"

namespace itif::kernels::host {

struct BiasActivation {
  void* x = nullptr;  // act [T, width]
  Slab bias;          // f32 [width]; base nullptr: none
  uint32_t width = 0;
  Activation activation = Activation::kNone;
  std::span<const RowRange> ranges;
};

void bias_activation(const BiasActivation& args, const HostLaunch& launch) noexcept;

}  // namespace itif::kernels::host
