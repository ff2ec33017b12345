// Handles timers: acts if no datagram arrives for a request in time.
//
// A silent request is lost, or its server needs long. A repeat recovers from the first, and loads a
// server that has to work anyway in the second case. So a request is repeated early, after one RTO,
// only if it is probably lost; otherwise patient_rto_ns passes before.
//
// The pieces of a response arrive close to each other. After a gap, the missing ones are lost, or
// the path has reordered them.
#include <algorithm>
#include <utility>

#include "client/engine_state.h"

namespace itif::client {

// As TCP's retransmission timer (RFC 6298), with initial_rto_ns as the granularity of its clock.
// The round trip of hello and token stands in for the latency until that is known.
uint64_t EngineState::rto_ns() const noexcept {
  const RetryPolicy& retry = options_.retry;
  const SmoothedTime& expected = latency_.ns != 0 ? latency_ : round_trip_;
  const uint64_t margin_ns = std::max(retry.initial_rto_ns, 4 * expected.deviation_ns);
  const uint64_t limit_ns = std::max(retry.max_rto_ns, 2 * expected.ns);
  return std::max(retry.initial_rto_ns, std::min(expected.ns + margin_ns, limit_ns));
}

// Judges a request that has been silent for an RTO. It is probably lost if one that was sent well
// after it has been answered (as RACK, RFC 8985). Besides, one request at a time is repeated
// without such a reason (as a tail loss probe), because nothing may follow it, and because a server
// that is slow then says so.
bool EngineState::is_probably_lost(uint32_t index) noexcept {
  if (prober_ == UINT32_MAX) prober_ = index;
  return prober_ == index || newest_answered_ns_ > slots_[index].started_ns + latency_.ns / 2;
}

// The gap after which missing pieces of a response are asked for. Reordering delays a piece by a
// quarter of a round trip at most (as RACK assumes), or by what has been seen.
uint64_t EngineState::gap_ns() const noexcept {
  const RetryPolicy& retry = options_.retry;
  return std::max(
      {retry.resend_after_ns, round_trip_.ns / 4, std::min(2 * spread_ns_, retry.max_rto_ns)});
}

// The RTO of an ask for pieces, which the server answers at once.
uint64_t EngineState::ask_rto_ns() const noexcept {
  return round_trip_.ns + std::max(options_.retry.resend_after_ns, 4 * round_trip_.deviation_ns);
}

// Learns from a new piece of a response. Returns false if an ask is open and the piece has come too
// early to be its answer: it was on its way.
bool EngineState::note_piece(Slot& slot, uint64_t now_ns) noexcept {
  const bool is_asked = slot.asked_ns != 0;
  const bool is_early = is_asked && now_ns - slot.asked_ns < round_trip_.ns / 2;
  if (slot.last_piece_ns != 0 && (!is_asked || is_early))
    spread_ns_ = std::max(spread_ns_, now_ns - slot.last_piece_ns);
  slot.last_piece_ns = now_ns;
  if (is_asked && !is_early) {
    if (slot.num_asks == 1) round_trip_.learn(now_ns - slot.asked_ns);  // Karn's algorithm
    slot.asked_ns = 0;
    slot.num_asks = 0;
  }
  return !is_early;
}

// Pieces of the response are missing. `is_answer`: as note_piece() returned.
void EngineState::wait_for_pieces(uint32_t index, bool is_answer, uint64_t now_ns) noexcept {
  Slot& slot = slots_[index];
  slot.silent_tries = 1;
  slot.rto_ns = gap_ns();
  const uint64_t due_ns = now_ns + slot.rto_ns;
  arm(index, is_answer ? due_ns : std::max(due_ns, slot.asked_ns + ask_rto_ns()));
}

// The request has been sent, or the server has shown that it works on it.
void EngineState::wait_for_answer(uint32_t index, uint64_t now_ns) noexcept {
  Slot& slot = slots_[index];
  slot.silent_tries = 1;
  slot.rto_ns = rto_ns();
  arm(index, now_ns + std::max(slot.rto_ns, options_.retry.patient_rto_ns), now_ns + slot.rto_ns);
}

// Sets when to act on silence. Updates the wheel only if that is earlier than the time set there; a
// later time is checked when the timer fires.
void EngineState::arm(uint32_t index, uint64_t action_ns, uint64_t probe_ns) noexcept {
  Slot& slot = slots_[index];
  const bool waits_once = options_.retry.max_tries == 1 && slot.phase == Phase::kWaiting;
  slot.action_ns = waits_once ? slot.give_up_ns : action_ns;
  slot.probe_ns = waits_once ? UINT64_MAX : probe_ns;
  const uint64_t due_ns = std::min({slot.action_ns, slot.probe_ns, slot.give_up_ns});
  if (due_ns >= slot.armed_ns) return;
  slot.armed_ns = due_ns;
  wheel_.set(index, due_ns);
}

void EngineState::await_token(uint32_t index, uint64_t now_ns) noexcept {
  Slot& slot = slots_[index];
  slot.num_ranges = slot.next_range = 0;
  slot.rto_ns = options_.retry.initial_rto_ns;
  slot.phase = Phase::kAwaitingToken;
  token_lists_.push_back(slot.flow, index);
  arm(index, now_ns + slot.rto_ns);
}

void EngineState::on_timer(uint32_t index, uint64_t now_ns) noexcept {
  Slot& slot = slots_[index];
  slot.armed_ns = UINT64_MAX;
  if (now_ns >= slot.give_up_ns) {
    finish_lost(index, now_ns);
    return;
  }
  if (slot.probe_ns != UINT64_MAX)  // the first wait: answers may have turned out to take longer
    slot.action_ns = std::max(slot.action_ns, slot.started_ns + rto_ns());
  bool is_due = now_ns >= slot.action_ns;
  if (is_due && slot.probe_ns != UINT64_MAX) {
    slot.rto_ns = std::max(slot.rto_ns, options_.retry.patient_rto_ns);
  } else if (now_ns >= slot.probe_ns) {
    slot.probe_ns = now_ns + rto_ns();  // the next look
    is_due = is_probably_lost(index);
  }
  if (!is_due) {
    arm(index, slot.action_ns, slot.probe_ns);
  } else if (slot.phase == Phase::kPaused) {
    start(index, now_ns);
  } else {
    on_silence(index, now_ns);
  }
}

void EngineState::on_silence(uint32_t index, uint64_t now_ns) noexcept {
  Slot& slot = slots_[index];
  const RetryPolicy& retry = options_.retry;
  if (send_lists_.list_of(index) != IndexLists::kNone) {
    // Not all is sent yet: the server cannot reply.
    arm(index, now_ns + std::max(slot.rto_ns, retry.patient_rto_ns), now_ns + slot.rto_ns);
    return;
  }
  if (slot.silent_tries >= retry.max_tries && retry.max_tries > 1) {
    finish_lost(index, now_ns);
    return;
  }
  ++slot.silent_tries;
  if (slot.token_refusals > 0) --slot.token_refusals;
  slot.rto_ns =
      std::min(slot.rto_ns * retry.backoff_percent / 100, std::max(retry.max_rto_ns, slot.rto_ns));
  if (slot.response.started()) {
    slot.rto_ns = std::max(slot.rto_ns, ask_rto_ns());
    slot.asked_ns = now_ns;
    ++slot.num_asks;
  }
  if (now_ns >= flows_[slot.flow]->token_renew_ns) say_hello(slot.flow, now_ns);
  if (slot.phase == Phase::kAwaitingToken) {
    say_hello(slot.flow, now_ns);
  } else if (slot.response.started() && slot.silent_tries % 2 == 0) {
    ask_for_missing(slot);
  } else {
    // A server that has forgotten the response does not answer a resend; it runs the request again.
    ++stats_.retransmissions;
    ++(std::exchange(slot.is_busy, false) ? stats_.busy_repeats : stats_.silence_repeats);
    slot.was_repeated = true;
    queue_probe(index);  // the server replies with the ranges it lacks
  }
  arm(index, now_ns + slot.rto_ns);
}

}  // namespace itif::client
