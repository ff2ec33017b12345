// A DPDK port in memory for fuzz targets, without hugepages and devices. One per process.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "net/mempool.h"
#include "net/port.h"

struct rte_mbuf;
struct rte_ring;

namespace itif::fuzz {

// Starts EAL, once per process.
void start_eal();

class RingPort {
 public:
  // The pool has `mbufs` packet buffers: few, so that inputs can use all of them.
  explicit RingPort(uint32_t mbufs);

  const net::Port& port() const { return *port_; }
  rte_mempool* pool() const { return pool_.get(); }
  // Returns an empty packet buffer; nullptr: there is none.
  rte_mbuf* allocate();
  // Hands a frame to the port, which the worker polls. Takes the mbuf. Returns false if the ring is
  // full: the frame is lost.
  bool deliver(rte_mbuf* mbuf);
  // Returns the next frame that the worker has sent; empty: there is none.
  std::vector<std::byte> take_sent();
  unsigned buffers_in_use() const;

 private:
  net::Mempool pool_;
  rte_ring* to_worker_ = nullptr;
  rte_ring* from_worker_ = nullptr;
  std::unique_ptr<net::Port> port_;
};

}  // namespace itif::fuzz
