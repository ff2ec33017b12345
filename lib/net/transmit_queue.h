// The responses that a worker is sending. Round-robin over tenants and over each tenant's
// responses, kQuantum datagrams at a time. A short answer thus does not wait for a long one, and a
// tenant does not wait for the many answers of another.
//
// Owned by one worker; jobs are allocated at construction. A job pins its cache entry. A tenant may
// have as many jobs as are still free (base/share.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/huge_vector.h"
#include "net/response_cache.h"
#include "net/transmit.h"
#include "net/tx_buffer.h"
#include "request/times.h"

namespace itif::net {

class TransmitQueue {
 public:
  static constexpr size_t kQuantum = 8;  // datagrams per job and round

  // REQUIRES: the tenant_index of every entry is below max_tenants.
  TransmitQueue(uint32_t max_jobs, uint32_t max_tenants, ResponseCache& cache);
  TransmitQueue(const TransmitQueue&) = delete;
  TransmitQueue& operator=(const TransmitQueue&) = delete;
  ~TransmitQueue();  // unpins what is left

  // The part of `entry` that `cursor` covers, on its way to `peer`.
  struct Job {
    CachedResponse* entry = nullptr;
    wire::Header header;  // entry.header with the peer's auth and key epoch
    Endpoint peer;
    wire::Key key{};
    Cursor cursor;
    // Set if this transmission is to be reported in ended(): of the request that it answers.
    // arrival_ns 0: not set.
    request::Times times = {};
    uint32_t num_tokens = 0;  // of that request
  };
  // Queues a job, whose header, peer, key and cursor the caller sets before the next poll(). Takes
  // over one pin of the entry, also on failure. Returns nullptr if the queue, or the tenant's share
  // of it, is full (DropReason::kTransmitQueueFull).
  Job* push(CachedResponse& entry) noexcept;

  // Builds datagrams into `out` while it has room; returns their number. The caller flushes.
  // `now_ns`: becomes first_out_ns of the jobs that begin.
  // `next_sequence`: of the next datagram; counts up.
  size_t poll(TxBuffer& out, rte_mempool* pool, const TxOffloads& offloads, uint64_t now_ns,
              uint64_t& next_sequence) noexcept;

  // A job with times whose last datagram the last poll() has built.
  struct Ended {
    uint32_t tenant_index = 0;
    Job* job = nullptr;  // its entry is no longer pinned, key and last_out_ns are not set
  };
  // Valid until the next push() or poll().
  std::span<const Ended> ended() const noexcept { return ended_; }

  size_t size() const noexcept { return count_; }
  // Polls that stopped because the pool was empty.
  uint64_t no_mbuf() const noexcept { return no_mbuf_; }

 private:
  static constexpr uint32_t kNil = UINT32_MAX;
  struct Queued {
    Job job;
    uint32_t next = kNil;
  };
  // A tenant's jobs in service order. `next`: the tenant to serve after this one.
  struct TenantJobs {
    uint32_t head = kNil;
    uint32_t tail = kNil;
    uint32_t jobs = 0;
    uint32_t next = kNil;
  };
  void append(TenantJobs& queue, uint32_t slot) noexcept;
  void append_tenant(uint32_t tenant) noexcept;

  ResponseCache& cache_;
  HugeVector<Queued> jobs_;
  std::vector<Ended> ended_;
  HugeVector<TenantJobs> tenants_;  // by tenant index
  uint32_t first_free_ = kNil;
  uint32_t first_tenant_ = kNil;
  uint32_t last_tenant_ = kNil;
  size_t count_ = 0;
  uint64_t no_mbuf_ = 0;
};

}  // namespace itif::net
