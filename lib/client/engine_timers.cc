// Handles timers: acts if no datagram arrives for a request in time.
//
// A silent request is lost, or its server needs long. A repeat recovers from the first, and loads a
// server that has to work anyway in the second case. So a request is repeated early, after one RTO,
// only if it is probably lost; otherwise patient_rto_ns passes before.
#include <algorithm>

#include "client/engine_state.h"

namespace itif::client {

// As TCP's retransmission timer (RFC 6298), with initial_rto_ns as the granularity of its clock.
// The round trip of hello and token stands in for the latency until that is known.
uint64_t EngineState::rto_ns() const noexcept {
  const RetryPolicy& retry = options_.retry;
  const bool is_known = latency_ns_ != 0;
  const uint64_t expected_ns = is_known ? latency_ns_ : round_trip_ns_;
  const uint64_t deviation_ns = is_known ? deviation_ns_ : round_trip_ns_ / 2;
  const uint64_t margin_ns = std::max(retry.initial_rto_ns, 4 * deviation_ns);
  const uint64_t limit_ns = std::max(retry.max_rto_ns, 2 * expected_ns);
  return std::max(retry.initial_rto_ns, std::min(expected_ns + margin_ns, limit_ns));
}

// Judges a request that has been silent for an RTO. It is probably lost if one that was sent well
// after it has been answered (as RACK, RFC 8985). Besides, one request at a time is repeated
// without such a reason (as a tail loss probe), because nothing may follow it, and because a server
// that is slow then says so.
bool EngineState::is_probably_lost(uint32_t index) noexcept {
  if (prober_ == UINT32_MAX) prober_ = index;
  return prober_ == index || newest_answered_ns_ > slots_[index].started_ns + latency_ns_ / 2;
}

void EngineState::learn_latency(uint64_t latency_ns) noexcept {
  if (latency_ns_ == 0) {
    latency_ns_ = latency_ns;
    deviation_ns_ = latency_ns / 2;
    return;
  }
  const uint64_t difference = std::max(latency_ns, latency_ns_) - std::min(latency_ns, latency_ns_);
  deviation_ns_ = (3 * deviation_ns_ + difference) / 4;
  latency_ns_ = (7 * latency_ns_ + latency_ns) / 8;
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
  if (now_ns >= flows_[slot.flow]->token_renew_ns) say_hello(slot.flow, now_ns);
  if (slot.phase == Phase::kAwaitingToken) {
    say_hello(slot.flow, now_ns);
  } else if (slot.response.started() && slot.silent_tries % 2 == 0) {
    ask_for_missing(slot);
  } else {
    // A server that has forgotten the response does not answer a resend; it runs the request again.
    ++stats_.retransmissions;
    slot.was_repeated = true;
    queue_probe(index);  // the server replies with the ranges it lacks
  }
  arm(index, now_ns + slot.rto_ns);
}

}  // namespace itif::client
