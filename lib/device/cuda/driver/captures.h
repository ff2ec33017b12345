// A device-wide synchronisation invalidates every stream capture in progress, on any thread, and
// itself fails. Creating and destroying cuBLAS handles synchronises the device; so does a reset.
#pragma once

#include <shared_mutex>

namespace itif::device::cuda {

// Captures hold it shared; calls that synchronise the device hold it exclusively.
inline std::shared_mutex& captures() {
  static std::shared_mutex of_process;
  return of_process;
}

}  // namespace itif::device::cuda
