// Whoever waits for all that runs on the device spoils every graph that is being captured on it, on whatever thread, and
// is refused himself. Making and ending cuBLAS's handles does so, and a reset.
#pragma once

#include <shared_mutex>

namespace itif::device::cuda {

// Shared by those who capture; of one alone who makes the device wait.
inline std::shared_mutex& captures() {
  static std::shared_mutex of_process;
  return of_process;
}

}  // namespace itif::device::cuda
