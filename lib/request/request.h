// A request on its way through the appliance, and who owns its parts.
//
// Ownership: the worker that reassembled a request owns the Request and the mbufs that its pieces
// point into. It lends both to the group's executor through one ring and gets them back through
// another. The mbufs and `pieces` come back as soon as they have been read, if that is long before
// the request ends; the Request comes back with a result or a status. Until then only the executor
// touches what it was lent. Only that worker frees an mbuf or a Request, once each, on every path.
//
// A request has one outcome. The group writes it if it takes the request (take()), to run or refuse
// it. Until then the worker may let the request expire at its deadline (expire()), and then answers
// it. An expired request stays lent until the group finds it among its waiting requests and gives
// it back without an outcome.
//
// Plain data: no DPDK, no device. `pieces` point into packet buffers; nothing has been copied.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/byte_piece.h"
#include "tenant/lease.h"
#include "tenant/settings.h"
#include "wire/header.h"

namespace itif::request {

// One datagram's share of the payload. Pieces are ordered by offset, cover the payload without gap
// or overlap, and start 4-byte aligned in memory.
using Piece = BytePiece;

// The bytes of a result. Allocated by the executor, freed (std::free) by the worker when the
// response has been sent and is no longer cached.
struct ResultBuffer {
  std::byte* data = nullptr;
  uint32_t bytes = 0;
};

// The writer of a request's outcome.
enum class Claim : uint8_t {
  kNone,     // nobody yet: the request waits
  kGroup,    // the executor
  kExpired,  // the worker, because the deadline passed first
};

struct Request {
  // From the wire.
  uint32_t tenant_id = 0;
  uint32_t session = 0;
  uint64_t request_id = 0;
  wire::PayloadKind payload_kind = wire::PayloadKind::kNone;
  wire::ResultKind result_kind = wire::ResultKind::kDefault;
  uint16_t flags = 0;
  uint32_t payload_bytes = 0;
  std::span<const Piece> pieces;

  // From the tenant's snapshot at arrival.
  uint32_t tenant_index = 0;  // dense: indexes per-tenant counters
  uint32_t slot = 0;          // of the tenant's weights in its group's slabs
  uint16_t group = 0;
  tenant::Settings settings;
  tenant::InFlight* in_flight = nullptr;  // keeps the slot alive; the worker ends it

  // Times by the pipeline's Clock. 0: not reached, or not stamped; verified_ns, free_ns, planned_ns
  // and launched_ns are stamped with telemetry.stages only. deadline_ns 0: none.
  uint64_t arrival_ns = 0;   // of the first piece: the start of the worker's poll
  uint64_t complete_ns = 0;  // of the last, likewise
  uint64_t deadline_ns = 0;
  uint64_t verified_ns = 0;  // the last piece is verified, and the request lent to its group
  // The group's thread has ended the batch that it computed when the request was lent. 0: it
  // computed none, or batches compute beside it.
  uint64_t free_ns = 0;
  uint64_t queued_ns = 0;    // checked, prepared (text: tokens), in the group's queue
  uint64_t chosen_ns = 0;    // start of its batch
  uint64_t planned_ns = 0;   // the batch is laid out
  uint64_t launched_ns = 0;  // its pass begins on the device
  uint64_t done_ns = 0;      // computed, or refused

  // The outcome, written by the owner of the claim.
  wire::StatusCode status = wire::StatusCode::kOk;
  wire::ResultKind result_kind_out = wire::ResultKind::kDefault;
  ResultBuffer result;          // status kOk
  uint32_t result_rows = 0;     // the result's first dimension
  const char* detail = "";      // status other than kOk: a literal, one sentence
  uint32_t retry_after_us = 0;  // kOverloaded

  // Set by take() and expire(), never directly.
  alignas(std::atomic_ref<Claim>::required_alignment) Claim claim = Claim::kNone;

  // Only the current owner of the request reads or writes these.
  uint32_t num_tokens = 0;  // set by the executor when the request enters its queue
  Request* next = nullptr;  // links of the queue that holds it
  Request* previous = nullptr;
  uint32_t waiting_node = 0;       // of the batch policy's index (sched/waiting_index.h)
  uint32_t deadline_position = 0;  // in the queue's heap of deadlines (sched/deadline_heap.h)
  uint32_t row = 0;                // of its batch, set by policies that fill rows
  uint32_t row_slot = 0;           // of its batch, over all rows, set by policies that fill slots
  uint32_t prepared = 0;           // handle of the executor's prepared input (text, image); 0: none
  uint16_t worker = 0;
};

// Claims a request's outcome for the group. Returns false if the request has expired. May be
// repeated. The group's thread.
inline bool take(Request& request) noexcept {
  if (request.deadline_ns == 0) return true;  // it cannot expire
  Claim claim = Claim::kNone;
  return std::atomic_ref(request.claim)
             .compare_exchange_strong(claim, Claim::kGroup, std::memory_order_acq_rel) ||
         claim == Claim::kGroup;
}
// Claims a request's outcome for its worker. Returns false if the group has taken it.
inline bool expire(Request& request) noexcept {
  Claim claim = Claim::kNone;
  return std::atomic_ref(request.claim)
      .compare_exchange_strong(claim, Claim::kExpired, std::memory_order_acq_rel);
}
inline bool has_expired(Request& request) noexcept {
  return std::atomic_ref(request.claim).load(std::memory_order_acquire) == Claim::kExpired;
}

}  // namespace itif::request
