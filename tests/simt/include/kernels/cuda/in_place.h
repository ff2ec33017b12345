// Stands for the header of this name in kernels/cuda: what is not registered, a GPU may not read.
#pragma once

#include <cstddef>

#include "simt.h"

namespace itif::kernels::cuda {

template <class T>
const T* in_place(const std::byte* data, size_t bytes) {
  simt::check_host_read(data, bytes);
  return reinterpret_cast<const T*>(data);
}

}  // namespace itif::kernels::cuda
