// itif-bench all: every bench in a process of its own, so that one that crashes or leaves memory behind
// does not touch the next; then a report of them all.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "benches.h"

namespace itif::bench {

struct AllOptions {
  std::string directory;            // made if it is not there
  std::vector<std::string> only;    // benches; empty: all
  std::string gnuplot = "gnuplot";  // a path, or a name to be looked up
};

// Writes NAME.json of each bench, report.md, and each figure's data, script and pictures. Returns how
// many benches failed: the report says of each why, and the others have run.
// Errors: kPermission, kResourceExhausted: of `directory`.
Result<uint32_t> run_all(std::span<const Bench> benches, const BenchOptions& options,
                         const AllOptions& all);

}  // namespace itif::bench
