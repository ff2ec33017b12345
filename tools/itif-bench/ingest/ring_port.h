// A DPDK port made of two rings, in one process: the bench puts frames into one, a worker receives
// them from it, and the frames that the worker sends appear in the other.
//
// EAL and its first port live as long as the process. One thread uses all of it.
#pragma once

#include <rte_mbuf.h>
#include <rte_ring.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "net/mempool.h"
#include "net/port.h"

namespace itif::bench {

struct RingPortOptions {
  uint32_t mbufs = 16384;
  uint32_t mbuf_bytes = 2048;  // data room
  uint32_t memory_mb = 32;     // for further pools
};

class RingPort {
 public:
  static constexpr uint32_t kRingFrames = 8192;

  // Starts EAL on `cpu`, to which it pins the calling thread. Call it once. Errors: those of
  // start_eal, create_mempool and Port::open.
  static Result<std::unique_ptr<RingPort>> open(const RingPortOptions& options, int cpu);
  // Makes a further one, with the same packet buffers. The first outlives it. Errors: those of
  // Port::open; kResourceExhausted.
  Result<std::unique_ptr<RingPort>> make_another() const;
  ~RingPort();

  rte_mempool* pool() const noexcept { return pool_; }
  const net::Port& port() const noexcept { return *port_; }
  // "2 MiB pages" or "4 KiB pages": the memory of the packet buffers.
  const std::string& memory() const noexcept { return memory_; }

  // Lets the worker receive the frames. REQUIRES: at most kRingFrames - 1 wait.
  void put(std::span<rte_mbuf* const> frames) noexcept;
  bool is_empty() const noexcept { return rte_ring_empty(to_worker_) != 0; }
  // Returns frames that were sent, at most out.size(); the caller owns them.
  size_t take(std::span<rte_mbuf*> out) noexcept;

 private:
  RingPort() = default;
  Status make_port();

  net::Mempool own_pool_;  // of the first, which stops EAL
  rte_mempool* pool_ = nullptr;
  rte_ring* to_worker_ = nullptr;
  rte_ring* from_worker_ = nullptr;
  std::unique_ptr<net::Port> port_;
  std::string memory_;
};

}  // namespace itif::bench
