// The device that tests of whole models run on: the host, or, in tests/simt, the CUDA device.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "device/device.h"

namespace itif::testing {

// The most cases of a model that are tested. A simulated device is too slow for all of them.
size_t max_cases();
// Keeps max_cases() of the cases, evenly spread.
template <class Cases>
void keep_few(Cases& cases) {
  const size_t all = cases.size(), most = max_cases();
  if (all <= most) return;
  Cases few;
  for (size_t i = 0; i < most; ++i) few.push_back(cases[i * all / most]);
  cases = std::move(few);
}

// Errors: kUnsupported, a type that it does not compute here.
Result<std::unique_ptr<device::Device>> open_tested_device(const std::string& dtype);

}  // namespace itif::testing
