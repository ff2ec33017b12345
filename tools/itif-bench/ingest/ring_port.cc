#include "ingest/ring_port.h"

#include <fmt/format.h>
#include <rte_eth_ring.h>

#include "base/check.h"
#include "net/eal.h"

namespace itif::bench {
namespace {

int num_ring_ports = 0;  // so far: for their names

}  // namespace

Result<std::unique_ptr<RingPort>> RingPort::open(const RingPortOptions& options, int cpu) {
  const net::MempoolConfig pool{
      .name = "ingest", .mbufs = options.mbufs, .mbuf_bytes = options.mbuf_bytes};
  constexpr uint32_t kRingsMb = 32;  // and what EAL itself needs
  const auto needed_mb =
      2 * static_cast<uint32_t>(net::mempool_mb(pool)) + options.memory_mb + kRingsMb;
  net::EalPlan plan = net::plan_eal(
      {"--in-memory", "--no-pci", "--no-telemetry", fmt::format("--lcores=0@{}", cpu)},
      net::inspect_hugepages(), needed_mb);
  // Neither leaves files; EAL refuses the first without hugepages.
  if (plan.no_huge) plan.args.front() = "--no-shconf";
  ITIF_TRY(net::start_eal(plan.args));
  std::unique_ptr<RingPort> made(new RingPort);
  made->memory_ = plan.no_huge ? "4 KiB pages" : "2 MiB pages";
  ITIF_ASSIGN(made->own_pool_, net::create_mempool(pool));
  made->pool_ = made->own_pool_.get();
  ITIF_TRY(made->make_port());
  return made;
}

Result<std::unique_ptr<RingPort>> RingPort::make_another() const {
  std::unique_ptr<RingPort> made(new RingPort);
  made->memory_ = memory_;
  made->pool_ = pool_;
  ITIF_TRY(made->make_port());
  return made;
}

Status RingPort::make_port() {
  const std::string name = fmt::format("itif_bench{}", num_ring_ports++);
  to_worker_ = rte_ring_create((name + "_in").c_str(), kRingFrames, SOCKET_ID_ANY, 0);
  from_worker_ = rte_ring_create((name + "_out").c_str(), kRingFrames, SOCKET_ID_ANY, 0);
  if (to_worker_ == nullptr || from_worker_ == nullptr ||
      rte_eth_from_rings(name.c_str(), &to_worker_, 1, &from_worker_, 1, 0) < 0)
    return fail(Code::kResourceExhausted, "no memory for a port of two rings");
  ITIF_ASSIGN(net::Port port, net::Port::open({.device = "net_ring_" + name, .pool = pool_}));
  port_ = std::make_unique<net::Port>(std::move(port));
  return {};
}

RingPort::~RingPort() {
  port_.reset();
  rte_ring_free(to_worker_);
  rte_ring_free(from_worker_);
  if (!own_pool_) return;
  own_pool_.reset();
  net::stop_eal();
}

void RingPort::put(std::span<rte_mbuf* const> frames) noexcept {
  CHECK(rte_ring_enqueue_bulk(to_worker_, reinterpret_cast<void* const*>(frames.data()),
                              static_cast<unsigned>(frames.size()), nullptr) == frames.size());
}

size_t RingPort::take(std::span<rte_mbuf*> out) noexcept {
  return rte_ring_dequeue_burst(from_worker_, reinterpret_cast<void**>(out.data()),
                                static_cast<unsigned>(out.size()), nullptr);
}

}  // namespace itif::bench
