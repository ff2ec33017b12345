// The reasons to drop a datagram. Each worker has one counter per reason, and one per tenant for
// datagrams that name a tenant. Each reason has a class (DropClass): dropped or repeated.
//
// Tests assert at any moment, for each worker:
//   received = forwarded + held + Σ repeated + Σ dropped
// `forwarded` counts datagrams that served their purpose: answered directly (echo, hello, resend),
// acks, and pieces whose payload has been read. `held` is a gauge of the pieces that requests still
// hold. When a request is abandoned (timeout, deadline), its pieces move from held to dropped,
// under that reason. Losses in the NIC are counted separately, in PortStats: rx_missed, rx_no_mbuf
// and rx_errors.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "wire/datagram.h"

namespace itif::net {

enum class DropReason : uint8_t {
  kNone = 0,  // not dropped

  // Frame (frame.h).
  kRunt,             // shorter than the headers it claims
  kMultiSegment,     // larger than a packet buffer: raise mbuf_bytes or lower the MTU
  kNotEthernetOurs,  // unicast to another MAC address, or not ARP/IPv4/IPv6
  kVlanOther,        // another VLAN, or more than two VLAN tags
  kSourceInvalid,    // source is a multicast MAC, our own IP address, or cannot be replied to
  kIpMalformed,
  kIpHeaderUnsupported,  // an IPv6 extension header or IP option that a host must not ignore
  kIpFragment,           // the protocol never relies on IP fragmentation
  kIpNotOurs,
  kIpChecksum,
  kIpProtocolOther,  // neither UDP nor ICMP
  kUdpMalformed,
  kUdpChecksum,
  kUdpOtherPort,

  // Spreading (pipeline/spreader.h).
  kWorkerQueueFull,  // the worker of the datagram's flow takes its datagrams too slowly

  // Neighbour and ICMP (neighbour.h).
  kArpMalformed,
  kArpNotOurs,       // another host's address, or not a request
  kAddressConflict,  // ARP or neighbour discovery: another host uses one of our addresses
  kIcmpMalformed,
  kIcmpChecksum,
  kIcmpUnsupported,  // not an echo, a neighbour solicitation for us or an MLDv2 query

  // Datagram: one per wire::ParseError except kNone, in the same order.
  kWireTooShort,
  kWireBadMagic,
  kWireBadVersion,
  kWireBadType,
  kWireBadHeaderSize,
  kWireBadLength,
  kWireBadKind,
  kWireBadGeometry,
  kWireBadField,
  kWireUnexpectedType,  // well-formed, but a type that only a server sends

  // Tenant and admission (pipeline).
  kUnknownTenant,
  kBadAuth,  // weaker authentication than the tenant requires, or than the request had
  kBadEpoch,
  kBadTag,
  kTokenRequired,  // no valid address token
  kReplayed,       // its sequence number was accepted before, or is too old to know
  kSessionsFull,   // no room for another client's session
  kReplyRate,      // a reply to an unproven address would exceed its network's rate
  kNotAdmitted,
  kDraining,
  kHandedOver,  // another process has taken over
  kOverQuota,
  kTooLong,
  kUnsupportedKind,

  // Reassembly. kTenant…: the tenant has used up its share, but other tenants still have room.
  kContextsFull,
  kTenantContextsFull,
  kHeldBytesFull,
  kTenantHeldBytesFull,
  kPiecesFull,  // no room for the request's piece table
  kTenantPiecesFull,
  kTooManyPieces,    // more pieces than a request may have
  kRefusedBefore,    // a further piece of a request that was just refused
  kGeometryChanged,  // contradicts the request's first piece
  kDuplicate,        // a piece that has already arrived
  kLate,             // a piece of a request that is already executing
  kReassemblyTimeout,
  kDeadlineReassembly,

  // Responses.
  kAnsweredFromCache,  // a repeated request: its payload is not needed
  kNothingToResend,    // a resend or ack for a response that is not in the cache
  kAlreadySending,     // asks for an answer that is being sent
  kAnswerBudget,       // this answer was sent too often
  kNoMbuf,
  kTransmitQueueFull,

  kCount
};
constexpr size_t kNumDropReasons = static_cast<size_t>(DropReason::kCount);

// Returns the name used in counters, documents and JSON: "runt", "wire_bad_magic", ….
std::string_view drop_reason_name(DropReason reason);

// The class under which a reason's datagrams are shown. A repeat has a fresh sequence number, and
// its request or answer is still known: nothing is lost.
enum class DropClass : uint8_t { kDropped, kRepeated };

constexpr DropClass drop_class(DropReason reason) {
  switch (reason) {
    case DropReason::kDuplicate:
    case DropReason::kLate:
    case DropReason::kAnsweredFromCache:
    case DropReason::kAlreadySending: return DropClass::kRepeated;
    // Not repeats: a replayed datagram (captured or copied), an answer that is refused because it
    // was sent too often or is no longer kept, and further pieces of a refused request.
    default: return DropClass::kDropped;
  }
}

// Returns the name used in documents and JSON: "dropped", "repeated".
std::string_view drop_class_name(DropClass drop_class);

// Returns the sum of the counts of one class. `counts`: by DropReason.
uint64_t sum_of(std::span<const uint64_t> counts, DropClass wanted);

constexpr DropReason drop_reason(wire::ParseError error) {
  if (error == wire::ParseError::kNone) return DropReason::kNone;
  return static_cast<DropReason>(static_cast<size_t>(DropReason::kWireTooShort) +
                                 static_cast<size_t>(error) - 1);
}
static_assert(drop_reason(wire::ParseError::kBadField) == DropReason::kWireBadField);
static_assert(static_cast<size_t>(wire::ParseError::kBadField) + 1 == wire::kNumParseErrors);

// The outcome of one datagram. kHeld: a request now owns the mbuf; otherwise the caller still does.
struct Outcome {
  enum Kind : uint8_t { kForwarded, kHeld, kDropped };

  Kind kind = kForwarded;
  DropReason reason = DropReason::kNone;  // kDropped only

  static constexpr Outcome forwarded() { return {kForwarded, DropReason::kNone}; }
  static constexpr Outcome held() { return {kHeld, DropReason::kNone}; }
  static constexpr Outcome dropped(DropReason reason) { return {kDropped, reason}; }
  bool operator==(const Outcome&) const = default;
};

using DropCounts = std::array<uint64_t, kNumDropReasons>;

}  // namespace itif::net
