// The part of itif-bench ingest with another process as the sender.
#pragma once

#include <vector>

#include "benches.h"
#include "ingest/ring_port.h"

namespace itif::bench {

// The rows of memif, testpmd and recvmmsg; needs two CPUs. Without a program that a row needs, a
// note names it. The worker's packet buffers are those of `port`, and its thread is on the last of
// `cpus`. Errors: those of receivers.h.
Status ingest_live(const BenchOptions& options, Report& report, RingPort& port,
                   const std::vector<int>& cpus);

// Returns true if the options ask for one of these rows.
bool wants_ingest_live(const BenchOptions& options);

}  // namespace itif::bench
