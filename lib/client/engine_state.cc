// Starts and ends requests.
#include "client/engine_state.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace itif::client {
namespace {

constexpr size_t kReceiveRounds = 8;  // batches that one poll() receives before it runs timers
constexpr size_t kOutcomeBatch = 128;

}  // namespace

EngineState::EngineState(const Clock& clock, Transport& transport, OutcomeSink& sink,
                         const EngineOptions& options)
    : clock_(clock),
      transport_(transport),
      sink_(sink),
      options_(options),
      capacity_(std::bit_ceil(options.max_in_flight)),
      num_flows_(transport.num_flows()),
      // The slot number takes the low bits of an id; the sequence in the other bits never wraps.
      next_sequence_(options.first_request >> std::countr_zero(capacity_)),
      slots_(capacity_),
      wheel_(capacity_, {.shift = 17, .num_ticks = 2048}, clock.now_ns()),
      send_lists_(num_flows_, capacity_),
      token_lists_(num_flows_, capacity_),
      pool_(options.max_reassembly_bytes) {
  free_.reserve(capacity_);
  for (uint32_t i = capacity_; i-- > 0;) free_.push_back(i);
  for (uint32_t i = 0; i < num_flows_; ++i) {
    flows_.push_back(std::make_unique<Flow>());
    // Flows are far apart, so that no two use the same number: 2^44 of each.
    flows_[i]->next_sequence =
        (options.first_sequence.value_or(0) & ((uint64_t{1} << 62) - 1)) + (uint64_t{i} << 44);
  }
  outcomes_.reserve(kOutcomeBatch);
  outcome_buffers_.reserve(kOutcomeBatch);
}

EngineState::~EngineState() {
  for (Slot& slot : slots_) outcome_buffers_.push_back(slot.response.take());
  for (BufferPool::Buffer& buffer : outcome_buffers_) pool_.release(buffer);
}

Submit EngineState::submit(const RequestSpec& spec) noexcept {
  if (spec.payload.size() > wire::kMaxTotalBytes) return Submit::kTooLarge;
  if (free_.empty() || cancelling_) return Submit::kFull;
  if (spec.credential.auth == wire::Auth::kSealed && !reserve_sealed(next_flow_))
    return Submit::kFull;
  const uint32_t index = free_.back();
  free_.pop_back();
  const uint64_t now_ns = clock_.now_ns();
  Slot& slot = slots_[index];
  slot.spec = spec;
  slot.flow = next_flow_;
  next_flow_ = next_flow_ + 1 == num_flows_ ? 0 : next_flow_ + 1;
  slot.sends = 0;
  slot.refusal_retries = 0;
  slot.token_refusals = 0;
  slot.submitted_ns = now_ns;
  slot.give_up_ns = now_ns + (spec.timeout_ns != 0 ? spec.timeout_ns : options_.retry.timeout_ns);
  slot.hint = wire::StatusCode::kOk;
  slot.deadline_ns = spec.budget_us == 0 ? UINT64_MAX : now_ns + uint64_t{spec.budget_us} * 1000;
  slot.armed_ns = UINT64_MAX;
  ++stats_.submitted;
  start(index, now_ns);
  return Submit::kAccepted;
}

// Sends the request under a new id: at submission, and again after a temporary refusal.
void EngineState::start(uint32_t index, uint64_t now_ns) noexcept {
  Slot& slot = slots_[index];
  const auto slot_bits = static_cast<unsigned>(std::countr_zero(capacity_));
  slot.budget_us = slot.spec.budget_us;
  if (slot.refusal_retries > 0 && slot.budget_us != 0)
    slot.budget_us = slot.deadline_ns > now_ns + 1000
                         ? static_cast<uint32_t>((slot.deadline_ns - now_ns) / 1000)
                         : 1;
  slot.request_id = (next_sequence_++ << slot_bits) | index;
  slot.silent_tries = 1;
  slot.is_busy = slot.was_repeated = false;
  slot.newest = {};
  slot.last_piece_ns = slot.asked_ns = 0;
  slot.num_asks = 0;
  Flow& flow = *flows_[slot.flow];
  if (now_ns >= flow.token_expires_ns) flow.token = 0;
  if (flow.token == 0 || now_ns >= flow.token_renew_ns) say_hello(slot.flow, now_ns);
  if (flow.token == 0) {
    await_token(index, now_ns);
  } else {
    send_with_token(index, now_ns);
  }
}

Outcome EngineState::outcome_of(const Slot& slot, OutcomeKind kind,
                                uint64_t now_ns) const noexcept {
  Outcome outcome;
  outcome.user_tag = slot.spec.user_tag;
  outcome.tenant_id = slot.spec.credential.tenant_id;
  outcome.kind = kind;
  outcome.tries = slot.sends;
  outcome.submitted_ns = slot.submitted_ns;
  outcome.completed_ns = now_ns;
  return outcome;
}

// Frees the slot before delivery, so that the sink may submit. A response's memory lives until
// delivery.
void EngineState::finish(uint32_t index, const Outcome& outcome) noexcept {
  Slot& slot = slots_[index];
  switch (outcome.kind) {
    case OutcomeKind::kAnswered: ++stats_.answered; break;
    case OutcomeKind::kRefused: ++stats_.refused; break;
    case OutcomeKind::kLost: ++stats_.lost; break;
    case OutcomeKind::kCancelled: ++stats_.cancelled; break;
  }
  wheel_.cancel(index);
  send_lists_.remove(index);
  token_lists_.remove(index);
  unstage(index);
  if (slot.response.started()) outcome_buffers_.push_back(slot.response.take());
  slot.phase = Phase::kFree;
  slot.num_ranges = slot.next_range = 0;
  if (prober_ == index) prober_ = UINT32_MAX;
  free_.push_back(index);
  outcomes_.push_back(outcome);
  if (outcomes_.size() == kOutcomeBatch) deliver();
}

// Ends a request without an answer. If the server seems to have refused it, that is the outcome.
void EngineState::finish_lost(uint32_t index, uint64_t now_ns) noexcept {
  const Slot& slot = slots_[index];
  const bool is_refused = slot.hint != wire::StatusCode::kOk;
  Outcome outcome =
      outcome_of(slot, is_refused ? OutcomeKind::kRefused : OutcomeKind::kLost, now_ns);
  outcome.status = slot.hint;
  finish(index, outcome);
}

void EngineState::deliver() noexcept {
  if (outcomes_.empty()) return;
  sink_.on_outcomes(outcomes_);
  outcomes_.clear();
  for (BufferPool::Buffer& buffer : outcome_buffers_) pool_.release(buffer);
  outcome_buffers_.clear();
}

size_t EngineState::poll() noexcept {
  size_t moved = 0;
  for (size_t round = 0; round < kReceiveRounds; ++round) {
    const size_t count = transport_.receive(incoming_);
    if (count == 0) break;
    const uint64_t now_ns = clock_.now_ns();
    for (size_t i = 0; i < count; ++i) on_datagram(incoming_[i], now_ns);
    deliver();  // before the next receive(): results may be in the transport's memory
    moved += count;
    if (count < kReceiveBatch) break;
  }
  const uint64_t now_ns = clock_.now_ns();
  for (uint32_t index; (index = wheel_.next_expired(now_ns)) != TimerWheel::kNil;)
    on_timer(index, now_ns);
  deliver();
  return moved + flush();
}

void EngineState::cancel_all() noexcept {
  const uint64_t now_ns = clock_.now_ns();
  cancelling_ = true;
  for (uint32_t i = 0; i < capacity_; ++i) {
    if (slots_[i].phase != Phase::kFree)
      finish(i, outcome_of(slots_[i], OutcomeKind::kCancelled, now_ns));
  }
  deliver();
  cancelling_ = false;
}

}  // namespace itif::client
