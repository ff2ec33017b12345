// Requests that itifd refused before their group took them, by the limit that refused them.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace itif::telemetry {

enum class RefusalCause : uint8_t {
  kOverQuota,  // the tenant's quota; all others are limits of the data plane
  kContexts,
  kTenantContexts,
  kHeldBytes,
  kTenantHeldBytes,
  kPieces,
  kTenantPieces,
  kSessions,
};
inline constexpr size_t kNumRefusalCauses = 8;

struct RefusalRule {
  RefusalCause cause;
  const char* name;     // as the drop counters name it
  const char* setting;  // the limit, for people
};
// In the order of RefusalCause.
inline constexpr std::array<RefusalRule, kNumRefusalCauses> kRefusalRules = {{
    {RefusalCause::kOverQuota, "over_quota", "quota_rps of its tenants"},
    {RefusalCause::kContexts, "contexts_full", "data_plane.max_contexts"},
    {RefusalCause::kTenantContexts, "tenant_contexts_full",
     "data_plane.tenant_max_contexts, or the tenant's share of max_contexts"},
    {RefusalCause::kHeldBytes, "held_bytes_full", "data_plane.max_held_bytes, or mbufs"},
    {RefusalCause::kTenantHeldBytes, "tenant_held_bytes_full",
     "data_plane.tenant_max_held_bytes, or the tenant's share of max_held_bytes"},
    {RefusalCause::kPieces, "pieces_full", "a worker's room for lists of pieces"},
    {RefusalCause::kTenantPieces, "tenant_pieces_full",
     "the tenant's share of a worker's room for lists of pieces"},
    {RefusalCause::kSessions, "sessions_full",
     "data_plane.max_sessions, or the tenant's share of it"},
}};
static_assert([] {
  for (size_t i = 0; i < kRefusalRules.size(); ++i)
    if (kRefusalRules[i].cause != static_cast<RefusalCause>(i)) return false;
  return true;
}());

struct Refusals {
  std::array<uint64_t, kNumRefusalCauses> counts{};  // by RefusalCause

  uint64_t& operator[](RefusalCause cause) { return counts[static_cast<size_t>(cause)]; }
  uint64_t operator[](RefusalCause cause) const { return counts[static_cast<size_t>(cause)]; }
  uint64_t by_quota() const { return (*this)[RefusalCause::kOverQuota]; }
  uint64_t by_data_plane() const { return total() - by_quota(); }
  uint64_t total() const {
    uint64_t sum = 0;
    for (const uint64_t count : counts) sum += count;
    return sum;
  }
};

}  // namespace itif::telemetry
