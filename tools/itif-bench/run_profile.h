// One run operator by operator: of an instance, or of all of an execution's added up. Operators of tenants
// that run at once overlap: their times together may be longer than the run.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace itif::bench {

struct RunProfile {
  std::map<std::string, double> call_ns = {};  // by operator, named as in device::Stream
  uint64_t launches = 0;
  double launch_ns = 0;  // of so many launches with next to nothing to do
  void add(const RunProfile& other) {
    for (const auto& [name, ns] : other.call_ns) call_ns[name] += ns;
    launches += other.launches;
    launch_ns += other.launch_ns;
  }
};

}  // namespace itif::bench
