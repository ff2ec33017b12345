// The memory that DPDK needs for a configuration, in hugepages or ordinary pages.
#pragma once

#include <cstdint>

#include "config/config.h"

namespace itif::config {

// The bytes of a packet buffer besides its data room: DPDK's headers, the headroom, alignment. A
// test compares them with net::mempool_mb().
constexpr uint32_t kBufferOverheadBytes = 344;

inline uint64_t packet_buffers_mb(const DataPlane& plane) {
  constexpr uint64_t kPoolMb = 2;  // the pool's ring and caches
  return (uint64_t{plane.mbufs} * (plane.mbuf_bytes + kBufferOverheadBytes) >> 20) + kPoolMb;
}

// Returns the MiB of packets and rings, for EAL's -m.
inline uint32_t needed_memory_mb(const Config& config) {
  constexpr uint64_t kEalMb = 96;   // EAL, rings and drivers
  constexpr uint64_t kQueueMb = 8;  // a worker's queues, of the device or rings
  uint64_t mb = kEalMb;
  for (const Port& port : config.ports)
    mb += packet_buffers_mb(config.data_plane) + kQueueMb * port.workers();
  return static_cast<uint32_t>(mb);
}

}  // namespace itif::config
