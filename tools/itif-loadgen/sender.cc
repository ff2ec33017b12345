#include "sender.h"

#include <algorithm>
#include <utility>

namespace itif::loadgen {
namespace {

constexpr uint32_t kSendsPerTurn = 64;          // sends before the engine receives again
constexpr uint64_t kShortestSleep_ns = 30'000;  // spins below this, because sleeps end late
constexpr uint64_t kGraceNs = 100'000'000;
constexpr uint64_t kUnreachableGraceNs = 300'000'000;
constexpr uint64_t kLongestSleep_ns = 50'000'000;  // bounds the delay of a Ctrl-C

bool is_by_deadline(wire::StatusCode status) {
  using enum wire::StatusCode;
  return status == kDeadlineReassembly || status == kDeadlineQueue || status == kDeadlineLaunch;
}

uint32_t share_of(uint64_t whole, uint32_t thread, uint32_t threads) {
  return static_cast<uint32_t>(whole / threads + (thread < whole % threads ? 1 : 0));
}

}  // namespace

Sender::Sender(const Clock& clock, client::Transport& transport, const SenderConfig& config)
    : clock_(clock),
      transport_(transport),
      config_(config),
      options_(*config.options),
      measure_from_ns_(config.start_ns + options_.warmup_ns),
      send_until_ns_(measure_from_ns_ + options_.duration_ns),
      max_requests_(options_.max_requests == 0
                        ? UINT64_MAX
                        : options_.max_requests / options_.threads +
                              (config.thread < options_.max_requests % options_.threads ? 1 : 0)),
      max_in_flight_(options_.arrivals == Arrivals::kClosed
                         ? share_of(options_.concurrency, config.thread, options_.threads)
                         : options_.max_in_flight),
      schedule_(options_.arrivals == Arrivals::kPoisson, options_.rate, config.start_ns,
                config.thread, options_.threads, options_.seed * 1'000'003 + config.thread),
      mix_(options_, *config.pool, options_.seed * 7'368'787 + config.thread),
      records_(max_in_flight_),
      results_(options_.targets.size()) {
  for (uint32_t i = max_in_flight_; i-- > 0;) free_records_.push_back(i);
}

Result<std::unique_ptr<Sender>> Sender::create(const Clock& clock, client::Transport& transport,
                                               const SenderConfig& config) {
  std::unique_ptr<Sender> sender(new Sender(clock, transport, config));
  client::EngineOptions options;
  options.session = config.session;
  options.first_request = config.first_request;
  options.first_sequence = config.first_sequence;
  options.max_in_flight = sender->max_in_flight_;
  options.fragment_bytes = config.options->fragment_bytes;
  options.retry = config.options->retry;
  ITIF_ASSIGN(sender->engine_, client::ClientEngine::create(clock, transport, *sender, options));
  return sender;
}

bool Sender::send_one(uint64_t intended_ns, uint64_t now_ns) noexcept {
  if (free_records_.empty()) return false;
  const RequestMix::Draw draw = mix_.draw();
  const uint32_t number = free_records_.back();
  const client::RequestSpec spec{.credential = options_.targets[draw.target].credential,
                                 .payload_kind = options_.payload_kind,
                                 .result_kind = options_.result_kind,
                                 .flags = options_.flags,
                                 .budget_us = draw.budget_us,
                                 .payload = draw.payload,
                                 .user_tag = number};
  if (engine_->submit(spec) != client::Submit::kAccepted) return false;
  free_records_.pop_back();
  const bool measured = intended_ns >= measure_from_ns_;
  records_[number] = {.intended_ns = intended_ns,
                      .sent_ns = now_ns,
                      .target = draw.target,
                      .num_tokens = draw.num_tokens,
                      .budget_us = draw.budget_us,
                      .measured = measured};
  ++num_sent_;
  ++live_counts_.sent;
  if (measured) {
    ++results_.targets[draw.target].sent;
    results_.lateness_ns.record(now_ns - intended_ns);
    results_.last_lateness_ns = now_ns - intended_ns;
  } else {
    ++results_.warmup_requests;
  }
  return true;
}

void Sender::send_due(uint64_t now_ns) noexcept {
  for (uint32_t i = 0; i < kSendsPerTurn && num_sent_ < max_requests_; ++i) {
    if (options_.arrivals == Arrivals::kClosed) {
      if (now_ns < config_.start_ns || !send_one(now_ns, now_ns)) break;
      continue;
    }
    const uint64_t due_ns = schedule_.next_ns();
    if (due_ns > now_ns || due_ns >= send_until_ns_ || !send_one(due_ns, now_ns)) break;
    schedule_.advance();
  }
}

// True if sending can end. Requests that were due before the end are still sent after it, for at
// most kGraceNs and while max_in_flight allows.
bool Sender::sent_all_due(uint64_t now_ns) const noexcept {
  if (now_ns < send_until_ns_) return false;
  if (options_.arrivals == Arrivals::kClosed || free_records_.empty()) return true;
  return schedule_.next_ns() >= send_until_ns_ || now_ns >= send_until_ns_ + kGraceNs;
}

void Sender::end_sending(uint64_t now_ns) noexcept {
  // After a stop, requests that became due since the last look are not missing.
  const uint64_t end_ns = std::min(looked_ns_, send_until_ns_);
  results_.measured_ns = end_ns > measure_from_ns_ ? end_ns - measure_from_ns_ : 0;
  if (options_.arrivals != Arrivals::kClosed) {
    uint64_t number = num_sent_;
    for (; schedule_.next_ns() < end_ns && number < max_requests_; schedule_.advance(), ++number) {
      if (schedule_.next_ns() >= measure_from_ns_) ++results_.unsent;
    }
    results_.was_full = results_.unsent > 0 && free_records_.empty();
  }
  drain_until_ns_ = now_ns + options_.drain_ns;
  phase_ = Phase::kDraining;
}

void Sender::finish() noexcept {
  engine_->cancel_all();
  (void)engine_->flush();
  results_.engine = engine_->stats();
  phase_ = Phase::kDone;
}

bool Sender::gives_up(uint64_t now_ns) noexcept {
  if (config_.reachability == nullptr || config_.sockets == nullptr) return false;
  Reachability& all = *config_.reachability;
  if (all.has_answered.load(std::memory_order_relaxed)) return false;
  if (config_.sockets->stats().received > 0) {
    all.has_answered.store(true, std::memory_order_relaxed);
    return false;
  }
  if (config_.sockets->stats().unreachable > 0 && unreachable_since_ns_ == 0)
    unreachable_since_ns_ = now_ns;
  if (unreachable_since_ns_ != 0 && now_ns - unreachable_since_ns_ >= kUnreachableGraceNs)
    failure_ = config_.sockets->unreachable();
  if (failure_) all.has_failed.store(true, std::memory_order_relaxed);
  return all.has_failed.load(std::memory_order_relaxed);
}

uint64_t Sender::step() noexcept {
  if (phase_ == Phase::kDone) return UINT64_MAX;
  (void)engine_->poll();
  if (gives_up(clock_.now_ns())) {
    finish();
    return UINT64_MAX;
  }
  const uint64_t now_ns = clock_.now_ns();
  const auto stop = static_cast<Stop>(config_.stop->load(std::memory_order_relaxed));
  if (phase_ == Phase::kSending) {
    if (stop == Stop::kNo) {
      const uint64_t before = num_sent_;
      send_due(now_ns);
      looked_ns_ = now_ns;
      if (num_sent_ != before) (void)engine_->flush();
    }
    if (stop != Stop::kNo || num_sent_ >= max_requests_ || sent_all_due(now_ns))
      end_sending(now_ns);
  }
  if (phase_ == Phase::kDraining &&
      (engine_->in_flight() == 0 || now_ns >= drain_until_ns_ || stop == Stop::kNow))
    finish();
  live_counts_.in_flight = engine_->in_flight();
  live_counts_.warming_up = now_ns < measure_from_ns_;
  (void)live_.offer(live_counts_, live_interval_);
  return wake_ns(now_ns);
}

uint64_t Sender::wake_ns(uint64_t now_ns) const noexcept {
  if (phase_ == Phase::kDone || engine_->has_unsent()) return now_ns;
  uint64_t wake_ns = engine_->next_timer_ns();
  if (phase_ == Phase::kDraining) return std::min(wake_ns, drain_until_ns_);
  wake_ns = std::min(wake_ns, send_until_ns_);
  if (!free_records_.empty()) {
    wake_ns = std::min(wake_ns, options_.arrivals == Arrivals::kClosed
                                    ? std::max(now_ns, config_.start_ns)
                                    : schedule_.next_ns());
  }
  return wake_ns;
}

void Sender::run() noexcept {
  while (!done()) {
    const uint64_t wake = step();
    if (options_.busy || done()) continue;
    const uint64_t now_ns = clock_.now_ns();
    if (wake > now_ns + kShortestSleep_ns)
      transport_.wait(std::min(wake - now_ns - kShortestSleep_ns / 2, kLongestSleep_ns));
  }
  live_.end(live_counts_, live_interval_);
}

void Sender::on_outcomes(std::span<const client::Outcome> outcomes) noexcept {
  for (const client::Outcome& outcome : outcomes) {
    const auto number = static_cast<uint32_t>(outcome.user_tag);
    const Record record = records_[number];
    free_records_.push_back(number);
    const uint64_t latency_ns =
        outcome.completed_ns > record.intended_ns ? outcome.completed_ns - record.intended_ns : 0;
    TargetResults& target = results_.targets[record.target];
    switch (outcome.kind) {
      case client::OutcomeKind::kAnswered:
        ++live_counts_.answered;
        live_interval_.record(latency_ns);
        if (!record.measured) break;
        ++target.answered;
        if (record.budget_us == 0 || latency_ns <= uint64_t{record.budget_us} * 1000)
          target.add_in_time(record.num_tokens);
        target.latency_ns.record(latency_ns);
        results_.server_ns.record(uint64_t{outcome.server_us} * 1000);
        break;
      case client::OutcomeKind::kRefused:
        ++live_counts_.refused;
        if (!record.measured) break;
        ++target.refused;
        ++target.refused_by[static_cast<size_t>(outcome.status)];
        if (const uint64_t deadline_ns = record.sent_ns + uint64_t{record.budget_us} * 1000;
            is_by_deadline(outcome.status) && outcome.completed_ns >= deadline_ns)
          results_.refusal_delay_ns.record(outcome.completed_ns - deadline_ns);
        break;
      case client::OutcomeKind::kLost:
      case client::OutcomeKind::kCancelled:  // unanswered at the end of the drain
        ++live_counts_.lost;
        if (record.measured) ++target.lost;
        break;
    }
    if (record.measured && outcome.tries > 1) ++results_.sent_again;
  }
}

}  // namespace itif::loadgen
