// Packet buffers. One pool per port, shared by its workers; created at start, never grown.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"

struct rte_mempool;

namespace itif::net {

struct MempoolConfig {
  std::string name;  // unique in the process, at most 25 characters
  uint32_t mbufs = 32768;
  uint32_t mbuf_bytes = 2048;  // data room after the headroom (128 bytes)
  int socket = -1;             // NUMA node; -1: any
};

struct MempoolFree {
  void operator()(rte_mempool* pool) const noexcept;
};
using Mempool = std::unique_ptr<rte_mempool, MempoolFree>;

// Errors: kInvalidArgument (a size out of range), kResourceExhausted (with the megabytes needed and
// how to provide them), kAlreadyExists.
Result<Mempool> create_mempool(const MempoolConfig& config);

// Returns all memory that received packets may be in: that of `pools`, and of the pools of drivers
// that receive into their own memory and attach it to our buffers (mlx5's multi-packet queues).
// REQUIRES: the ports are open.
std::vector<std::span<std::byte>> packet_memory(std::span<const Mempool> pools);

// Returns the buffers of a pool that are in use: neither free nor in a thread's cache. While other
// threads use the pool, the figure is approximate. Any thread.
uint32_t mbufs_in_use(const rte_mempool& pool) noexcept;

// Returns the megabytes that such a pool needs, for --no-huge -m and for messages.
uint64_t mempool_mb(const MempoolConfig& config);

}  // namespace itif::net
