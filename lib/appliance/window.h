// Figures of the recent past: what has been counted since a few seconds ago, for rates and percentiles
// that follow the traffic. Keeps two earlier readings and drops the older when the newer has aged.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "pipeline/figures.h"

namespace itif::appliance {

class Window {
 public:
  explicit Window(uint64_t start_ns) : older_{start_ns, {}}, newer_{start_ns, {}} {}

  // Readings by tenant id. Thread-safe.
  using Reading = std::map<uint32_t, pipeline::TenantFigures>;
  struct Recent {
    uint64_t interval_ns = 0;
    Reading since;  // now less the earlier reading; a tenant that was not there then: all it has
  };

  // What has been counted in the last 5 to 10 s (less just after the start), given what is counted
  // now.
  Recent advance(uint64_t now_ns, const Reading& now);

 private:
  static constexpr uint64_t kHalfNs = 5'000'000'000;
  struct Earlier {
    uint64_t at_ns = 0;
    Reading figures;
  };
  std::mutex mutex_;
  Earlier older_, newer_;
};

}  // namespace itif::appliance
