// The operator times of one run, of one instance or summed over an execution's instances. If
// tenants run concurrently, their operators overlap, and the sum may exceed the run time.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace itif::bench {

struct RunProfile {
  // By operator, named as in device::Stream. GPU: time on the GPU; host: time of the calls.
  std::map<std::string, double> operator_ns = {};
  uint64_t launches = 0;
  double launch_ns = 0;  // GPU: time of the calls; host: time of `launches` nearly empty launches
  double empty_ns = 0;   // GPU: time on the GPU of `launches` nearly empty launches
  void add(const RunProfile& other) {
    for (const auto& [name, ns] : other.operator_ns) operator_ns[name] += ns;
    launches += other.launches;
    launch_ns += other.launch_ns;
    empty_ns += other.empty_ns;
  }
};

}  // namespace itif::bench
