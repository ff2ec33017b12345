// itif-bench all: runs every bench in its own process, so that a crash or a leak does not affect
// the next bench; then writes one report.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "benches.h"

namespace itif::bench {

struct AllOptions {
  std::string directory;            // created if missing
  std::vector<std::string> only;    // benches; empty: all
  std::string gnuplot = "gnuplot";  // a path, or a name that is searched on PATH
};

// Writes NAME.json of each bench, report.md, and each figure's data, script and pictures. Returns
// the number of failed benches. A failed bench does not stop the others; the report says why it
// failed. Errors: kPermission, kResourceExhausted: `directory` cannot be made or written.
Result<uint32_t> run_all(std::span<const Bench> benches, const BenchOptions& options,
                         const AllOptions& all);

}  // namespace itif::bench
