// Counts of the last seconds, for rates and percentiles that follow the traffic. Keeps two earlier
// readings. When the newer one is 5 s old, it replaces the older one, and the current reading takes
// its place.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "pipeline/figures.h"

namespace itif::serving {

class Window {
 public:
  explicit Window(uint64_t start_ns) : older_{start_ns, {}}, newer_{start_ns, {}} {}

  // Readings keyed by tenant id.
  using Reading = std::map<uint32_t, pipeline::TenantFigures>;
  struct Recent {
    uint64_t interval_ns = 0;
    Reading since;  // `now` minus the earlier reading; all counts of a tenant that is newer
  };

  // Returns the counts of the last 5 to 10 s (less just after the start). `now`: all counts since
  // the start. Thread-safe.
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

}  // namespace itif::serving
