#include "sim/dpdk_nic.h"

#include <rte_eth_ring.h>
#include <rte_mbuf.h>
#include <rte_ring.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

#include "net/eal.h"

namespace itif::sim {
namespace {

constexpr uint32_t kBuffers = 65535;  // a simulated overload holds many requests
constexpr uint32_t kBufferBytes = 2048;
constexpr uint32_t kRingFrames = 32768;
constexpr uint32_t kMaxFrameBytes = 9018;  // a jumbo frame

// EAL pins the calling thread to its lcore's CPUs: all that the process may use.
std::string all_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  std::string list;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu)
    if (CPU_ISSET(cpu, &set)) list += (list.empty() ? "(" : ",") + std::to_string(cpu);
  return list.empty() ? "0" : list + ")";
}

}  // namespace

Result<std::unique_ptr<Nic>> Nic::open() {
  ITIF_TRY(net::start_eal({"--no-huge", "-m", "384", "--no-pci", "--no-telemetry", "--no-shconf",
                           "--lcores=0@" + all_cpus(), "--vdev=net_null0"}));
  std::unique_ptr<Nic> nic(new Nic);
  ITIF_ASSIGN(nic->pool_, net::create_mempool(
                              {.name = "itif_sim", .mbufs = kBuffers, .mbuf_bytes = kBufferBytes}));
  nic->to_worker_ = rte_ring_create("itif_sim_in", kRingFrames, SOCKET_ID_ANY, 0);
  nic->from_worker_ = rte_ring_create("itif_sim_out", kRingFrames, SOCKET_ID_ANY, 0);
  if (nic->to_worker_ == nullptr || nic->from_worker_ == nullptr ||
      rte_eth_from_rings("itif_sim", &nic->to_worker_, 1, &nic->from_worker_, 1, 0) < 0)
    return fail(Code::kResourceExhausted, "DPDK cannot make a port in memory");
  ITIF_ASSIGN(net::Port port,
              net::Port::open({.device = "net_ring_itif_sim", .pool = nic->pool_.get()}));
  nic->port_ = std::make_unique<net::Port>(std::move(port));
  return nic;
}

Nic::~Nic() {
  if (port_) clear();
  port_.reset();
  pool_.reset();
  net::stop_eal();
}

bool Nic::deliver(std::span<const std::byte> frame) noexcept {
  rte_mbuf* mbuf = rte_pktmbuf_alloc(pool_.get());
  if (mbuf == nullptr) return false;
  char* data = rte_pktmbuf_append(mbuf, static_cast<uint16_t>(frame.size()));
  if (data == nullptr || frame.size() > kBufferBytes) {
    rte_pktmbuf_free(mbuf);
    return false;
  }
  std::memcpy(data, frame.data(), frame.size());
  if (rte_ring_enqueue(to_worker_, mbuf) == 0) return true;
  rte_pktmbuf_free(mbuf);
  return false;
}

size_t Nic::take_sent(const std::function<void(std::span<const std::byte>)>& take) {
  size_t count = 0;
  std::array<std::byte, kMaxFrameBytes> copy;
  void* object = nullptr;
  for (; rte_ring_dequeue(from_worker_, &object) == 0; ++count) {
    auto* mbuf = static_cast<rte_mbuf*>(object);
    const uint32_t bytes = std::min<uint32_t>(rte_pktmbuf_pkt_len(mbuf), kMaxFrameBytes);
    // Copies only frames of several segments.
    const void* data = rte_pktmbuf_read(mbuf, 0, bytes, copy.data());
    take({static_cast<const std::byte*>(data), bytes});
    rte_pktmbuf_free(mbuf);
  }
  return count;
}

void Nic::clear() noexcept {
  void* object = nullptr;
  for (rte_ring* ring : {to_worker_, from_worker_})
    while (rte_ring_dequeue(ring, &object) == 0) rte_pktmbuf_free(static_cast<rte_mbuf*>(object));
}

unsigned Nic::buffers_in_use() const noexcept {
  return rte_mempool_in_use_count(pool_.get());
}

}  // namespace itif::sim
