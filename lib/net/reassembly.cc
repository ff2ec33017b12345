#include "net/reassembly.h"

#include <rte_mbuf.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "base/share.h"

namespace itif::net {
namespace {

static_assert(std::is_standard_layout_v<Context>, "Context::of needs it");

// Flags that may differ between the pieces of one request.
constexpr uint16_t kVolatileFlags = wire::kFlagRetry;

// Begins to load what start() writes. Inline, because GCC 12 removes calls of functions that only
// prefetch.
[[gnu::always_inline]] inline void load_context(const Context& context) noexcept {
  constexpr size_t kCacheLineBytes = 64;
  const auto* at = reinterpret_cast<const std::byte*>(&context);
#pragma GCC unroll 16
  for (size_t i = 0; i < sizeof(Context); i += kCacheLineBytes) __builtin_prefetch(at + i, 1);
}

// Begins to load what add() needs of a context with one piece or more.
[[gnu::always_inline]] inline void load_for_piece(const Context& context) noexcept {
  __builtin_prefetch(&context, 1);
  __builtin_prefetch(&context.num_pieces, 1);
  __builtin_prefetch(&context.peer, 1);
  __builtin_prefetch(&context.inline_mbufs, 1);
  __builtin_prefetch(&context.inline_pieces[Context::kInlinePieces - 1], 1);
}

bool bit_set(const uint64_t* bits, uint32_t i) noexcept {
  return (bits[i / 64] >> (i % 64)) & 1;
}

bool same_geometry(const Context& context, const wire::Header& header) noexcept {
  return context.request.payload_bytes == header.total_bytes &&
         context.fragment_bytes == header.fragment_bytes &&
         context.request.payload_kind == header.payload_kind &&
         context.request.result_kind == header.result_kind && context.auth == header.auth &&
         context.key_epoch == header.key_epoch && context.budget_us == header.budget_us &&
         ((context.request.flags ^ header.flags) & ~kVolatileFlags) == 0;
}

// Returns the bytes of piece `i`; 0 for the only piece of an empty message.
uint32_t piece_bytes(const Context& context, uint32_t i) noexcept {
  const uint64_t offset = uint64_t{i} * context.fragment_bytes;
  const uint32_t total = context.request.payload_bytes;
  return static_cast<uint32_t>(std::min<uint64_t>(context.fragment_bytes, total - offset));
}

// The last check before the offset becomes an index: wire::parse has checked the datagram alone,
// and same_geometry has compared it with the request.
[[gnu::always_inline]] inline bool fits(const Context& context, const Arrival& arrival) noexcept {
  const uint32_t offset = arrival.header->offset;
  return offset % context.fragment_bytes == 0 &&
         offset / context.fragment_bytes < context.num_pieces &&
         arrival.payload.size() == piece_bytes(context, offset / context.fragment_bytes);
}

}  // namespace

Reassembler::Reassembler(const ReassemblyLimits& limits)
    : limits_(limits),
      contexts_(limits.max_contexts),
      first_free_(0),
      index_(limits.max_contexts),
      arena_(limits.piece_slots),
      timers_(limits.max_contexts, {.shift = kTickShift, .num_ticks = 4096}),
      tenants_(limits.max_tenants) {
  for (uint32_t i = 0; i < limits.max_contexts; ++i) contexts_[i].next_free = i + 1;
}

Reassembler::~Reassembler() {
  for_each([this](Context& context) { release(context); });
}

uint32_t Reassembler::slot_of(const HashedKey& key) const noexcept {
  return index_.find(key.hash, [&](uint32_t slot) { return contexts_[slot].key() == key; });
}

bool Reassembler::prefetch_context(const HashedKey& key) const noexcept {
  // The hash suffices here: to compare keys would wait for the memory that this begins to load.
  const uint32_t slot = index_.find(key.hash, [](uint32_t) { return true; });
  if (slot == KeyIndex::kAbsent) return false;
  load_for_piece(contexts_[slot]);
  return true;
}

Context* Reassembler::find(const HashedKey& key) noexcept {
  const uint32_t slot = slot_of(key);
  return slot == KeyIndex::kAbsent ? nullptr : &contexts_[slot];
}

Reassembler::Table Reassembler::table(Context& context) noexcept {
  if (context.arena_first == PieceArena::kNone)
    return {context.inline_pieces, context.inline_mbufs, &context.inline_arrived};
  return {arena_.pieces(context.arena_first), arena_.mbufs(context.arena_first),
          arena_.arrived(context.arena_first)};
}

DropReason Reassembler::charge_refusal(uint32_t tenant_index, uint64_t bytes) const noexcept {
  if (held_bytes_ + bytes > limits_.max_held_bytes) return DropReason::kHeldBytesFull;
  const uint64_t own = tenants_[tenant_index].held_bytes;
  if (own + bytes > limits_.tenant_max_held_bytes ||
      !within_share(own, bytes, held_bytes_, limits_.max_held_bytes))
    return DropReason::kTenantHeldBytesFull;
  return DropReason::kNone;
}

Reassembler::Added Reassembler::start(const Arrival& arrival, const Admission& admission) noexcept {
  const wire::Header& header = *arrival.header;
  const auto refuse = [](DropReason reason) { return Added{Outcome::dropped(reason)}; };
  CHECK(admission.tenant_index < tenants_.size());
  DCHECK(arrival.key.key == message_key(header) && find(arrival.key) == nullptr);
  if (header.fragment_bytes == 0 || header.total_bytes > wire::kMaxTotalBytes)
    return refuse(DropReason::kWireBadGeometry);
  if (first_free_ == limits_.max_contexts) return refuse(DropReason::kContextsFull);
  TenantUse& tenant = tenants_[admission.tenant_index];
  if (tenant.contexts >= limits_.tenant_max_contexts ||
      !within_share(tenant.contexts, 1, num_contexts(), limits_.max_contexts))
    return refuse(DropReason::kTenantContextsFull);
  const DropReason reason = charge_refusal(admission.tenant_index, arrival.mbuf->buf_len);
  if (reason != DropReason::kNone) return refuse(reason);

  Context& context = contexts_[first_free_];
  // In place: an assignment would build the request elsewhere and copy it.
  request::Request& request = *std::construct_at(&context.request);
  request.tenant_id = header.tenant_id;
  request.session = header.session;
  request.request_id = header.request_id;
  request.payload_kind = header.payload_kind;
  request.result_kind = header.result_kind;
  request.flags = header.flags;
  request.payload_bytes = header.total_bytes;
  context.fragment_bytes = header.fragment_bytes;
  context.num_pieces = std::max<uint32_t>(
      1, (header.total_bytes + header.fragment_bytes - 1u) / header.fragment_bytes);
  if (!fits(context, arrival)) return refuse(DropReason::kWireBadGeometry);

  context.arena_first = PieceArena::kNone;
  context.inline_arrived = 0;
  if (context.num_pieces > Context::kInlinePieces) {
    const uint32_t slots = PieceArena::block_pieces(context.num_pieces);
    if (context.num_pieces > limits_.max_pieces_per_request)
      return refuse(DropReason::kTooManyPieces);
    if (slots > arena_.free_pieces()) return refuse(DropReason::kPiecesFull);
    if (!within_share(tenant.piece_slots, slots, arena_.capacity() - arena_.free_pieces(),
                      arena_.capacity()))
      return refuse(DropReason::kTenantPiecesFull);
    context.arena_first = arena_.allocate(context.num_pieces);
    if (context.arena_first == PieceArena::kNone) return refuse(DropReason::kPiecesFull);
    tenant.piece_slots += slots;
  }
  request.tenant_index = admission.tenant_index;
  request.slot = admission.slot;
  request.group = admission.group;
  request.worker = admission.worker;
  request.in_flight = admission.in_flight;
  request.arrival_ns = arrival.now_ns;
  request.deadline_ns = admission.deadline_ns;
  context.key_hash = arrival.key.hash;
  context.state = ContextState::kAssembling;
  context.auth = header.auth;
  context.key_epoch = header.key_epoch;
  context.budget_us = header.budget_us;
  context.num_arrived = 0;
  context.held_bytes = 0;
  context.stalled_ns = 0;
  context.stall_gap_ns = limits_.stall_ns;
  context.next_stall_ns = limits_.stall_ns == 0 ? UINT64_MAX : arrival.now_ns + limits_.stall_ns;
  const uint32_t slot = first_free_;
  first_free_ = context.next_free;
  if (first_free_ < limits_.max_contexts) load_context(contexts_[first_free_]);
  index_.insert(context.key_hash, slot);
  ++tenant.contexts;

  hold(context, arrival);
  if (context.num_arrived == context.num_pieces)
    become_whole(context, arrival.now_ns);
  else
    schedule(context);
  return {Outcome::held(), &context, context.state == ContextState::kExecuting};
}

Reassembler::Added Reassembler::add(Context& context, const Arrival& arrival) noexcept {
  const auto drop = [&](DropReason reason) { return Added{Outcome::dropped(reason), &context}; };
  if (!same_geometry(context, *arrival.header) || !fits(context, arrival))
    return drop(DropReason::kGeometryChanged);
  if (context.state == ContextState::kExecuting) return drop(DropReason::kLate);
  const uint32_t index = arrival.header->offset / context.fragment_bytes;
  if (bit_set(table(context).arrived, index)) return drop(DropReason::kDuplicate);
  const DropReason reason = charge_refusal(context.request.tenant_index, arrival.mbuf->buf_len);
  if (reason != DropReason::kNone) return drop(reason);

  hold(context, arrival);
  if (context.num_arrived == context.num_pieces) become_whole(context, arrival.now_ns);
  return {Outcome::held(), &context, context.state == ContextState::kExecuting};
}

inline void Reassembler::hold(Context& context, const Arrival& arrival) noexcept {
  // Readers load 4-byte words, so an unaligned payload is moved down in its buffer, over the end of
  // the header, which has been read.
  const std::byte* data = arrival.payload.data();
  const size_t excess = reinterpret_cast<uintptr_t>(data) % 4;
  if (excess != 0 && !arrival.payload.empty()) {
    std::byte* aligned = const_cast<std::byte*>(data) - excess;
    std::memmove(aligned, data, arrival.payload.size());
    data = aligned;
    ++realigned_;
  }
  const uint32_t index = arrival.header->offset / context.fragment_bytes;
  const Table pieces = table(context);
  pieces.pieces[index] = {data, static_cast<uint32_t>(arrival.payload.size())};
  pieces.mbufs[index] = arrival.mbuf;
  pieces.arrived[index / 64] |= uint64_t{1} << (index % 64);
  ++context.num_arrived;
  context.peer = *arrival.peer;
  context.last_piece_ns = arrival.now_ns;
  const uint64_t bytes = arrival.mbuf->buf_len;
  context.held_bytes += bytes;
  tenants_[context.request.tenant_index].held_bytes += bytes;
  ++tenants_[context.request.tenant_index].held_pieces;
  held_bytes_ += bytes;
  ++held_pieces_;
}

inline void Reassembler::become_whole(Context& context, uint64_t now_ns) noexcept {
  cancel_timer(context);
  if (context.request.deadline_ns != 0) set_timer(context, context.request.deadline_ns);
  context.state = ContextState::kExecuting;
  context.request.complete_ns = now_ns;
  if (context.request.payload_bytes != 0)
    context.request.pieces = {table(context).pieces, context.num_pieces};
}

uint64_t Reassembler::timeout_at(const Context& context) const noexcept {
  return std::min(
      context.last_piece_ns + limits_.timeout_ns,
      context.request.arrival_ns + ReassemblyLimits::kMostTimeouts * limits_.timeout_ns);
}

// Pieces that arrive later postpone the timeout: sweep() then schedules again.
void Reassembler::schedule(Context& context) noexcept {
  const request::Request& request = context.request;
  uint64_t expiry_ns = std::min(timeout_at(context), context.next_stall_ns);
  if (request.deadline_ns != 0) expiry_ns = std::min(expiry_ns, request.deadline_ns);
  set_timer(context, expiry_ns);
}

void Reassembler::set_timer(Context& context, uint64_t expiry_ns) noexcept {
  timers_.set(slot_of(context), expiry_ns);
  context.has_timer = true;
}

// Skips the timers' memory for a request that arrived whole, without a deadline.
void Reassembler::cancel_timer(Context& context) noexcept {
  if (context.has_timer) timers_.cancel(slot_of(context));
  context.has_timer = false;
}

size_t Reassembler::sweep(uint64_t now_ns, std::span<Due> due) noexcept {
  size_t count = 0;
  while (count < due.size()) {
    const uint32_t slot = timers_.next_expired(now_ns);
    if (slot == TimerWheel::kNil) break;
    Context& context = contexts_[slot];
    context.has_timer = false;
    const request::Request& request = context.request;
    const uint64_t timeout_ns = timeout_at(context);
    if (context.state == ContextState::kExecuting) {
      due[count++] = {&context, Due::kDeadline};
    } else if (request.deadline_ns != 0 && request.deadline_ns <= std::min(now_ns, timeout_ns)) {
      due[count++] = {&context, Due::kDeadline};
    } else if (timeout_ns <= now_ns) {
      due[count++] = {&context, Due::kTimeout};
    } else if (limits_.stall_ns == 0) {
      schedule(context);
    } else {
      // Pieces that arrived meanwhile postpone the stall, and make the gaps short again. The timer
      // moves only here, not per piece.
      if (context.last_piece_ns > context.stalled_ns) context.stall_gap_ns = limits_.stall_ns;
      const uint64_t quiet_until_ns =
          std::max(context.last_piece_ns, context.stalled_ns) + context.stall_gap_ns;
      if (quiet_until_ns <= now_ns) {
        due[count++] = {&context, Due::kStalled};
        context.stalled_ns = now_ns;
        context.stall_gap_ns = 2 * limits_.stall_ns;
        context.next_stall_ns = now_ns + limits_.stall_ns;
      } else {
        context.next_stall_ns = std::min(quiet_until_ns, now_ns + limits_.stall_ns);
      }
      schedule(context);
    }
  }
  return count;
}

size_t Reassembler::missing_ranges(Context& context, std::span<wire::Range> out) noexcept {
  const uint64_t* arrived = table(context).arrived;
  const uint32_t fragment_bytes = context.fragment_bytes;
  size_t count = 0;
  uint32_t i = 0;
  const auto next = [&](bool set) {  // moves i to the next piece that has (not) arrived, or the end
    while (i < context.num_pieces) {
      const uint64_t word = (set ? arrived[i / 64] : ~arrived[i / 64]) >> (i % 64);
      if (word != 0) {
        i += static_cast<uint32_t>(std::countr_zero(word));
        break;
      }
      i = (i / 64 + 1) * 64;
    }
    i = std::min(i, context.num_pieces);
  };
  while (count < out.size()) {
    next(false);
    if (i == context.num_pieces) break;
    const uint32_t first = i;
    next(true);
    const uint64_t end =
        std::min<uint64_t>(uint64_t{i} * fragment_bytes, context.request.payload_bytes);
    out[count++] = {first * fragment_bytes,
                    static_cast<uint32_t>(end - uint64_t{first} * fragment_bytes)};
  }
  return count;
}

uint32_t Reassembler::release_pieces(Context& context) noexcept {
  DCHECK(context.state == ContextState::kExecuting);
  return free_pieces(context);
}

uint32_t Reassembler::free_pieces(Context& context) noexcept {
  const uint32_t count = std::exchange(context.num_arrived, 0);
  if (count == 0) return 0;
  const Table pieces = table(context);
  for (uint32_t word = 0; word * 64 < context.num_pieces; ++word)
    for (uint64_t bits = pieces.arrived[word]; bits != 0; bits &= bits - 1)
      death_row_.push(pieces.mbufs[word * 64 + static_cast<uint32_t>(std::countr_zero(bits))]);
  TenantUse& tenant = tenants_[context.request.tenant_index];
  if (context.arena_first != PieceArena::kNone) {
    arena_.release(context.arena_first, context.num_pieces);
    tenant.piece_slots -= PieceArena::block_pieces(context.num_pieces);
    context.arena_first = PieceArena::kNone;
  }
  const uint64_t bytes = std::exchange(context.held_bytes, 0);
  tenant.held_bytes -= bytes;
  tenant.held_pieces -= count;
  held_bytes_ -= bytes;
  held_pieces_ -= count;
  context.request.pieces = {};
  return count;
}

uint32_t Reassembler::release(Context& context) noexcept {
  DCHECK(context.state != ContextState::kFree);
  const uint32_t count = free_pieces(context);
  cancel_timer(context);
  index_.erase(context.key_hash, slot_of(context));
  --tenants_[context.request.tenant_index].contexts;
  context.state = ContextState::kFree;
  context.key_bytes = {};
  context.next_free = first_free_;
  first_free_ = slot_of(context);
  return count;
}

uint32_t Reassembler::tenant_contexts(uint32_t tenant_index) const noexcept {
  return tenants_[tenant_index].contexts;
}

uint64_t Reassembler::tenant_held_bytes(uint32_t tenant_index) const noexcept {
  return tenants_[tenant_index].held_bytes;
}

uint64_t Reassembler::tenant_held_pieces(uint32_t tenant_index) const noexcept {
  return tenants_[tenant_index].held_pieces;
}

}  // namespace itif::net
