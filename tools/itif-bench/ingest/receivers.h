// Receivers of a flood, one core each: a worker on a memif, dpdk-testpmd on a memif, and a thread
// that calls recvmmsg.
#pragma once

#include <cstdint>
#include <string>

#include "ingest/senders.h"

struct rte_mempool;

namespace itif::bench {

struct Received {
  double per_second = 0;  // datagrams
  double answers_per_second = 0;
};

// The calling thread runs a worker and a group that computes nothing. `pool`: its packet buffers.
// REQUIRES: EAL runs. Errors: those of attach_devices and WorkerRig::make; kUnavailable: nothing
// arrived; kInternal: datagrams were dropped.
Result<Received> receive_by_worker(FloodOptions flood, rte_mempool* pool, double seconds);

// `testpmd`: the program. Errors: kUnavailable: it did not report a rate.
Result<Received> receive_by_testpmd(const FloodOptions& flood, const std::string& testpmd,
                                    int main_cpu, int cpu, double seconds);

// Through the loopback interface. Errors: kInternal; kUnavailable: nothing arrived.
Result<Received> receive_by_recvmmsg(const FloodOptions& flood, double seconds);

}  // namespace itif::bench
