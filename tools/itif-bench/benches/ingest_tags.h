// The part of itif-bench ingest that computes tags alone.
#pragma once

#include "benches.h"

namespace itif::bench {

// SipHash of 64 datagrams' tags, one by one and in vector lanes. Errors: kInternal: they differ.
Status ingest_tags(const BenchOptions& options, Report& report);

}  // namespace itif::bench
