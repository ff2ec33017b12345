#include "net/transmit_queue.h"

#include <algorithm>

#include "base/share.h"

namespace itif::net {

TransmitQueue::TransmitQueue(uint32_t max_jobs, uint32_t max_tenants, ResponseCache& cache)
    : cache_(cache), jobs_(max_jobs), tenants_(max_tenants), first_free_(max_jobs == 0 ? kNil : 0) {
  for (uint32_t i = 0; i + 1 < max_jobs; ++i) jobs_[i].next = i + 1;
  ended_.reserve(TxBuffer::kCapacity);  // each takes a datagram's room
}

TransmitQueue::~TransmitQueue() {
  for (TenantJobs& queue : tenants_)
    for (uint32_t slot = queue.head; slot != kNil; slot = jobs_[slot].next)
      cache_.unpin(*jobs_[slot].job.entry);
}

void TransmitQueue::append(TenantJobs& queue, uint32_t slot) noexcept {
  jobs_[slot].next = kNil;
  (queue.tail == kNil ? queue.head : jobs_[queue.tail].next) = slot;
  queue.tail = slot;
}

void TransmitQueue::append_tenant(uint32_t tenant) noexcept {
  tenants_[tenant].next = kNil;
  (last_tenant_ == kNil ? first_tenant_ : tenants_[last_tenant_].next) = tenant;
  last_tenant_ = tenant;
}

TransmitQueue::Job* TransmitQueue::push(CachedResponse& entry) noexcept {
  const uint32_t tenant = entry.tenant_index;
  TenantJobs& queue = tenants_[tenant];
  if (!within_share(queue.jobs, 1, count_, jobs_.size())) {
    cache_.unpin(entry);
    return nullptr;
  }
  const uint32_t slot = first_free_;
  first_free_ = jobs_[slot].next;
  Job& job = jobs_[slot].job;
  job.entry = &entry;
  job.times = {};
  job.num_tokens = 0;
  append(queue, slot);
  if (++queue.jobs == 1) append_tenant(tenant);
  ++count_;
  return &job;
}

size_t TransmitQueue::poll(TxBuffer& out, rte_mempool* pool, const TxOffloads& offloads,
                           uint64_t now_ns, uint64_t& next_sequence) noexcept {
  std::array<rte_mbuf*, kQuantum> mbufs;
  ended_.clear();
  size_t built = 0;
  while (count_ > 0 && out.room() > 0) {
    const uint32_t tenant = first_tenant_;
    TenantJobs& queue = tenants_[tenant];
    const uint32_t slot = queue.head;
    Job& job = jobs_[slot].job;
    const Message message{
        job.header, {job.entry->result.data, job.entry->result.bytes}, job.peer, job.key};
    const Transmitted sent = transmit(message, job.cursor, next_sequence, pool, offloads,
                                      std::span(mbufs).first(std::min(kQuantum, out.room())));
    for (size_t i = 0; i < sent.count; ++i) out.push(mbufs[i]);
    built += sent.count;
    if (job.times.first_out_ns == 0 && sent.count > 0) job.times.first_out_ns = now_ns;

    queue.head = jobs_[slot].next;
    if (queue.head == kNil) queue.tail = kNil;
    if (job.cursor.done()) {
      if (job.times.arrival_ns != 0) ended_.push_back({.tenant_index = tenant, .job = &job});
      cache_.unpin(*job.entry);
      job.key = {};
      jobs_[slot].next = first_free_;
      first_free_ = slot;
      --queue.jobs;
      --count_;
    } else {
      append(queue, slot);
    }
    first_tenant_ = queue.next;
    if (first_tenant_ == kNil) last_tenant_ = kNil;
    if (queue.jobs > 0) append_tenant(tenant);
    if (sent.no_mbuf) {
      ++no_mbuf_;
      break;
    }
  }
  return built;
}

}  // namespace itif::net
