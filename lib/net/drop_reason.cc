#include "net/drop_reason.h"

namespace itif::net {
namespace {

constexpr std::array<std::string_view, kNumDropReasons> kNames = {
    "none",
    "runt",
    "multi_segment",
    "not_ethernet_ours",
    "vlan_other",
    "source_invalid",
    "ip_malformed",
    "ip_header_unsupported",
    "ip_fragment",
    "ip_not_ours",
    "ip_checksum",
    "ip_protocol_other",
    "udp_malformed",
    "udp_checksum",
    "udp_other_port",
    "worker_queue_full",
    "arp_malformed",
    "arp_not_ours",
    "address_conflict",
    "icmp_malformed",
    "icmp_checksum",
    "icmp_unsupported",
    "wire_too_short",
    "wire_bad_magic",
    "wire_bad_version",
    "wire_bad_type",
    "wire_bad_header_size",
    "wire_bad_length",
    "wire_bad_kind",
    "wire_bad_geometry",
    "wire_bad_field",
    "wire_unexpected_type",
    "unknown_tenant",
    "bad_auth",
    "bad_epoch",
    "bad_tag",
    "token_required",
    "replayed",
    "sessions_full",
    "reply_rate",
    "not_admitted",
    "draining",
    "handed_over",
    "over_quota",
    "too_long",
    "unsupported_kind",
    "contexts_full",
    "tenant_contexts_full",
    "held_bytes_full",
    "tenant_held_bytes_full",
    "pieces_full",
    "tenant_pieces_full",
    "too_many_pieces",
    "refused_before",
    "geometry_changed",
    "duplicate",
    "late",
    "reassembly_timeout",
    "deadline_reassembly",
    "answered_from_cache",
    "nothing_to_resend",
    "already_sending",
    "answer_budget",
    "no_mbuf",
    "transmit_queue_full",
};
static_assert(!kNames.back().empty(), "a name for every reason");

}  // namespace

std::string_view drop_reason_name(DropReason reason) {
  const auto index = static_cast<size_t>(reason);
  return index < kNames.size() ? kNames[index] : "?";
}

std::string_view drop_class_name(DropClass drop_class) {
  return drop_class == DropClass::kRepeated ? "repeated" : "dropped";
}

uint64_t sum_of(std::span<const uint64_t> counts, DropClass wanted) {
  uint64_t sum = 0;
  for (size_t i = 0; i < counts.size(); ++i)
    if (drop_class(static_cast<DropReason>(i)) == wanted) sum += counts[i];
  return sum;
}

}  // namespace itif::net
