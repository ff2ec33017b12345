// The device that tests of whole models run on: the host, or, in tests/simt, the CUDA device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "device/device.h"

namespace itif::testing {

// A device that the CPU simulates is too slow for all cases of a model.
#ifdef ITIF_FEW_CASES
inline constexpr size_t kMostCases = 6;
#else
inline constexpr size_t kMostCases = SIZE_MAX;
#endif
// Drops what is more than those, evenly.
template <class Cases>
void keep_few(Cases& cases) {
  const size_t all = cases.size();
  if (all <= kMostCases) return;
  Cases few;
  for (size_t i = 0; i < kMostCases; ++i) few.push_back(cases[i * all / kMostCases]);
  cases = std::move(few);
}

// Errors: kUnsupported, a type that it does not compute here.
Result<std::unique_ptr<device::Device>> open_tested_device(const std::string& dtype);

}  // namespace itif::testing
