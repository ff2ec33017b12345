// A stream that runs nothing, for tests that need no computation.
#pragma once

#include "device/device.h"

namespace itif::testing {

class NullStream : public device::ImmediateStream {
 public:
  void attach_thread() override {}
  void dispatch(kernels::Operator) override {}
  void copy_to_host(const void*, size_t, void*) override {}
  Status synchronize() override { return {}; }
};

}  // namespace itif::testing
