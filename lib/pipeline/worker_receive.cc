// The worker's receive path: parses mbufs and dispatches their datagrams. Handles all that is no
// request: neighbours, echo, ping, hello, ack, resend.
#include <rte_mbuf.h>

#include "net/neighbour.h"
#include "pipeline/worker.h"
#include "wire/ranges.h"
#include "wire/siphash_many.h"

namespace itif::pipeline {

using net::DropReason;
using net::Outcome;

// Handles a burst in stages, each for all of its frames, so that the memory that a frame needs is
// loaded while the frames before it are handled.
void Worker::receive(std::span<rte_mbuf* const> mbufs) noexcept {
  constexpr size_t kCacheLineBytes = 64;
  for (rte_mbuf* mbuf : mbufs) {
    const auto* data = rte_pktmbuf_mtod(mbuf, const std::byte*);
    rte_prefetch0(data);
    rte_prefetch0(data + kCacheLineBytes);
  }
  for (size_t i = 0; i < mbufs.size(); ++i) parse(*mbufs[i], received_[i]);
  for (const Received& received : std::span(received_).first(mbufs.size()))
    if (is_datagram(received) && !reassembler_.prefetch_context(received.key)) {
      cache_.prefetch(received.key);  // the response may be there
      refused_.prefetch(received.key, now_ns_);
    }
  check_tags(std::span(received_).first(mbufs.size()));
  for (size_t i = 0; i < mbufs.size(); ++i) handle(mbufs[i], received_[i]);
}

// Checks the burst's tags, several at once in the lanes of vector registers. Leaves sealed
// datagrams, and those without a tenant or key, to verify().
void Worker::check_tags(std::span<Received> burst) noexcept {
  std::array<wire::SipHashInput, kBurst> inputs;
  std::array<std::array<std::byte, wire::kTagBytes>, kBurst> tags;
  std::array<Received*, kBurst> tagged;
  size_t count = 0;
  for (Received& received : burst) {
    received.tag = Received::kUnchecked;
    if (!is_datagram(received)) continue;
    const wire::Header& header = received.datagram.header;
    if (header.auth != wire::Auth::kHeader && header.auth != wire::Auth::kFull) continue;
    const tenant::Tenant* tenant = snapshot_->find(header.tenant_id);
    const wire::Key* key = tenant != nullptr ? key_of_epoch(*tenant, header.key_epoch) : nullptr;
    if (key == nullptr) continue;
    inputs[count] = {.key = key,
                     .head = std::as_bytes(std::span(&header, 1)),
                     .tail = wire::tag_covers_payload(header.auth, header.type)
                                 ? received.datagram.payload
                                 : std::span<const std::byte>{}};
    tagged[count++] = &received;
  }
  wire::siphash128_many(std::span(inputs).first(count), tags);
  for (size_t i = 0; i < count; ++i)
    tagged[i]->tag =
        wire::same_tag(tags[i], tagged[i]->datagram.tag) ? Received::kGood : Received::kBad;
}

// Parses a frame and its datagram, and begins to load the state that the datagram concerns.
void Worker::parse(rte_mbuf& mbuf, Received& received) noexcept {
  received.malformed = wire::ParseError::kNone;
  received.refusal =
      net::parse_frame(mbuf, port_.info().partial_checksums, options_.local, received.frame);
  if (received.refusal != DropReason::kNone || received.frame.kind != net::Frame::kUdp) return;
  received.malformed = wire::parse(net::udp_payload(mbuf, received.frame), received.datagram);
  if (received.malformed != wire::ParseError::kNone) return;
  const wire::Header& header = received.datagram.header;
  received.key = net::hashed(net::message_key(header), options_.seed);
  received.session_hash =
      sessions_.hash_of(net::session_key(header.tenant_id, header.session, received.frame.peer));
  sessions_.prefetch(received.session_hash);
  reassembler_.prefetch(received.key);
}

void Worker::handle(rte_mbuf* mbuf, const Received& received) noexcept {
  counters_.received.add();
  counters_.received_bytes.add(rte_pktmbuf_pkt_len(mbuf));
  addressee_ = nullptr;
  const Outcome outcome = on_frame(mbuf, received);
  const auto count = [&outcome](auto& counters) {
    switch (outcome.kind) {
      case Outcome::kForwarded: counters.forwarded.add(); break;
      case Outcome::kHeld: break;  // the reassembler keeps this gauge
      case Outcome::kDropped: counters.dropped[static_cast<size_t>(outcome.reason)].add(); break;
    }
  };
  count(counters_);
  if (addressee_ == nullptr) return;
  telemetry::TenantCounters& tenant = tenants_[addressee_->index];
  tenant.received.add();
  tenant.held.set(reassembler_.tenant_held_pieces(addressee_->index));
  count(tenant);
}

// Takes the mbuf: holds it, sends it, or puts it on the death row.
Outcome Worker::on_frame(rte_mbuf* mbuf, const Received& received) noexcept {
  const net::Frame& frame = received.frame;
  if (received.refusal == DropReason::kNone && frame.kind != net::Frame::kUdp) {
    const bool may_answer =
        !net::asks_for_echo(*mbuf, frame) || unproven_.allow(frame.peer, now_ns_);
    const DropReason reason =
        may_answer ? net::answer_neighbour(*mbuf, frame, options_.local) : DropReason::kReplyRate;
    if (reason == DropReason::kNone) {
      tx_.push(mbuf);
      return Outcome::forwarded();
    }
    if (reason == DropReason::kAddressConflict) note_conflict(frame);
    death_row_.push(mbuf);
    return Outcome::dropped(reason);
  }
  Outcome outcome = Outcome::dropped(received.refusal);
  if (received.refusal == DropReason::kUdpOtherPort && intake() != tenant::Intake::kIgnore &&
      unproven_.allow(frame.peer, now_ns_) && net::answer_other_port(*mbuf, frame)) {
    tx_.push(mbuf);
    return outcome;
  }
  if (received.refusal == DropReason::kAddressConflict) note_conflict(frame);
  if (received.malformed != wire::ParseError::kNone) {
    outcome = Outcome::dropped(net::drop_reason(received.malformed));
  } else if (received.refusal == DropReason::kNone) {
    const Arrived arrived{
        mbuf, frame, received.datagram, received.key, received.session_hash, received.tag};
    switch (received.datagram.header.type) {
      case wire::Type::kRequest: outcome = on_request(arrived); break;
      case wire::Type::kResend: outcome = on_resend(arrived); break;
      case wire::Type::kAck: outcome = on_ack(arrived); break;
      case wire::Type::kHello: outcome = on_hello(arrived); break;
      case wire::Type::kPing: outcome = on_ping(arrived); break;
      default: outcome = Outcome::dropped(DropReason::kWireUnexpectedType); break;
    }
  }
  if (outcome.kind != Outcome::kHeld) death_row_.push(mbuf);
  return outcome;
}

Outcome Worker::on_ping(const Arrived& arrived) noexcept {
  if (intake() == tenant::Intake::kIgnore) return Outcome::dropped(DropReason::kHandedOver);
  if (!unproven_.allow(arrived.frame.peer, now_ns_))
    return Outcome::dropped(DropReason::kReplyRate);
  send_datagram(wire::reply_header(arrived.datagram.header, wire::Type::kPong),
                arrived.datagram.payload, {}, arrived.frame.peer);
  return Outcome::forwarded();
}

// Stateless: the token is a function of the address, so a hello costs no memory.
Outcome Worker::on_hello(const Arrived& arrived) noexcept {
  if (intake() == tenant::Intake::kIgnore) return Outcome::dropped(DropReason::kHandedOver);
  const net::Endpoint& peer = arrived.frame.peer;
  if (!unproven_.allow(peer, now_ns_)) return Outcome::dropped(DropReason::kReplyRate);
  wire::Header header = wire::reply_header(arrived.datagram.header, wire::Type::kToken);
  header.token = token_of(arrived, now_ns_ / kTokenPeriodNs);
  header.budget_us = static_cast<uint32_t>((2 * kTokenPeriodNs - now_ns_ % kTokenPeriodNs) / 1000);
  send_datagram(header, {}, {}, peer);
  return Outcome::forwarded();
}

uint64_t Worker::token_of(const Arrived& arrived, uint64_t period) const noexcept {
  const net::Endpoint& peer = arrived.frame.peer;
  return wire::address_token(shared_.token_secret,
                             {.address = peer.peer_address_bytes(),
                              .port = peer.peer_port,
                              .session = arrived.datagram.header.session,
                              .receiver = options_.token_receiver()},
                             period);
}

uint64_t Worker::token_end_ns(const Arrived& arrived) const noexcept {
  const uint64_t token = arrived.datagram.header.token;
  const uint64_t period = now_ns_ / kTokenPeriodNs;
  if (token == 0) return 0;
  if (token == token_of(arrived, period)) return (period + 2) * kTokenPeriodNs;
  const bool is_previous = period > 0 && token == token_of(arrived, period - 1);
  return is_previous ? (period + 1) * kTokenPeriodNs : 0;
}

Outcome Worker::on_ack(const Arrived& arrived) noexcept {
  const Verified verified = verify(arrived);
  if (verified.refusal != DropReason::kNone) return Outcome::dropped(verified.refusal);
  const net::CachedResponse* entry = cache_.find(arrived.key, now_ns_);
  if (entry == nullptr) return Outcome::dropped(DropReason::kNothingToResend);
  if (is_weaker(arrived.datagram.header, entry->header.auth))
    return Outcome::dropped(DropReason::kBadAuth);
  cache_.erase(arrived.key);
  return Outcome::forwarded();
}

// The client requests pieces of a response that it is missing.
Outcome Worker::on_resend(const Arrived& arrived) noexcept {
  const wire::Header& header = arrived.datagram.header;
  if ((header.flags & wire::kFlagOfResponse) == 0)
    return Outcome::dropped(DropReason::kWireUnexpectedType);
  const Verified verified = verify(arrived);
  if (verified.refusal != DropReason::kNone) return Outcome::dropped(verified.refusal);
  net::CachedResponse* entry = cache_.find(arrived.key, now_ns_);
  if (entry == nullptr || entry->header.total_bytes != header.total_bytes ||
      entry->header.fragment_bytes != header.fragment_bytes)
    return Outcome::dropped(DropReason::kNothingToResend);
  if (is_weaker(header, entry->header.auth)) return Outcome::dropped(DropReason::kBadAuth);
  std::array<wire::Range, wire::kMaxRanges> ranges;
  const size_t count = wire::parse_ranges(arrived.datagram.payload, header.total_bytes, ranges);
  if (count == 0) return Outcome::dropped(DropReason::kWireBadGeometry);
  const DropReason refusal =
      transmit_cached(*entry, arrived, verified,
                      net::Cursor::resend(entry->header, std::span(ranges).first(count)));
  return refusal == DropReason::kNone ? Outcome::forwarded() : Outcome::dropped(refusal);
}

}  // namespace itif::pipeline
