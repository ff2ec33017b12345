// A time that varies, as TCP estimates its round trip.
// Source: RFC 6298, section 2.
#pragma once

#include <algorithm>
#include <cstdint>

namespace itif::client {

struct SmoothedTime {
  uint64_t ns = 0;  // 0: not known yet
  uint64_t deviation_ns = 0;

  void learn(uint64_t sample_ns) noexcept {
    if (ns == 0) {
      ns = sample_ns;
      deviation_ns = sample_ns / 2;
      return;
    }
    const uint64_t difference = std::max(sample_ns, ns) - std::min(sample_ns, ns);
    deviation_ns = (3 * deviation_ns + difference) / 4;
    ns = (7 * ns + sample_ns) / 8;
  }
};

}  // namespace itif::client
