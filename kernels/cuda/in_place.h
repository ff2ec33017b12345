// Host memory that a kernel reads where it stands. A name for it, so that tests/simt, whose header of this name
// comes first there, can tell what the GPU could not read.
#pragma once

#include <cstddef>

namespace itif::kernels::cuda {

template <class T>
__device__ const T* in_place(const std::byte* data, size_t) {
  return reinterpret_cast<const T*>(data);
}

}  // namespace itif::kernels::cuda
