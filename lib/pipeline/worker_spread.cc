// The worker's side of a queue that several workers share (spreader.h).
#include "pipeline/worker.h"

namespace itif::pipeline {

using net::DropReason;

// Returns the number of frames in `out` that this worker has to handle. An owner receives from its
// queue and passes on what belongs to its members; a member takes what its owner passed on. A
// datagram is counted by the worker that handles it, and by the owner if the member has no room.
size_t Worker::fetch_shared(std::span<rte_mbuf*> out, size_t& passed) noexcept {
  if (options_.owner_lane != nullptr) return options_.owner_lane->take(out);
  const std::span<rte_mbuf*> burst = out.first(port_.rx_burst(options_.queue, out));
  const Spreader::Split split = spreader_->split(burst);
  for (rte_mbuf* mbuf : burst.subspan(split.own, split.full)) {
    counters_.received.add();
    counters_.received_bytes.add(rte_pktmbuf_pkt_len(mbuf));
    counters_.dropped[static_cast<size_t>(DropReason::kWorkerQueueFull)].add();
    death_row_.push(mbuf);
  }
  counters_.passed.add(split.passed);
  passed = burst.size() - split.own;
  return split.own;
}

// Returns true if another worker has passed on frames that this one has not taken yet.
bool Worker::has_shared_work() const noexcept {
  return spreader_ ? spreader_->has_to_send()
                   : options_.owner_lane != nullptr && options_.owner_lane->has_received();
}

// Returns true if no other worker passes on frames that this one must not ignore.
bool Worker::owner_ignores() const noexcept {
  return options_.owner_lane == nullptr || options_.owner_lane->owner_ignores();
}

// Returns true if answers are left to send, or may still come from members.
bool Worker::has_answers() const noexcept {
  return transmit_.size() + tx_.pending() > 0 || (spreader_ && !spreader_->have_ended());
}

}  // namespace itif::pipeline
