// Parses received mbufs and dispatches their datagrams. Handles all that need no request:
// neighbours, echo, ping, hello, ack, resend.
#include <rte_mbuf.h>

#include "net/neighbour.h"
#include "pipeline/worker.h"
#include "wire/ranges.h"

namespace itif::pipeline {

using net::DropReason;
using net::Outcome;

void Worker::receive(rte_mbuf* mbuf) noexcept {
  counters_.received.add();
  counters_.received_bytes.add(rte_pktmbuf_pkt_len(mbuf));
  addressee_ = nullptr;
  const Outcome outcome = on_frame(mbuf);
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
Outcome Worker::on_frame(rte_mbuf* mbuf) noexcept {
  net::Frame frame;
  if (DropReason reason =
          net::parse_frame(*mbuf, port_.info().partial_checksums, options_.local, frame);
      reason != DropReason::kNone) {
    death_row_.push(mbuf);
    return Outcome::dropped(reason);
  }
  if (frame.kind != net::Frame::kUdp) {
    if (DropReason reason = net::answer_neighbour(*mbuf, frame, options_.local);
        reason != DropReason::kNone) {
      death_row_.push(mbuf);
      return Outcome::dropped(reason);
    }
    tx_.push(mbuf);
    return Outcome::forwarded();
  }

  wire::Datagram datagram;
  const wire::ParseError error = wire::parse(net::udp_payload(*mbuf, frame), datagram);
  Outcome outcome = Outcome::dropped(net::drop_reason(error));
  if (error == wire::ParseError::kNone) {
    const Arrived arrived{mbuf, frame, datagram};
    switch (datagram.header.type) {
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
  send_datagram(wire::reply_header(arrived.datagram.header, wire::Type::kPong),
                arrived.datagram.payload, {}, arrived.frame.peer);
  return Outcome::forwarded();
}

// Stateless: the token is a function of the address, so a hello costs no memory.
Outcome Worker::on_hello(const Arrived& arrived) noexcept {
  const net::Endpoint& peer = arrived.frame.peer;
  wire::Header header = wire::reply_header(arrived.datagram.header, wire::Type::kToken);
  header.aux = wire::address_token(shared_.token_secret, peer.peer_address_bytes(), peer.peer_port,
                                   arrived.datagram.header.session, now_ns_ / kTokenPeriodNs);
  header.budget_us = static_cast<uint32_t>((2 * kTokenPeriodNs - now_ns_ % kTokenPeriodNs) / 1000);
  send_datagram(header, {}, {}, peer);
  return Outcome::forwarded();
}

bool Worker::token_is_valid(const Arrived& arrived) const noexcept {
  const net::Endpoint& peer = arrived.frame.peer;
  const wire::Header& header = arrived.datagram.header;
  return wire::address_token_valid(shared_.token_secret, peer.peer_address_bytes(), peer.peer_port,
                                   header.session, now_ns_ / kTokenPeriodNs, header.aux);
}

Outcome Worker::on_ack(const Arrived& arrived) noexcept {
  const Verified verified = verify(arrived);
  if (verified.refusal != DropReason::kNone) return Outcome::dropped(verified.refusal);
  if (!cache_.erase(net::message_key(arrived.datagram.header)))
    return Outcome::dropped(DropReason::kNothingToResend);
  return Outcome::forwarded();
}

// The client requests pieces of a response that it is missing.
Outcome Worker::on_resend(const Arrived& arrived) noexcept {
  const wire::Header& header = arrived.datagram.header;
  if ((header.flags & wire::kFlagOfResponse) == 0)
    return Outcome::dropped(DropReason::kWireUnexpectedType);
  const Verified verified = verify(arrived);
  if (verified.refusal != DropReason::kNone) return Outcome::dropped(verified.refusal);
  // One resend can request megabytes, so it needs the same proof of address as a request.
  if (options_.require_token && !token_is_valid(arrived))
    return Outcome::dropped(DropReason::kTokenRequired);
  net::CachedResponse* entry = cache_.find(net::message_key(header), now_ns_);
  if (entry == nullptr || entry->header.total_bytes != header.total_bytes)
    return Outcome::dropped(DropReason::kNothingToResend);
  std::array<wire::Range, wire::kMaxRanges> ranges;
  const size_t count = wire::parse_ranges(arrived.datagram.payload, header.total_bytes, ranges);
  if (count == 0) return Outcome::dropped(DropReason::kWireBadGeometry);
  if (!transmit_cached(*entry, arrived, verified,
                       net::Cursor::resend(entry->header, std::span(ranges).first(count))))
    return Outcome::dropped(DropReason::kTransmitQueueFull);
  return Outcome::forwarded();
}

}  // namespace itif::pipeline
