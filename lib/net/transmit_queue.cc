#include "net/transmit_queue.h"

#include <algorithm>

#include "base/share.h"

namespace itif::net {

TransmitQueue::TransmitQueue(uint32_t max_jobs, uint32_t max_tenants, ResponseCache& cache)
    : cache_(cache), jobs_(max_jobs), order_(max_jobs), free_(max_jobs), tenant_jobs_(max_tenants) {
  for (uint32_t i = 0; i < max_jobs; ++i) free_[i] = i;
}

TransmitQueue::~TransmitQueue() {
  for (; count_ > 0; --count_, head_ = (head_ + 1) % order_.size())
    cache_.unpin(*jobs_[order_[head_]].entry);
}

bool TransmitQueue::push(const Job& job) noexcept {
  uint32_t& own = tenant_jobs_[job.entry->tenant_index];
  if (!within_share(own, 1, count_, jobs_.size())) {
    cache_.unpin(*job.entry);
    return false;
  }
  ++own;
  const uint32_t slot = free_[count_];
  jobs_[slot] = job;
  order_[(head_ + count_++) % order_.size()] = slot;
  return true;
}

size_t TransmitQueue::poll(TxBuffer& out, rte_mempool* pool, const TxOffloads& offloads) noexcept {
  std::array<rte_mbuf*, kQuantum> mbufs;
  size_t built = 0;
  while (count_ > 0 && out.room() > 0) {
    const uint32_t slot = order_[head_];
    Job& job = jobs_[slot];
    const Message message{
        job.header, {job.entry->result.data, job.entry->result.bytes}, job.peer, job.key};
    const Transmitted sent = transmit(message, job.cursor, pool, offloads,
                                      std::span(mbufs).first(std::min(kQuantum, out.room())));
    for (size_t i = 0; i < sent.count; ++i) out.push(mbufs[i]);
    built += sent.count;
    head_ = (head_ + 1) % order_.size();
    if (job.cursor.done()) {
      --tenant_jobs_[job.entry->tenant_index];
      cache_.unpin(*job.entry);
      free_[--count_] = slot;
    } else {  // to the back of the row
      order_[(head_ + count_ - 1) % order_.size()] = slot;
    }
    if (sent.no_mbuf) {
      ++no_mbuf_;
      break;
    }
  }
  return built;
}

}  // namespace itif::net
