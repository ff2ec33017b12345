// A DPDK port in memory: the worker receives the frames that a simulated link delivers, and the
// link takes the frames that the worker sends. One per process, because EAL starts once;
// simulations use it one after another.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>

#include "base/error.h"
#include "net/mempool.h"
#include "net/port.h"

struct rte_ring;

namespace itif::sim {

class Nic {
 public:
  // Starts EAL without hugepages and devices. REQUIRES: called once, and EAL has not started.
  // Errors: those of start_eal(), create_mempool() and Port::open().
  static Result<std::unique_ptr<Nic>> open();
  ~Nic();

  const net::Port& port() const noexcept { return *port_; }
  rte_mempool* pool() const noexcept { return pool_.get(); }
  // Copies a frame into a packet buffer that the worker then receives. Returns false if the port
  // has no buffer or room: the frame is lost, as a real NIC would lose it.
  bool deliver(std::span<const std::byte> frame) noexcept;
  // Calls take(frame) for each frame that the worker has sent, and frees it. Returns their number.
  size_t take_sent(const std::function<void(std::span<const std::byte>)>& take);
  // Frees frames that were delivered and not received, or sent and not taken.
  void clear() noexcept;
  unsigned buffers_in_use() const noexcept;

 private:
  Nic() = default;

  net::Mempool pool_;
  rte_ring* to_worker_ = nullptr;
  rte_ring* from_worker_ = nullptr;
  std::unique_ptr<net::Port> port_;
};

}  // namespace itif::sim
