#include "support/tested_device.h"

namespace itif::testing {

size_t max_cases() {
  return SIZE_MAX;
}

Result<std::unique_ptr<device::Device>> open_tested_device(const std::string& dtype) {
  return device::open_device({.kind = "host", .dtype = dtype, .num_threads = 1});
}

}  // namespace itif::testing
