// Names and small constructions of the client's types.
#include "client/types.h"

namespace itif::client {

RetryPolicy RetryPolicy::none(uint64_t timeout_ns) noexcept {
  return {.max_tries = 1, .timeout_ns = timeout_ns};
}

const char* drop_name(Drop drop) {
  switch (drop) {
    case Drop::kMalformed: return "malformed";
    case Drop::kNotOurs: return "not_ours";
    case Drop::kLate: return "late";
    case Drop::kBadTag: return "bad_tag";
    case Drop::kBadGeometry: return "bad_geometry";
    case Drop::kDuplicate: return "duplicate";
    case Drop::kTooLarge: return "too_large";
    case Drop::kNoMemory: return "no_memory";
  }
  return "?";
}

const char* outcome_name(OutcomeKind kind) {
  switch (kind) {
    case OutcomeKind::kAnswered: return "answered";
    case OutcomeKind::kRefused: return "refused";
    case OutcomeKind::kLost: return "lost";
    case OutcomeKind::kCancelled: return "cancelled";
  }
  return "?";
}

}  // namespace itif::client
