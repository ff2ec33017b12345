// Counters of the data plane: one writer each, any number of readers, no locks, no shared writes.
//
// A worker owns its WorkerCounters; a group's executor owns its ExecutorCounters. The owner adds
// with a relaxed load and store (an ordinary increment on x86, no lock prefix); others read at any
// time and see a recent value of each counter. Two counters read together may be apart by what
// happened between the reads; sums are exact once the owner rests.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace itif::telemetry {

constexpr size_t kMaxTenants = 4096;  // = tenant::kMaxTenants, which lies in another layer
constexpr size_t kCacheLineBytes = 64;
constexpr size_t kMaxStatusCodes = 24;  // room for wire::StatusCode
constexpr size_t kMaxDropReasons = 96;  // room for net::DropReason, which lies in another layer

// A monotonic count. Owner: add(); anyone: read().
class Counter {
 public:
  void add(uint64_t n = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// A level that goes up and down. Owner: set(); anyone: read().
class Gauge {
 public:
  void set(uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// What one worker counted of the datagrams it received. Invariant, exact whenever the worker rests:
//   received = forwarded + held + Σ dropped
// where `held` are datagrams whose mbufs wait in reassembly or with an executor right now.
struct alignas(kCacheLineBytes) WorkerCounters {
  Counter received;  // datagrams (frames) taken from the port
  Counter received_bytes;
  Counter
      forwarded;   // consumed with effect: a request's pieces once they are read, answered ARP, …
  Gauge held;      // datagrams held by requests in progress
  Gauge contexts;  // requests in progress
  Gauge held_bytes;  // of packet buffers
  Counter sent;      // datagrams given to the port
  Counter sent_bytes;
  Counter send_dropped;      // frames that the port refused for too long
  Counter send_no_mbuf;      // answers that found no packet buffer
  Counter transmit_refused;  // results that found no room to wait for transmission
  Counter requests;          // complete and handed to an executor
  Counter responses;         // requests that ended with a result
  Counter statuses;          // requests that ended with a status
  Counter cache_hits;        // answered again from the response cache
  Counter polls;             // turns of the loop
  Counter idle_polls;        // of which found nothing
  alignas(kCacheLineBytes) std::array<Counter, kMaxDropReasons> dropped;  // by net::DropReason

  uint64_t total_dropped() const noexcept {
    uint64_t sum = 0;
    for (const Counter& counter : dropped) sum += counter.read();
    return sum;
  }
};

// One tenant's share of a worker's counts. Of datagrams, those whose header is well-formed and names
// the tenant, whether or not they could prove it; the same invariant holds:
//   received = forwarded + held + Σ dropped
struct alignas(kCacheLineBytes) TenantCounters {
  Counter received;
  Counter forwarded;
  Gauge held;
  std::array<Counter, kMaxDropReasons> dropped;  // by net::DropReason
  Counter requests;                              // accepted: complete and queued
  Counter responses;                             // of those, ended with a result
  // Ended with a status, accepted or not, by wire::StatusCode.
  std::array<Counter, kMaxStatusCodes> statuses;
  Counter deadline_missed;  // ended with a status that says so
  Counter slo_missed;       // answered, and later than the tenant's objective
  Counter tokens;           // run
};

// The per-tenant counters of one worker, indexed by Tenant::index. Allocated once at start-up, in
// whole (4 MiB): the data plane never allocates.
class TenantCounterTable {
 public:
  TenantCounterTable() : rows_(std::make_unique<TenantCounters[]>(kMaxTenants)) {}
  // REQUIRES: index < kMaxTenants.
  TenantCounters& operator[](size_t index) noexcept { return rows_[index]; }
  const TenantCounters& operator[](size_t index) const noexcept { return rows_[index]; }

 private:
  std::unique_ptr<TenantCounters[]> rows_;
};

// What one group's executor counted.
struct alignas(kCacheLineBytes) ExecutorCounters {
  Counter batches;
  Counter requests;  // run in them
  Counter tokens;
  Counter rows;     // computed for them: tokens and padding
  Counter tenants;  // Σ distinct tenants of a batch: / batches is the mix
  Counter refused;  // ended by the executor with a status
  Counter busy_ns;  // in a batch, by the device's own time where it says it
  Gauge queued;     // requests waiting
  Gauge last_batch_requests;
  Gauge last_batch_tokens;
  Gauge kv_blocks_used;      // of a group that generates: in sequences' tables, now
  Gauge kv_blocks_reserved;  // what they may need at most
  Gauge graphs;              // that the group's stream keeps
  Gauge graph_launches;      // of them, so far
  Counter device_errors;
};

}  // namespace itif::telemetry
