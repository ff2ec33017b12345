// Activations in f32, as PyTorch defines them.
#pragma once

#include "kernels/args.h"
#include "kernels/cuda/number.h"

namespace itif::kernels::cuda {

__device__ inline float activate(Activation activation, float x) {
  switch (activation) {
    case Activation::kNone: return x;
    case Activation::kGelu: return 0.5f * x * (1.0f + erff(x * 0.70710678f));
    case Activation::kGeluTanh:
      return 0.5f * x * (1.0f + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
    case Activation::kRelu: return fmaxf(x, 0.0f);
    case Activation::kTanh: return tanhf(x);
    case Activation::kSilu: return x / (1.0f + expf(-x));
  }
  return x;
}

}  // namespace itif::kernels::cuda
