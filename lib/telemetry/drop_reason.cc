#include "telemetry/drop_reason.h"

namespace itif::telemetry {

const char* drop_reason_name(DropReason reason) noexcept {
  switch (reason) {
    case DropReason::kNotForUs:
      return "not_for_us";
    case DropReason::kUnsupported:
      return "unsupported";
    case DropReason::kIpHeader:
      return "ip_header";
    case DropReason::kIpFragment:
      return "ip_fragment";
    case DropReason::kIpChecksum:
      return "ip_checksum";
    case DropReason::kUdpHeader:
      return "udp_header";
    case DropReason::kUdpChecksum:
      return "udp_checksum";
    case DropReason::kTooShort:
      return "too_short";
    case DropReason::kBadMagic:
      return "bad_magic";
    case DropReason::kBadVersion:
      return "bad_version";
    case DropReason::kBadType:
      return "bad_type";
    case DropReason::kBadHeaderSize:
      return "bad_header_size";
    case DropReason::kBadLength:
      return "bad_length";
    case DropReason::kBadKind:
      return "bad_kind";
    case DropReason::kBadGeometry:
      return "bad_geometry";
    case DropReason::kUnknownTenant:
      return "unknown_tenant";
    case DropReason::kNotAdmitted:
      return "not_admitted";
    case DropReason::kBadTag:
      return "bad_tag";
    case DropReason::kBadEpoch:
      return "bad_epoch";
    case DropReason::kWrongAuth:
      return "wrong_auth";
    case DropReason::kTokenRequired:
      return "token_required";
    case DropReason::kTooLong:
      return "too_long";
    case DropReason::kUnsupportedKind:
      return "unsupported_kind";
    case DropReason::kDraining:
      return "draining";
    case DropReason::kDuplicate:
      return "duplicate";
    case DropReason::kOverlap:
      return "overlap";
    case DropReason::kGeometryChanged:
      return "geometry_changed";
    case DropReason::kContextsFull:
      return "contexts_full";
    case DropReason::kHeldBytesFull:
      return "held_bytes_full";
    case DropReason::kTenantContextsFull:
      return "tenant_contexts_full";
    case DropReason::kTenantHeldBytesFull:
      return "tenant_held_bytes_full";
    case DropReason::kReassemblyTimeout:
      return "reassembly_timeout";
    case DropReason::kOverQuota:
      return "over_quota";
    case DropReason::kLateForRequest:
      return "late_for_request";
    case DropReason::kQueueFull:
      return "queue_full";
    case DropReason::kNoMbuf:
      return "no_mbuf";
    case DropReason::kTxFull:
      return "tx_full";
    case DropReason::kNeighbourUnknown:
      return "neighbour_unknown";
    case DropReason::kInternal:
      return "internal";
    case DropReason::kNicMissed:
      return "nic_missed";
    case DropReason::kNicError:
      return "nic_error";
    case DropReason::kCount:
      break;
  }
  return "?";
}

}  // namespace itif::telemetry
