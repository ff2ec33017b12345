// Handles timers: acts if no datagram arrives for a request in time.
#include <algorithm>

#include "client/engine_state.h"

namespace itif::client {

// As TCP's retransmission timer (RFC 6298), with initial_rto_ns as the granularity of its clock. A
// loaded server answers late, and repeats of what it has would load it further.
uint64_t EngineState::first_rto_ns() const noexcept {
  const RetryPolicy& retry = options_.retry;
  const uint64_t margin_ns = std::max(retry.initial_rto_ns, 4 * deviation_ns_);
  return std::max(retry.initial_rto_ns, std::min(latency_ns_ + margin_ns, retry.max_rto_ns));
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

void EngineState::sign_of_life(Slot& slot) noexcept {
  slot.silent_tries = 1;
  slot.rto_ns = first_rto_ns();
}

// Sets when to act on silence. Updates the wheel only if that is earlier than the time set there; a
// later time is checked when the timer fires.
void EngineState::arm(uint32_t index, uint64_t action_ns) noexcept {
  Slot& slot = slots_[index];
  const bool waits_once = options_.retry.max_tries == 1 && slot.phase == Phase::kWaiting;
  slot.action_ns = waits_once ? slot.give_up_ns : action_ns;
  const uint64_t due_ns = std::min(slot.action_ns, slot.give_up_ns);
  if (due_ns >= slot.armed_ns) return;
  slot.armed_ns = due_ns;
  wheel_.set(index, due_ns);
}

void EngineState::await_token(uint32_t index, uint64_t now_ns) noexcept {
  Slot& slot = slots_[index];
  send_lists_.remove(index);
  unstage(index);
  slot.num_ranges = slot.next_range = 0;
  if (slot.phase != Phase::kAwaitingToken) {
    slot.phase = Phase::kAwaitingToken;
    token_lists_.push_back(slot.flow, index);
  }
  arm(index, now_ns + slot.rto_ns);
}

void EngineState::on_timer(uint32_t index, uint64_t now_ns) noexcept {
  Slot& slot = slots_[index];
  slot.armed_ns = UINT64_MAX;
  if (now_ns >= slot.give_up_ns) {
    finish_lost(index, now_ns);
  } else if (now_ns < slot.action_ns) {
    arm(index, slot.action_ns);
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
    arm(index, now_ns + slot.rto_ns);  // not all sent yet: the server cannot reply
    return;
  }
  if (slot.silent_tries >= retry.max_tries && retry.max_tries > 1) {
    finish_lost(index, now_ns);
    return;
  }
  ++slot.silent_tries;
  slot.rto_ns = std::min(slot.rto_ns * retry.backoff_percent / 100, retry.max_rto_ns);
  if (slot.phase == Phase::kAwaitingToken) {
    say_hello(slot.flow, now_ns);
  } else if (slot.response.started()) {
    ask_for_missing(slot);
  } else {
    ++stats_.retransmissions;
    slot.was_repeated = true;
    queue_probe(index);  // the server replies with the ranges it lacks
  }
  arm(index, now_ns + slot.rto_ns);
}

}  // namespace itif::client
