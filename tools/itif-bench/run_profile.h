// One run operator by operator: of an instance, or of all of an execution's added up. Operators of tenants
// that run at once overlap: their times together may be longer than the run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace itif::bench {

struct RunProfile {
  // By operator, named as in device::Stream: a GPU's own time, of a host that of the calls.
  std::map<std::string, double> operator_ns = {};
  uint64_t launches = 0;
  // A GPU: of the calls; a host: of so many launches with next to nothing to do.
  double launch_ns = 0;
  double empty_ns = 0;  // a GPU: its own time of so many launches with next to nothing to do
  void add(const RunProfile& other) {
    for (const auto& [name, ns] : other.operator_ns) operator_ns[name] += ns;
    launches += other.launches;
    launch_ns += other.launch_ns;
    empty_ns += other.empty_ns;
  }
};

}  // namespace itif::bench
