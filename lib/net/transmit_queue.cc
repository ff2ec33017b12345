#include "net/transmit_queue.h"

#include <algorithm>

#include "base/share.h"

namespace itif::net {

TransmitQueue::TransmitQueue(uint32_t max_jobs, uint32_t max_tenants, ResponseCache& cache)
    : cache_(cache), jobs_(max_jobs), lanes_(max_tenants), first_free_(max_jobs == 0 ? kNil : 0) {
  for (uint32_t i = 0; i + 1 < max_jobs; ++i) jobs_[i].next = i + 1;
}

TransmitQueue::~TransmitQueue() {
  for (Lane& lane : lanes_)
    for (uint32_t slot = lane.head; slot != kNil; slot = jobs_[slot].next)
      cache_.unpin(*jobs_[slot].job.entry);
}

void TransmitQueue::append(Lane& lane, uint32_t slot) noexcept {
  jobs_[slot].next = kNil;
  (lane.tail == kNil ? lane.head : jobs_[lane.tail].next) = slot;
  lane.tail = slot;
}

void TransmitQueue::append_lane(uint32_t tenant) noexcept {
  lanes_[tenant].next = kNil;
  (last_lane_ == kNil ? first_lane_ : lanes_[last_lane_].next) = tenant;
  last_lane_ = tenant;
}

bool TransmitQueue::push(const Job& job) noexcept {
  const uint32_t tenant = job.entry->tenant_index;
  Lane& lane = lanes_[tenant];
  if (!within_share(lane.jobs, 1, count_, jobs_.size())) {
    cache_.unpin(*job.entry);
    return false;
  }
  const uint32_t slot = first_free_;
  first_free_ = jobs_[slot].next;
  jobs_[slot].job = job;
  append(lane, slot);
  if (++lane.jobs == 1) append_lane(tenant);
  ++count_;
  return true;
}

size_t TransmitQueue::poll(TxBuffer& out, rte_mempool* pool, const TxOffloads& offloads) noexcept {
  std::array<rte_mbuf*, kQuantum> mbufs;
  size_t built = 0;
  while (count_ > 0 && out.room() > 0) {
    const uint32_t tenant = first_lane_;
    Lane& lane = lanes_[tenant];
    const uint32_t slot = lane.head;
    Job& job = jobs_[slot].job;
    const Message message{
        job.header, {job.entry->result.data, job.entry->result.bytes}, job.peer, job.key};
    const Transmitted sent = transmit(message, job.cursor, pool, offloads,
                                      std::span(mbufs).first(std::min(kQuantum, out.room())));
    for (size_t i = 0; i < sent.count; ++i) out.push(mbufs[i]);
    built += sent.count;

    lane.head = jobs_[slot].next;
    if (lane.head == kNil) lane.tail = kNil;
    if (job.cursor.done()) {
      cache_.unpin(*job.entry);
      jobs_[slot].next = first_free_;
      first_free_ = slot;
      --lane.jobs;
      --count_;
    } else {
      append(lane, slot);
    }
    first_lane_ = lane.next;
    if (first_lane_ == kNil) last_lane_ = kNil;
    if (lane.jobs > 0) append_lane(tenant);
    if (sent.no_mbuf) {
      ++no_mbuf_;
      break;
    }
  }
  return built;
}

}  // namespace itif::net
