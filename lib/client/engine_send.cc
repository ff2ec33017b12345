// Sends control datagrams first, then pieces of requests in the order in which they were queued.
// Builds heads just before sending; copies payloads only to encrypt them.
#include <algorithm>
#include <cstring>
#include <new>

#include "client/engine_state.h"

namespace itif::client {

bool EngineState::has_unsent() const noexcept {
  for (uint32_t i = 0; i < num_flows_; ++i) {
    const Flow& flow = *flows_[i];
    if (!send_lists_.empty(i) || flow.staged.begin != flow.staged.end ||
        flow.control_begin != flow.control_end)
      return true;
  }
  return false;
}

void EngineState::enter_send_list(uint32_t index) noexcept {
  if (send_lists_.list_of(index) == IndexLists::kNone)
    send_lists_.push_back(slots_[index].flow, index);
}

// Queues the whole request, instead of any ranges of it that are still queued.
void EngineState::queue_whole(uint32_t index) noexcept {
  Slot& slot = slots_[index];
  slot.ranges[0] = {0, static_cast<uint32_t>(slot.spec.payload.size())};
  slot.next_range = 0;
  slot.num_ranges = 1;
  ++slot.sends;
  enter_send_list(index);
}

// Queues only the first piece: enough for a reply from a server that knows the request.
void EngineState::queue_probe(uint32_t index) noexcept {
  Slot& slot = slots_[index];
  queue_whole(index);
  slot.ranges[0].to = std::min(slot.ranges[0].to, options_.fragment_bytes);
}

// Queues whole pieces that the server asked for. Drops ranges beyond kMaxSendRanges; the server
// asks for them again.
void EngineState::queue_range(uint32_t index, SendRange range) noexcept {
  Slot& slot = slots_[index];
  if (slot.next_range == slot.num_ranges) slot.next_range = slot.num_ranges = 0;
  if (slot.num_ranges == kMaxSendRanges) return;
  slot.ranges[slot.num_ranges++] = range;
  enter_send_list(index);
}

wire::Header EngineState::header_of(const Slot& slot, wire::Type type) const noexcept {
  wire::Header header;
  header.type = type;
  header.auth = slot.spec.credential.auth;
  header.tenant_id = slot.spec.credential.tenant_id;
  header.session = options_.session;
  header.request_id = slot.request_id;
  header.key_epoch = slot.spec.credential.key_epoch;
  return header;
}

// Allocates the flow's memory for encrypted pieces, once. Returns false if there is none.
bool EngineState::reserve_sealed(uint32_t flow_index) noexcept {
  auto& sealed = flows_[flow_index]->staged.sealed;
  if (!sealed) sealed.reset(new (std::nothrow) std::byte[kSendBatch * options_.fragment_bytes]);
  return sealed != nullptr;
}

// Builds heads for the pieces at the front of the flow's list. REQUIRES: nothing is staged.
void EngineState::stage(uint32_t flow_index, size_t budget) noexcept {
  Flow& flow = *flows_[flow_index];
  Staged& staged = flow.staged;
  staged.begin = staged.end = 0;
  const auto limit = static_cast<uint32_t>(std::min<size_t>(budget, kSendBatch));
  while (staged.end < limit && !send_lists_.empty(flow_index)) {
    const uint32_t index = send_lists_.front(flow_index);
    Slot& slot = slots_[index];
    const RequestSpec& spec = slot.spec;
    wire::Header header = header_of(slot, wire::Type::kRequest);
    header.header_bytes = static_cast<uint8_t>(wire::header_size(header.auth));
    header.total_bytes = static_cast<uint32_t>(spec.payload.size());
    header.budget_us = slot.budget_us;
    header.payload_kind = spec.payload_kind;
    header.result_kind = spec.result_kind;
    header.flags = static_cast<uint16_t>(spec.flags | (slot.sends > 1 ? wire::kFlagRetry : 0));
    header.fragment_bytes = static_cast<uint16_t>(options_.fragment_bytes);
    header.token = flow.token;
    while (staged.end < limit && slot.next_range < slot.num_ranges) {
      SendRange& range = slot.ranges[slot.next_range];
      header.offset = range.from;
      const uint32_t bytes =
          wire::piece_bytes(header.total_bytes, options_.fragment_bytes, range.from);
      header.payload_bytes = static_cast<uint16_t>(bytes);
      header.sequence = flow.next_sequence++;
      std::span<const std::byte> body = spec.payload.subspan(range.from, bytes);
      if (range.from == 0) slot.sent_token = flow.token;
      range.from += bytes;
      if (range.from >= range.to) ++slot.next_range;

      const uint32_t position = staged.end++;
      auto& head = staged.heads[position];
      std::memcpy(head.data(), &header, wire::kHeaderBytes);
      if (header.auth != wire::Auth::kNone) {
        std::array<std::byte, wire::kTagBytes> tag;
        if (header.auth == wire::Auth::kSealed) {
          const std::span<std::byte> sealed(
              staged.sealed.get() + size_t{position} * options_.fragment_bytes, bytes);
          if (bytes > 0) std::memcpy(sealed.data(), body.data(), bytes);
          tag = wire::encrypt(spec.credential.key, header, sealed);
          body = sealed;
        } else {
          tag = wire::compute_tag(spec.credential.key, header, body);
        }
        std::memcpy(head.data() + wire::kHeaderBytes, tag.data(), wire::kTagBytes);
      }
      staged.datagrams[position] = {.head = std::span(head).first(header.header_bytes),
                                    .body = body};
      staged.slots[position] = index;
    }
    if (slot.next_range == slot.num_ranges) send_lists_.remove(index);
  }
}

// Drops staged pieces of a request that has ended: the engine no longer borrows their payload.
void EngineState::unstage(uint32_t index) noexcept {
  Staged& staged = flows_[slots_[index].flow]->staged;
  if (staged.begin == staged.end) return;
  uint32_t kept = staged.begin;
  for (uint32_t i = staged.begin; i < staged.end; ++i) {
    if (staged.slots[i] == index) continue;
    if (kept != i) {
      const size_t head_bytes = staged.datagrams[i].head.size();
      std::span<const std::byte> body = staged.datagrams[i].body;
      const std::byte* sealed = staged.sealed.get() + size_t{i} * options_.fragment_bytes;
      if (staged.sealed && body.data() == sealed && !body.empty()) {
        std::byte* moved = staged.sealed.get() + size_t{kept} * options_.fragment_bytes;
        std::memcpy(moved, sealed, body.size());
        body = {moved, body.size()};
      }
      staged.heads[kept] = staged.heads[i];
      staged.datagrams[kept] = {.head = std::span(staged.heads[kept]).first(head_bytes),
                                .body = body};
      staged.slots[kept] = staged.slots[i];
    }
    ++kept;
  }
  staged.end = kept;
}

// Returns false if the transport is full.
bool EngineState::send_control(uint32_t flow_index, size_t& budget) noexcept {
  Flow& flow = *flows_[flow_index];
  std::array<Outgoing, kControlQueue> batch;
  while (flow.control_begin != flow.control_end && budget > 0) {
    size_t count = 0;
    for (uint32_t i = flow.control_begin; i != flow.control_end && count < budget; ++i) {
      const ControlDatagram& datagram = flow.control[i % kControlQueue];
      batch[count++] = {.head = std::span(datagram.bytes).first(datagram.size), .body = {}};
    }
    const size_t taken = transport_.send(flow_index, std::span(batch).first(count));
    for (size_t i = 0; i < taken; ++i) stats_.bytes_sent += batch[i].head.size();
    stats_.datagrams_sent += taken;
    flow.control_begin += static_cast<uint32_t>(taken);
    budget -= taken;
    if (taken < count) return false;
  }
  return true;
}

bool EngineState::send_staged(uint32_t flow_index, size_t& budget) noexcept {
  Staged& staged = flows_[flow_index]->staged;
  const size_t count = staged.end - staged.begin;
  if (count == 0) return true;
  const auto batch = std::span(staged.datagrams).subspan(staged.begin, count);
  const size_t taken = transport_.send(flow_index, batch);
  for (size_t i = 0; i < taken; ++i)
    stats_.bytes_sent += batch[i].head.size() + batch[i].body.size();
  stats_.datagrams_sent += taken;
  staged.begin += static_cast<uint32_t>(taken);
  budget -= std::min(budget, taken);
  return taken == count;
}

size_t EngineState::flush_flow(uint32_t flow_index) noexcept {
  Flow& flow = *flows_[flow_index];
  size_t budget = options_.burst_datagrams;
  while (budget > 0) {
    if (flow.staged.begin == flow.staged.end) {
      if (send_lists_.empty(flow_index) && flow.control_begin == flow.control_end) break;
      if (!send_control(flow_index, budget)) {
        ++stats_.send_blocked;
        break;
      }
      stage(flow_index, budget);
    }
    if (!send_staged(flow_index, budget)) {
      ++stats_.send_blocked;
      break;
    }
  }
  return options_.burst_datagrams - budget;
}

size_t EngineState::flush() noexcept {
  size_t sent = 0;
  for (uint32_t i = 0; i < num_flows_; ++i) sent += flush_flow(i);
  return sent;
}

// Returns false if the queue is full. A timer repeats a lost resend or hello. A lost ack is not
// sent again; the server then keeps a cache entry for longer.
bool EngineState::queue_control(uint32_t flow_index, wire::Header header,
                                std::span<const std::byte> payload, const wire::Key& key) noexcept {
  Flow& flow = *flows_[flow_index];
  if (flow.control_end - flow.control_begin == kControlQueue) return false;
  if (header.type != wire::Type::kHello) {
    header.sequence = flow.next_sequence++;
    header.token = flow.token;
  }
  ControlDatagram& datagram = flow.control[flow.control_end % kControlQueue];
  datagram.size = static_cast<uint32_t>(wire::build(header, payload, key, datagram.bytes));
  if (datagram.size == 0) return false;
  ++flow.control_end;
  return true;
}

void EngineState::send_ack(const Slot& slot) noexcept {
  queue_control(slot.flow, header_of(slot, wire::Type::kAck), {}, slot.spec.credential.key);
}

void EngineState::ask_for_missing(const Slot& slot) noexcept {
  std::array<wire::Range, wire::kMaxRanges> ranges;
  std::array<std::byte, sizeof(ranges)> payload;
  // The server accepts no more ranges than fit in one piece of the response.
  const size_t limit =
      std::min<size_t>(wire::kMaxRanges, slot.response.fragment_bytes() / sizeof(wire::Range));
  const size_t count = slot.response.missing(std::span(ranges).first(limit));
  const size_t bytes =
      wire::build_ranges(std::span(ranges).first(count), slot.response.total_bytes(), payload);
  if (bytes == 0) return;
  wire::Header header = header_of(slot, wire::Type::kResend);
  header.flags = wire::kFlagOfResponse;
  header.total_bytes = slot.response.total_bytes();
  header.fragment_bytes = static_cast<uint16_t>(slot.response.fragment_bytes());
  if (queue_control(slot.flow, header, std::span(payload).first(bytes), slot.spec.credential.key))
    ++stats_.resends_asked;
}

// Asks for a token, at first or again. Repeats are an RTO apart at least; each repeat doubles it.
void EngineState::say_hello(uint32_t flow_index, uint64_t now_ns) noexcept {
  Flow& flow = *flows_[flow_index];
  const RetryPolicy& retry = options_.retry;
  if (!flow.hello_pending) {
    flow.num_hellos = 0;
    flow.hello_rto_ns = retry.initial_rto_ns;
    // The complement of a number beyond all request ids: no request has it, and a stranger who does
    // not know first_request cannot guess it.
    flow.hello_id =
        ~(options_.first_request + ((stats_.hellos + 1) << 32)) & ~uint64_t{kHelloIds - 1};
  } else {
    const uint64_t last_ns = flow.hello_sent_ns[(flow.num_hellos - 1) % kHelloIds];
    if (now_ns - last_ns < flow.hello_rto_ns) return;
    flow.hello_rto_ns = std::min(flow.hello_rto_ns * 2, retry.max_rto_ns);
  }
  const uint32_t number = flow.num_hellos % kHelloIds;
  wire::Header header;
  header.type = wire::Type::kHello;
  header.session = options_.session;
  header.request_id = flow.hello_id | number;
  if (!queue_control(flow_index, header, {}, wire::Key{})) return;
  ++flow.num_hellos;
  flow.hello_sent_ns[number] = now_ns;
  flow.hello_pending = true;
  ++stats_.hellos;
}

}  // namespace itif::client
