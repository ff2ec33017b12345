// EAL for tests that need rings or ports, without hugepages, devices or shared files.
#pragma once

#include <gtest/gtest.h>

#include "net/eal.h"

namespace itif::execution::test {

// Starts EAL, once per process.
inline void start_test_eal() {
  static const Status started =
      net::start_eal({"--no-huge", "-m", "256", "--no-pci", "--no-telemetry", "--no-shconf",
                      "--lcores=0@0,1@0", "--vdev=net_null0"});
  ASSERT_TRUE(started) << started.error().message;
}

}  // namespace itif::execution::test
