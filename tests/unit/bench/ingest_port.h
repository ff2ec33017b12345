// The port of rings of a test program. EAL starts once per process.
#pragma once

#include <gtest/gtest.h>
#include <rte_mempool.h>

#include <array>
#include <cstdlib>

#include "ingest/child.h"
#include "ingest/worker_load.h"

namespace itif::bench::test {

inline RingPort& ingest_port() {
  static const Result<std::unique_ptr<RingPort>> port =
      RingPort::open({.mbufs = 8192, .mbuf_bytes = 2048, .memory_mb = 96}, usable_cpus().at(0));
  if (!port) {
    ADD_FAILURE() << port.error().message;
    std::exit(1);
  }
  return **port;
}

}  // namespace itif::bench::test
