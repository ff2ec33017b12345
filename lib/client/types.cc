#include "client/types.h"

namespace itif::client {

RetryPolicy RetryPolicy::none(uint64_t timeout_ns) noexcept {
  return {.max_tries = 1, .timeout_ns = timeout_ns};
}

void EngineStats::merge(const EngineStats& other) noexcept {
  submitted += other.submitted;
  answered += other.answered;
  refused += other.refused;
  lost += other.lost;
  cancelled += other.cancelled;
  datagrams_sent += other.datagrams_sent;
  bytes_sent += other.bytes_sent;
  datagrams_received += other.datagrams_received;
  bytes_received += other.bytes_received;
  datagrams_used += other.datagrams_used;
  retransmissions += other.retransmissions;
  silence_repeats += other.silence_repeats;
  busy_repeats += other.busy_repeats;
  token_refusals += other.token_refusals;
  hints += other.hints;
  resends_asked += other.resends_asked;
  resends_served += other.resends_served;
  busy += other.busy;
  hellos += other.hellos;
  tokens += other.tokens;
  send_blocked += other.send_blocked;
  for (size_t i = 0; i < dropped.size(); ++i) dropped[i] += other.dropped[i];
}

const char* drop_name(Drop drop) {
  switch (drop) {
    case Drop::kMalformed: return "malformed";
    case Drop::kNotOurs: return "not_ours";
    case Drop::kLate: return "late";
    case Drop::kBadTag: return "bad_tag";
    case Drop::kBadGeometry: return "bad_geometry";
    case Drop::kDuplicate: return "duplicate";
    case Drop::kReplayed: return "replayed";
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
