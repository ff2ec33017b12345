#include "pipeline/spread_lane.h"

#include <fmt/format.h>
#include <rte_errno.h>
#include <rte_mbuf.h>

#include <array>

namespace itif::pipeline {
namespace {

size_t push_frames(rte_ring& ring, std::span<rte_mbuf* const> mbufs) noexcept {
  return rte_ring_sp_enqueue_burst(&ring, reinterpret_cast<void* const*>(mbufs.data()),
                                   static_cast<unsigned>(mbufs.size()), nullptr);
}

void free_frames(rte_ring* ring) noexcept {
  std::array<rte_mbuf*, 64> frames;
  if (ring == nullptr) return;
  while (const unsigned count = rte_ring_sc_dequeue_burst(
             ring, reinterpret_cast<void**>(frames.data()), frames.size(), nullptr))
    rte_pktmbuf_free_bulk(frames.data(), count);
}

}  // namespace

Result<std::unique_ptr<SpreadLane>> SpreadLane::create(const Options& options) {
  std::unique_ptr<SpreadLane> lane(new SpreadLane);
  lane->owner_ = options.owner;
  const auto make = [&](const char* direction, uint32_t frames) {
    return rte_ring_create(fmt::format("itif_{}_{}", direction, options.member).c_str(), frames,
                           SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
  };
  lane->received_.reset(make("spread", options.rx_frames));
  lane->to_send_.reset(make("collect", options.tx_frames));
  if (!lane->received_ || !lane->to_send_)
    return fail(
        Code::kResourceExhausted,
        fmt::format("cannot create the rings of {} and {} frames for worker {}: {}; give "
                    "DPDK more memory",
                    options.rx_frames, options.tx_frames, options.member, rte_strerror(rte_errno)));
  return lane;
}

SpreadLane::~SpreadLane() {
  free_frames(received_.get());
  free_frames(to_send_.get());
}

size_t SpreadLane::give(std::span<rte_mbuf* const> mbufs) noexcept {
  const size_t count = push_frames(*received_, mbufs);
  if (count > 0) member_bell_->ring();
  return count;
}

uint16_t SpreadLane::send(std::span<rte_mbuf* const> mbufs) noexcept {
  const size_t count = push_frames(*to_send_, mbufs);
  if (count > 0) owner_bell_->ring();
  return static_cast<uint16_t>(count);
}

}  // namespace itif::pipeline
