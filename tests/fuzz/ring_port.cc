#include "ring_port.h"

#include <rte_eth_ring.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

#include "base/check.h"
#include "base/log.h"
#include "net/eal.h"

namespace itif::fuzz {

void start_eal() {
  log::set_level(log::Level::kError);  // inputs would fill the log
  static const Status started =
      net::start_eal({"--no-huge", "-m", "64", "--no-pci", "--no-telemetry", "--no-shconf",
                      "--lcores=0@0,1@0", "--vdev=net_null0"});
  CHECK(started.has_value());
}

RingPort::RingPort(uint32_t mbufs) {
  start_eal();
  auto pool = net::create_mempool({"fuzz", mbufs, 2048, -1});
  CHECK(pool.has_value());
  pool_ = std::move(*pool);
  to_worker_ = rte_ring_create("fuzz_in", 256, SOCKET_ID_ANY, 0);
  from_worker_ = rte_ring_create("fuzz_out", 1024, SOCKET_ID_ANY, 0);
  CHECK(to_worker_ != nullptr && from_worker_ != nullptr);
  CHECK(rte_eth_from_rings("fuzz", &to_worker_, 1, &from_worker_, 1, 0) >= 0);
  auto port = net::Port::open({.device = "net_ring_fuzz", .pool = pool_.get()});
  CHECK(port.has_value());
  port_ = std::make_unique<net::Port>(std::move(*port));
}

rte_mbuf* RingPort::allocate() {
  return rte_pktmbuf_alloc(pool_.get());
}

bool RingPort::deliver(rte_mbuf* mbuf) {
  if (rte_ring_enqueue(to_worker_, mbuf) == 0) return true;
  rte_pktmbuf_free(mbuf);
  return false;
}

std::vector<std::byte> RingPort::take_sent() {
  void* object = nullptr;
  if (rte_ring_dequeue(from_worker_, &object) != 0) return {};
  auto* mbuf = static_cast<rte_mbuf*>(object);
  CHECK(mbuf->nb_segs == 1 && mbuf->pkt_len == mbuf->data_len && mbuf->data_len > 0);
  const auto* data = rte_pktmbuf_mtod(mbuf, const std::byte*);
  std::vector<std::byte> frame(data, data + mbuf->data_len);
  rte_pktmbuf_free(mbuf);
  return frame;
}

unsigned RingPort::buffers_in_use() const {
  return rte_mempool_in_use_count(pool_.get());
}

}  // namespace itif::fuzz
