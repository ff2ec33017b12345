// Joins the pieces of requests. Pieces stay in their mbufs; nothing is copied.
//
// Owned by one worker. Contexts, piece tables, index and timers are allocated only at construction.
// Contexts, held buffer bytes and piece tables are bounded, in total and per tenant. A tenant may
// take of each at most as much as is still free (base/share.h), so no tenant can lock the others
// out. Verification (tag, tenant, quota) comes before start(): an unverified datagram never takes a
// context.
//
// A context is kAssembling from start() until its last piece arrives, then kExecuting (lent to the
// executor as request::Request) until release(). ResponseCache keeps the answers of finished
// requests.
//
// The context owns an mbuf from Outcome::held() until release_pieces() or release(), which put all
// its mbufs on the DeathRow. With any other outcome the caller keeps the mbuf.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/huge_vector.h"
#include "base/timer_wheel.h"
#include "net/address.h"
#include "net/death_row.h"
#include "net/drop_reason.h"
#include "net/key_index.h"
#include "net/message_key.h"
#include "net/piece_arena.h"
#include "request/request.h"
#include "wire/datagram.h"

namespace itif::telemetry {
class VersionCounts;
}

namespace itif::net {

struct ReassemblyLimits {
  uint32_t max_contexts = 16384;
  // Counts whole packet buffers, not payload: a 64-byte piece holds 2 KiB. Keep it well below the
  // pool's size; otherwise a flood of incomplete requests starves the receive queues.
  uint64_t max_held_bytes = 256u << 20;
  uint32_t tenant_max_contexts = 4096;
  uint64_t tenant_max_held_bytes = 128u << 20;
  uint32_t max_tenants = 4096;              // tenant_index is below this
  uint32_t max_pieces_per_request = 16384;  // 16 MiB in pieces of 1,368 bytes (the default): 12,265
  // For piece tables of requests with more than Context::kInlinePieces pieces; 24 bytes per slot.
  uint32_t piece_slots = 262144;
  // Reports kTimeout after this time without a piece, and after kMostTimeouts times that time since
  // the first piece, however many still arrive.
  uint64_t timeout_ns = 500'000'000;
  static constexpr uint64_t kMostTimeouts = 10;
  // Reports kStalled after this time without a piece, then after every twice that time until a
  // piece arrives; 0: never.
  uint64_t stall_ns = 0;
};

enum class ContextState : uint8_t { kFree, kAssembling, kExecuting };

struct alignas(64) Context {
  static constexpr uint32_t kInlinePieces = 4;

  request::Request request;  // must be the first member: see of()

  // Adding a further piece reads and writes only these two cache lines, the first one of the
  // request, and the piece's place in the table of pieces.
  alignas(64) uint32_t num_pieces = 0;
  uint32_t num_arrived = 0;
  uint32_t budget_us = 0;
  uint16_t fragment_bytes = 0;
  uint16_t key_epoch = 0;               // of the first piece; replies use the same
  wire::Auth auth = wire::Auth::kNone;  // of the first piece; replies use the same
  ContextState state = ContextState::kFree;
  bool has_timer = false;   // private to Reassembler
  uint64_t held_bytes = 0;  // of packet buffers
  uint64_t last_piece_ns = 0;
  uint64_t inline_arrived = 0;               // private to Reassembler
  uint32_t arena_first = PieceArena::kNone;  // private to Reassembler
  // The sender of the newest piece that was not a duplicate: follows a client whose address changes
  // mid-request, but not a replayed datagram.
  alignas(64) Endpoint peer;

  wire::Key key_bytes{};  // set by the pipeline; signs replies even after the tenant is removed
  uint32_t model_version = 0;  // set by the pipeline; of the model that answers
  telemetry::VersionCounts* version_counts = nullptr;  // set by the pipeline; null: not counted
  uint32_t key_hash = 0;

  // Private to Reassembler.
  uint64_t next_stall_ns = 0;
  uint64_t stalled_ns = 0;  // the last kStalled; 0: none yet
  uint64_t stall_gap_ns = 0;
  uint32_t next_free = 0;
  rte_mbuf* inline_mbufs[kInlinePieces];
  request::Piece inline_pieces[kInlinePieces];

  HashedKey key() const noexcept {
    return {{request.tenant_id, request.session, request.request_id}, key_hash};
  }
  // REQUIRES: `request` came from a Context.
  static Context& of(request::Request& request) noexcept {
    return reinterpret_cast<Context&>(request);
  }
};

// One verified piece of a request.
struct Arrival {
  HashedKey key;  // of the header
  const wire::Header* header = nullptr;
  std::span<const std::byte> payload;  // inside mbuf
  rte_mbuf* mbuf = nullptr;
  const Endpoint* peer = nullptr;
  uint64_t now_ns = 0;
};

// The pipeline's decisions on admitting a request.
struct Admission {
  uint32_t tenant_index = 0;
  uint32_t slot = 0;
  uint16_t group = 0;
  uint16_t worker = 0;
  tenant::InFlight* in_flight = nullptr;  // copied to the request; counted by the pipeline
  uint64_t deadline_ns = 0;               // 0: none
};

class Reassembler {
 public:
  explicit Reassembler(const ReassemblyLimits& limits);
  Reassembler(const Reassembler&) = delete;
  Reassembler& operator=(const Reassembler&) = delete;
  ~Reassembler();  // frees what is still held

  // Begins to load the memory that find() will read.
  [[gnu::always_inline]] void prefetch(const HashedKey& key) const noexcept {
    index_.prefetch(key.hash);
  }
  // Begins to load the memory of the request that add() will use. Returns false if there is no such
  // request. Call it some time after prefetch().
  bool prefetch_context(const HashedKey& key) const noexcept;
  // Returns nullptr if there is no such request.
  Context* find(const HashedKey& key) noexcept;

  struct Added {
    Outcome outcome;
    Context* context = nullptr;  // nullptr if start() failed
    bool whole = false;          // this piece completed context->request, which may be lent out
  };
  // Starts a request with its first piece to arrive. REQUIRES: find() returned nullptr.
  // Drops: kContextsFull, kTenantContextsFull, kHeldBytesFull, kTenantHeldBytesFull, kPiecesFull,
  // kTenantPiecesFull, kTooManyPieces, kWireBadGeometry.
  Added start(const Arrival& arrival, const Admission& admission) noexcept;
  // Adds a further piece. Drops: kGeometryChanged, kDuplicate, kLate (the request is executing),
  // kHeldBytesFull, kTenantHeldBytesFull.
  Added add(Context& context, const Arrival& arrival) noexcept;

  static constexpr unsigned kTickShift = 18;
  static constexpr uint64_t kTickNs = uint64_t{1} << kTickShift;

  struct Due {
    enum Why : uint8_t { kTimeout, kDeadline, kStalled };
    Context* context = nullptr;
    Why why = kTimeout;
  };
  // Writes contexts whose timer has expired, at most due.size(); returns their number. Call it
  // again if it filled `due`. Up to one timer tick (kTickNs) late.
  //
  // If the context is still assembling, the caller answers and releases kTimeout and kDeadline;
  // kStalled is a hint to send a resend datagram. An executing context is reported once, as
  // kDeadline, and is still lent.
  size_t sweep(uint64_t now_ns, std::span<Due> due) noexcept;

  // Writes the byte ranges of missing pieces, ascending, as many as fit; returns their number.
  size_t missing_ranges(Context& context, std::span<wire::Range> out) noexcept;

  // Puts the request's mbufs on the death row and frees its piece table; the request continues.
  // Returns the number of mbufs; 0 on a second call. REQUIRES: the context is kExecuting, and
  // nobody reads request.pieces any more.
  uint32_t release_pieces(Context& context) noexcept;
  // Frees the context and everything that it holds. Returns the number of mbufs.
  // REQUIRES: nobody else uses context.request any more.
  uint32_t release(Context& context) noexcept;

  // Frees the mbufs on the death row. Call it once per poll.
  void flush() noexcept { death_row_.flush(); }

  uint32_t num_contexts() const noexcept { return index_.size(); }
  uint64_t held_bytes() const noexcept { return held_bytes_; }
  uint64_t held_pieces() const noexcept { return held_pieces_; }
  // Payloads that were not 4-byte aligned on arrival and were moved within their mbuf.
  uint64_t realigned() const noexcept { return realigned_; }
  uint32_t tenant_contexts(uint32_t tenant_index) const noexcept;
  uint64_t tenant_held_bytes(uint32_t tenant_index) const noexcept;
  uint64_t tenant_held_pieces(uint32_t tenant_index) const noexcept;

  // Calls visit(Context&) for every live context (draining, device failure). visit may release it.
  template <class Visit>
  void for_each(Visit&& visit) {
    for (uint32_t i = 0; i < limits_.max_contexts; ++i)
      if (contexts_[i].state != ContextState::kFree) visit(contexts_[i]);
  }

 private:
  struct TenantUse {
    uint64_t held_bytes = 0;
    uint32_t contexts = 0;
    uint32_t held_pieces = 0;
    uint32_t piece_slots = 0;
  };
  struct Table {  // a context's piece table, inline or in the arena
    request::Piece* pieces;
    rte_mbuf** mbufs;
    uint64_t* arrived;
  };

  Table table(Context& context) noexcept;
  uint32_t free_pieces(Context& context) noexcept;
  DropReason charge_refusal(uint32_t tenant_index, uint64_t bytes) const noexcept;
  // Inline, because every piece and request runs them, and both callers are long.
  [[gnu::always_inline]] void hold(Context& context, const Arrival& arrival) noexcept;
  [[gnu::always_inline]] void become_whole(Context& context, uint64_t now_ns) noexcept;
  uint64_t timeout_at(const Context& context) const noexcept;
  void schedule(Context& context) noexcept;
  void set_timer(Context& context, uint64_t expiry_ns) noexcept;
  void cancel_timer(Context& context) noexcept;
  uint32_t slot_of(const HashedKey& key) const noexcept;  // KeyIndex::kAbsent: none
  uint32_t slot_of(const Context& context) const noexcept {
    return static_cast<uint32_t>(&context - contexts_.data());
  }

  ReassemblyLimits limits_;
  HugeVector<Context> contexts_;
  uint32_t first_free_;
  KeyIndex index_;
  PieceArena arena_;
  TimerWheel timers_;
  DeathRow death_row_;
  HugeVector<TenantUse> tenants_;
  uint64_t held_bytes_ = 0;
  uint64_t held_pieces_ = 0;
  uint64_t realigned_ = 0;
};

}  // namespace itif::net
