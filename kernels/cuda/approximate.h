// Functions that a GPU computes in one instruction, not exact to the last bit.
//
// (tests/simt replaces this header for kernels on the CPU.)
#pragma once

namespace itif::kernels::cuda {

// 2^x with a relative error of 2^-22. Subnormal results become 0. (PTX: ex2.approx.ftz)
__device__ inline float exp2_approximately(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// 1 / x within one unit in the last place; infinity for subnormal x. (PTX: rcp.approx.ftz)
__device__ inline float reciprocal_approximately(float x) {
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  return reciprocal;
}

}  // namespace itif::kernels::cuda
