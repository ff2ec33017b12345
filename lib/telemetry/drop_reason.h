// Why a datagram ended without effect. Every reason is a counter of its own in every worker; names
// are what `itifctl drops`, Prometheus and DPDK telemetry show.
#pragma once

#include <cstddef>
#include <cstdint>

namespace itif::telemetry {

enum class DropReason : uint8_t {
  // The frame is not for us or not well-formed.
  kNotForUs,     // another MAC, VLAN, IP address or UDP port
  kUnsupported,  // an Ethernet type, IP protocol or ICMP type that we do not speak
  kIpHeader,     // lengths or version of the IP header contradict the frame
  kIpFragment,   // IP fragments are never reassembled
  kIpChecksum,
  kUdpHeader,
  kUdpChecksum,
  // The datagram is not one of ours (wire::ParseError).
  kTooShort,
  kBadMagic,
  kBadVersion,
  kBadType,
  kBadHeaderSize,
  kBadLength,
  kBadKind,
  kBadGeometry,
  // Verification.
  kUnknownTenant,
  kNotAdmitted,  // paused or loading
  kBadTag,
  kBadEpoch,
  kWrongAuth,  // a weaker authentication than the tenant's
  kTokenRequired,
  kTooLong,  // more payload than the tenant's model can take
  kUnsupportedKind,
  kDraining,
  // Reassembly.
  kDuplicate,  // a piece that has been seen
  kOverlap,
  kGeometryChanged,  // contradicts the pieces before it
  kContextsFull,     // the worker's bound
  kHeldBytesFull,
  kTenantContextsFull,
  kTenantHeldBytesFull,
  kReassemblyTimeout,  // swept: the rest did not come in time
  kOverQuota,
  kLateForRequest,  // the request has ended already and its response is not cached
  // Resources.
  kQueueFull,  // the group's queue or a ring
  kNoMbuf,
  kTxFull,  // the port did not take it within the bounded retries
  kNeighbourUnknown,
  kInternal,
  // Before us.
  kNicMissed,  // the port's own count: no descriptor or buffer in time
  kNicError,
  kCount,
};
constexpr size_t kNumDropReasons = static_cast<size_t>(DropReason::kCount);

// "not_for_us", "bad_tag", …; "?" for a value that is none.
const char* drop_reason_name(DropReason reason) noexcept;

}  // namespace itif::telemetry
