// Counters of the data plane: one writer each, any number of readers, no locks, no shared writes.
//
// A worker owns its WorkerCounters; a group's executor owns its ExecutorCounters. The owner adds
// with a relaxed load and store (an ordinary increment on x86, no lock prefix). Other threads may
// read at any time and see a recent value of each counter. Events between two reads can make two
// counters disagree; sums are exact while the owner is idle.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/huge_vector.h"

namespace itif::telemetry {

constexpr size_t kMaxTenants = 4096;  // = tenant::kMaxTenants, which is in another layer
constexpr size_t kCacheLineBytes = 64;
constexpr size_t kMaxStatusCodes = 24;  // room for wire::StatusCode
constexpr size_t kMaxDropReasons = 96;  // room for net::DropReason, which is in another layer

// A monotonic count. Owner: add(); any thread: read().
class Counter {
 public:
  void add(uint64_t n = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// A value that goes up and down. Owner: set(); any thread: read().
class Gauge {
 public:
  void set(uint64_t value) noexcept { value_.store(value, std::memory_order_relaxed); }
  uint64_t read() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// Counts of one worker's datagrams. Invariant, exact while the worker is idle:
//   received = forwarded + held + Σ dropped
// Here `dropped` includes repeats. Readers show them apart (net::DropClass).
// `held`: datagrams whose mbufs are in reassembly or with an executor.
struct alignas(kCacheLineBytes) WorkerCounters {
  // Datagrams (frames) taken from the port, or from the worker that owns the port's queue. The
  // owner counts only those that it handles itself.
  Counter received;
  Counter received_bytes;
  Counter passed;  // frames passed on to workers that share the queue
  // Datagrams that took effect: pieces of requests after they are read, answered ARP requests, ….
  Counter forwarded;
  Gauge held;        // datagrams held by requests in progress
  Gauge contexts;    // requests in progress
  Gauge held_bytes;  // of packet buffers
  Counter sent;      // datagrams given to the port
  Counter sent_bytes;
  // Frames dropped after the port, or the worker that owns the queue, refused them for too long.
  Counter send_dropped;
  Counter send_no_mbuf;      // answers dropped for lack of a packet buffer
  Counter transmit_refused;  // results refused because the transmit queue or the cache was full
  Counter requests;          // requests completed and handed to an executor
  Counter responses;         // requests that ended with a result
  Counter statuses;          // requests that ended with a status
  Counter cache_hits;        // repeated requests answered from the response cache
  Counter polls;             // iterations of the loop
  Counter busy_ns;           // time of the iterations that found work
  Counter idle_polls;        // iterations that found no work
  alignas(kCacheLineBytes) std::array<Counter, kMaxDropReasons> dropped;  // by net::DropReason

  // Datagrams that were not used: dropped ones and repeats.
  uint64_t total_unused() const noexcept {
    uint64_t sum = 0;
    for (const Counter& counter : dropped) sum += counter.read();
    return sum;
  }
};

// One tenant's part of a worker's counts. Counts datagrams whose header is well-formed and names
// the tenant, authenticated or not. The same invariant holds:
//   received = forwarded + held + Σ dropped
struct alignas(kCacheLineBytes) TenantCounters {
  Counter received;
  Counter forwarded;
  Gauge held;
  std::array<Counter, kMaxDropReasons> dropped;  // by net::DropReason
  Counter requests;                              // requests accepted: complete and queued
  Counter responses;                             // accepted requests that ended with a result
  // Requests that ended with a status, accepted or not, by wire::StatusCode.
  std::array<Counter, kMaxStatusCodes> statuses;
  Counter deadline_missed;  // requests that ended with a deadline status
  Counter slo_missed;       // requests answered later than the tenant's objective
  Counter tokens;           // tokens computed
  Counter latency_ns;       // of answered requests: first piece → response queued to be sent
};

// The per-tenant counters of one worker, indexed by Tenant::index. All 4 MiB are allocated at
// start-up, since the data plane never allocates.
class TenantCounterTable {
 public:
  TenantCounterTable() : rows_(kMaxTenants) {}
  // REQUIRES: index < kMaxTenants.
  TenantCounters& operator[](size_t index) noexcept { return rows_[index]; }
  const TenantCounters& operator[](size_t index) const noexcept { return rows_[index]; }

 private:
  HugeVector<TenantCounters> rows_;
};

// Counts of one group's executor.
struct alignas(kCacheLineBytes) ExecutorCounters {
  Counter batches;
  Counter requests;        // in batches
  Counter tokens;          // in batches
  Counter rows;            // computed in batches: tokens and padding
  Counter tenants;         // Σ distinct tenants of each batch; / batches: mean tenants per batch
  Counter refused;         // requests that the executor ended with a status
  Counter answered;        // requests that ended with a result
  Counter latency_ns;      // Σ over these, from the last piece of the request to its result
  Counter with_objective;  // of the answered, those of tenants with a latency objective
  // Σ over these of latency / objective, in millionths, at most kMaxLatencyPpm each, and its square
  // (in square millionths).
  Counter latency_ppm;
  Counter latency_ppm_squared;
  static constexpr uint64_t kMaxLatencyPpm = 2'000'000;  // so that no outlier decides
  Counter execute_ns;      // Σ over these, from the start of the batch to its end
  Counter busy_ns;         // time in batches; the device's own measurement if it has one
  Counter turn_wait_ns;    // part of busy_ns in which batches waited for the device's other groups
  Counter tokens_squared;  // Σ over batches, as the next two; their time is that of busy_ns
  Counter tokens_us;       // tokens times time
  Counter us_squared;      // time squared
  Counter intake_ns;       // time of the group's thread in taking requests in
  Gauge share_ask;         // slice::Ask: what batch control asks of the group's share
  Counter asks_for_more;   // batches after which it asked for a larger share
  Gauge queued;            // requests waiting
  Gauge running_since_ns;  // when the oldest running batch began; 0: none runs
  Gauge busy_until_ns;     // when the running batches are expected to end; 0: none runs
  Gauge backlog_ns;        // expected time to serve the waiting requests; 0: unknown
  Gauge last_batch_requests;
  Gauge last_batch_tokens;
  Gauge kv_blocks;           // of the K/V cache; 0: the group does not generate
  Gauge kv_blocks_used;      // blocks in sequences' tables
  Gauge kv_blocks_reserved;  // most blocks that these sequences may need
  Gauge graphs;              // CUDA graphs that the group's stream keeps
  Gauge graph_launches;      // launches of CUDA graphs so far
  Gauge graph_failures;      // captures of CUDA graphs that failed so far
  Gauge refused_gemms;       // kinds of GEMM calls that the device's library refused so far
  Counter device_errors;
};

}  // namespace itif::telemetry
