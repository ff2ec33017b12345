// Functions that a GPU computes in one instruction, not to the last bit.
//
// (tests/simt has a header of this name for kernels on the CPU.)
#pragma once

namespace itif::kernels::cuda {

// 2^x but for a relative error of 2^-22; what is below the normal numbers is 0. (PTX: ex2.approx.ftz)
__device__ inline float exp2_approximately(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}

// 1 / x, a unit in the last place off; of what is below the normal numbers an infinity. (PTX: rcp.approx.ftz)
__device__ inline float reciprocal_approximately(float x) {
  float reciprocal;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(reciprocal) : "f"(x));
  return reciprocal;
}

}  // namespace itif::kernels::cuda
