// Starts and ends requests; the engine's public interface.
#include "client/engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "client/engine_state.h"

namespace itif::client {
namespace {

constexpr uint32_t kMaxInFlight = 1u << 22;
constexpr size_t kReceiveRounds = 8;  // batches that one poll() receives before it runs timers
constexpr size_t kOutcomeBatch = 128;

Status check(const EngineOptions& options, uint32_t num_flows) {
  if (options.max_in_flight == 0 || options.max_in_flight > kMaxInFlight)
    return fail(Code::kInvalidArgument, fmt::format("max_in_flight is {}: choose 1 to {}",
                                                    options.max_in_flight, kMaxInFlight));
  if (!wire::fragment_size_valid(options.fragment_bytes))
    return fail(
        Code::kInvalidArgument,
        fmt::format("fragment_bytes is {}: choose a multiple of 4 from {} to {}",
                    options.fragment_bytes, wire::kMinFragmentBytes, wire::kMaxFragmentBytes));
  if (options.burst_datagrams == 0)
    return fail(Code::kInvalidArgument, "burst_datagrams is 0: choose at least 1");
  if (options.retry.max_tries == 0 || options.retry.initial_rto_ns == 0 ||
      options.retry.timeout_ns == 0)
    return fail(Code::kInvalidArgument,
                "max_tries, initial_rto_ns and timeout_ns of the retry policy must be above 0");
  if (num_flows == 0) return fail(Code::kInvalidArgument, "the transport has no flow to send on");
  return {};
}

}  // namespace

ClientEngine::State::State(const Clock& clock, Transport& transport, OutcomeSink& sink,
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
  for (uint32_t i = 0; i < num_flows_; ++i) flows_.push_back(std::make_unique<Flow>());
  outcomes_.reserve(kOutcomeBatch);
  outcome_buffers_.reserve(kOutcomeBatch);
}

ClientEngine::State::~State() {
  for (Slot& slot : slots_) outcome_buffers_.push_back(slot.response.take());
  for (BufferPool::Buffer& buffer : outcome_buffers_) pool_.release(buffer);
}

Submit ClientEngine::State::submit(const RequestSpec& spec) noexcept {
  if (spec.payload.size() > wire::kMaxTotalBytes) return Submit::kTooLarge;
  if (free_.empty() || cancelling_) return Submit::kFull;
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
  slot.give_up_ns = now_ns + options_.retry.timeout_ns;
  slot.armed_ns = UINT64_MAX;
  ++stats_.submitted;
  start(index, now_ns);
  return Submit::kAccepted;
}

// Sends the request under a new id: at submission, and again after a temporary refusal.
void ClientEngine::State::start(uint32_t index, uint64_t now_ns) noexcept {
  Slot& slot = slots_[index];
  const auto slot_bits = static_cast<unsigned>(std::countr_zero(capacity_));
  slot.request_id = (next_sequence_++ << slot_bits) | index;
  slot.silent_tries = 1;
  slot.rto_ns = options_.retry.initial_rto_ns;
  Flow& flow = *flows_[slot.flow];
  if (flow.token == 0 && flow.hello_pending) {
    await_token(index, now_ns);
    return;
  }
  if (now_ns >= flow.token_renew_ns) say_hello(slot.flow, now_ns);
  slot.phase = Phase::kWaiting;
  queue_whole(index);
  arm(index, now_ns + slot.rto_ns);
}

Outcome ClientEngine::State::outcome_of(const Slot& slot, OutcomeKind kind,
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
void ClientEngine::State::finish(uint32_t index, const Outcome& outcome) noexcept {
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
  free_.push_back(index);
  outcomes_.push_back(outcome);
  if (outcomes_.size() == kOutcomeBatch) deliver();
}

void ClientEngine::State::finish_lost(uint32_t index, uint64_t now_ns) noexcept {
  finish(index, outcome_of(slots_[index], OutcomeKind::kLost, now_ns));
}

void ClientEngine::State::deliver() noexcept {
  if (outcomes_.empty()) return;
  sink_.on_outcomes(outcomes_);
  outcomes_.clear();
  for (BufferPool::Buffer& buffer : outcome_buffers_) pool_.release(buffer);
  outcome_buffers_.clear();
}

size_t ClientEngine::State::poll() noexcept {
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

void ClientEngine::State::cancel_all() noexcept {
  const uint64_t now_ns = clock_.now_ns();
  cancelling_ = true;
  for (uint32_t i = 0; i < capacity_; ++i) {
    if (slots_[i].phase != Phase::kFree)
      finish(i, outcome_of(slots_[i], OutcomeKind::kCancelled, now_ns));
  }
  deliver();
  cancelling_ = false;
}

Result<std::unique_ptr<ClientEngine>> ClientEngine::create(const Clock& clock, Transport& transport,
                                                           OutcomeSink& sink,
                                                           EngineOptions options) {
  ITIF_TRY(check(options, transport.num_flows()));
  return std::unique_ptr<ClientEngine>(
      new ClientEngine(std::make_unique<State>(clock, transport, sink, options)));
}

ClientEngine::ClientEngine(std::unique_ptr<State> state) : state_(std::move(state)) {}
ClientEngine::~ClientEngine() = default;
Submit ClientEngine::submit(const RequestSpec& spec) noexcept {
  return state_->submit(spec);
}
size_t ClientEngine::poll() noexcept {
  return state_->poll();
}
size_t ClientEngine::flush() noexcept {
  return state_->flush();
}
void ClientEngine::cancel_all() noexcept {
  state_->cancel_all();
}
uint32_t ClientEngine::in_flight() const noexcept {
  return state_->in_flight();
}
bool ClientEngine::has_unsent() const noexcept {
  return state_->has_unsent();
}
uint64_t ClientEngine::next_timer_ns() const noexcept {
  return state_->next_timer_ns();
}
const EngineStats& ClientEngine::stats() const noexcept {
  return state_->stats();
}

}  // namespace itif::client
