// Why a datagram ended here instead of being answered or kept: one counter each per worker, and per
// tenant for those that name one.
//
// The identity that tests assert, at any moment, per worker:
//   received = forwarded + held + Σ dropped
// `forwarded` counts datagrams that did their work: answered in place, or consumed by what they
// asked for (a piece whose request has been released, an ack, a resend). `held` is a gauge: pieces
// whose request is still here. When a request is given up (timeout, deadline), its pieces move from
// held to dropped under that reason. What the NIC lost before us stands beside it as rx_missed,
// rx_no_mbuf and rx_errors in PortStats.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "wire/datagram.h"

namespace itif::net {

enum class DropReason : uint8_t {
  kNone = 0,  // not dropped

  // Frame (frame.h).
  kRunt,             // shorter than the headers it claims
  kMultiSegment,     // larger than a packet buffer: raise mbuf_bytes or lower the MTU
  kNotEthernetOurs,  // unicast to another MAC address, or not ARP/IPv4/IPv6
  kVlanOther,        // another VLAN, or more than two tags
  kSourceInvalid,    // multicast MAC, or an IP address or port that cannot be answered, or our own
  kIpMalformed,
  kIpHeaderUnsupported,  // an IPv6 extension header or IP option that a host must not ignore
  kIpFragment,           // the protocol never relies on IP fragmentation
  kIpNotOurs,
  kIpChecksum,
  kIpProtocolOther,  // neither UDP nor ICMP
  kUdpMalformed,
  kUdpChecksum,
  kUdpOtherPort,

  // Neighbour and ICMP (neighbour.h).
  kArpMalformed,
  kArpNotOurs,  // another host's address, or not a request
  kIcmpMalformed,
  kIcmpChecksum,
  kIcmpUnsupported,  // neither echo nor a neighbour solicitation for us

  // Datagram: one for each wire::ParseError but kNone, in its order.
  kWireTooShort,
  kWireBadMagic,
  kWireBadVersion,
  kWireBadType,
  kWireBadHeaderSize,
  kWireBadLength,
  kWireBadKind,
  kWireBadGeometry,
  kWireBadField,
  kWireUnexpectedType,  // well-formed, but of a type that only a server sends

  // Tenant and admission (pipeline).
  kUnknownTenant,
  kBadAuth,  // authenticated more weakly than the tenant asks
  kBadEpoch,
  kBadTag,
  kTokenRequired,
  kNotAdmitted,
  kDraining,
  kOverQuota,
  kTooLong,
  kUnsupportedKind,

  // Reassembly.
  kContextsFull,  // "tenant": the tenant has its share of them, and others still find room
  kTenantContextsFull,
  kHeldBytesFull,
  kTenantHeldBytesFull,
  kPiecesFull,  // no room for the table of this request's pieces
  kTenantPiecesFull,
  kTooManyPieces,    // the request is cut into more than any may have
  kRefusedBefore,    // a further piece of a request that has just been refused
  kGeometryChanged,  // contradicts the request's first piece
  kDuplicate,        // a piece that is here already
  kLate,             // a piece of a request that is being executed
  kReassemblyTimeout,
  kDeadlineReassembly,

  // Responses.
  kAnsweredFromCache,  // a repeated request: answered, its payload not needed
  kNothingToResend,    // a resend or ack for a message that is not kept
  kNoMbuf,
  kTransmitQueueFull,

  kCount
};
constexpr size_t kNumDropReasons = static_cast<size_t>(DropReason::kCount);

// "runt", "wire_bad_magic", …: as counters, documents and JSON name it.
std::string_view drop_reason_name(DropReason reason);

constexpr DropReason drop_reason(wire::ParseError error) {
  if (error == wire::ParseError::kNone) return DropReason::kNone;
  return static_cast<DropReason>(static_cast<size_t>(DropReason::kWireTooShort) +
                                 static_cast<size_t>(error) - 1);
}
static_assert(drop_reason(wire::ParseError::kBadField) == DropReason::kWireBadField);
static_assert(static_cast<size_t>(wire::ParseError::kBadField) + 1 == wire::kNumParseErrors);

// How one datagram ended. kHeld: its mbuf now belongs to a request; else it is the caller's.
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
