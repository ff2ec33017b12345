// The part of itif-bench ingest with two workers in two threads.
#pragma once

#include <vector>

#include "benches.h"
#include "ingest/ring_port.h"

namespace itif::bench {

// Two workers over two ports, and two behind one port whose flows software spreads, beside one
// worker. The limit of two is two workers that share nothing, measured in turn with them. Needs two
// CPUs, else a note says so. The calling thread is on the last of `cpus`. Errors: those of
// WorkerLoad.
Status ingest_workers(const BenchOptions& options, Report& report, RingPort& port,
                      const std::vector<int>& cpus);

// Returns true if the options ask for one of these rows.
bool wants_ingest_workers(const BenchOptions& options);
// The memory for its packet buffers.
uint32_t ingest_workers_mb();

}  // namespace itif::bench
