#include "sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace itif::sim {
namespace {

constexpr uint32_t kFlows = 4;
// A poll does bounded work, so a settled state needs several; far more is a loop without an end.
constexpr int kMaxPolls = 1'000'000;
// Longer than any timer of the appliance; a run that is still busy then does not end.
constexpr uint64_t kMaxIdleNs = 3'600'000'000'000;

}  // namespace

Simulation::Simulation(const Scenario& scenario, Nic& nic, const SimulationOptions& options)
    : scenario_(scenario),
      options_(options),
      nic_(nic),
      random_(scenario.seed),
      link_(clock_, nic, scenario.link, kFlows, random_.next()),
      log_(options.log_file) {}

Simulation::~Simulation() {
  engine_.reset();
  appliance_.reset();
  nic_.clear();
}

Result<std::unique_ptr<Simulation>> Simulation::create(const Scenario& scenario, Nic& nic,
                                                       const SimulationOptions& options) {
  ITIF_TRY(check(scenario));
  std::unique_ptr<Simulation> sim(new Simulation(scenario, nic, options));
  ITIF_ASSIGN(sim->directory_, TemporaryDirectory::make());
  ITIF_TRY(sim->make_sources());
  nic.clear();
  ITIF_ASSIGN(sim->appliance_, Appliance::create(sim->clock_, nic, scenario, sim->random_.next()));
  ITIF_TRY(sim->make_targets());
  for (const Target& target : sim->targets_)
    ITIF_TRY(sim->appliance_->add_tenant(target.record, target.group));
  ITIF_TRY(sim->make_engine());
  sim->start_ns_ = sim->last_outcome_ns_ = sim->clock_.now_ns();
  for (size_t i = 0; i < sim->sources_.size(); ++i) {
    Source& source = sim->sources_[i];
    const uint32_t max_tokens = sim->appliance_->max_tokens(i);
    GroupScenario group = scenario.group(i);
    if (source.spec.takes_images())
      group.lengths = {.kind = LengthKind::kUniform, .from = max_tokens, .to = max_tokens};
    ITIF_ASSIGN(source.workload,
                Workload::make(group, source.duration_ns, max_tokens, sim->random_.next(),
                               max_output_tokens(group, source.spec)));
    sim->make_payloads(i);
    source.start_ns = sim->start_ns_ + scenario.group(i).slice.from_ns;
  }
  sim->results_.tenants.resize(sim->targets_.size());
  return sim;
}

void Simulation::impersonate(uint32_t tenant, uint32_t victim) {
  appliance_->remove_tenant(targets_[tenant].record.id);
  targets_[tenant].credential.tenant_id = targets_[victim].record.id;
}

void Simulation::set_objective(uint32_t tenant, uint64_t slo_ns) {
  targets_[tenant].record.slo_ns = slo_ns;
  appliance_->set_objective(targets_[tenant].record.id, slo_ns);
}

Status Simulation::make_engine() {
  client::EngineOptions options;
  options.session = static_cast<uint32_t>(random_.next());
  options.first_request = random_.next() >> 16;
  options.max_in_flight = scenario_.client.max_in_flight;
  options.retry = {.max_tries = scenario_.client.tries,
                   .initial_rto_ns = scenario_.client.rto_ns,
                   .timeout_ns = scenario_.client.timeout_ns,
                   .max_refusal_retries = scenario_.client.refusal_retries};
  ITIF_ASSIGN(engine_, client::ClientEngine::create(clock_, link_, *this, options));
  return {};
}

Status Simulation::restart(const std::vector<tenant::Record>& records) {
  const Appliance::Totals totals = appliance_->totals();
  ended_busy_ns_ += appliance_->busy_ns();
  ended_.batches += totals.batches;
  ended_.requests += totals.requests;
  ended_.tokens += totals.tokens;
  ended_.rows += totals.rows;
  const auto tables = appliance_->tables();
  appliance_->stop();
  appliance_.reset();
  nic_.clear();
  link_.clear();
  ITIF_ASSIGN(appliance_, Appliance::create(clock_, nic_, scenario_, random_.next(), tables));
  logged_batches_ = logged_tokens_ = logged_rows_ = 0;
  noted_.clear();
  for (const tenant::Record& record : records) ITIF_TRY(appliance_->add_tenant(record));
  return {};
}

Status Simulation::remove_all() {
  appliance_->remove_all();
  for (int i = 0; i < 1000 && appliance_->num_leaving() > 0; ++i) {
    settle();
    clock_.advance_ns(1'000'000);
  }
  if (appliance_->num_leaving() > 0)
    return fail(Code::kInternal, fmt::format("{} tenants never leave", appliance_->num_leaving()));
  return {};
}

// Submits the requests that have arrived. A request that finds the engine full counts as lost.
void Simulation::submit_due() {
  for (size_t i = 0; i < sources_.size(); ++i) submit_due(i);
}

void Simulation::submit_due(size_t group) {
  Source& source = sources_[group];
  const Arrivals& arrivals = scenario_.group(group).arrivals;
  const uint64_t limit = scenario_.max_requests;
  for (;;) {
    if (limit > 0 && results_.requests >= limit) {
      source.next.reset();
      return;
    }
    if (arrivals.kind == ArrivalKind::kClosed) {
      if (now_ns() < source.start_ns || now_ns() - source.start_ns >= source.duration_ns ||
          source.in_flight >= arrivals.concurrency)
        return;
      Draw draw = *source.workload->next();
      draw.arrival_ns = now_ns() - source.start_ns;
      submit(group, draw);
      continue;
    }
    if (!source.next || source.start_ns + source.next->arrival_ns > now_ns()) return;
    submit(group, *source.next);
    source.next = source.workload->next();
  }
}

void Simulation::submit(size_t group, const Draw& draw) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(pending_.size()));
    pending_.emplace_back();
  }
  const uint32_t tag = free_.back();
  free_.pop_back();
  Source& source = sources_[group];
  const uint32_t tenant = source.first_tenant + draw.tenant;
  const Target& target = targets_[tenant];
  Pending& pending = pending_[tag];
  CHECK(!pending.in_use);
  pending = {.group = group,
             .arrival_ns = source.start_ns + draw.arrival_ns,
             .deadline_ns = draw.deadline_ns,
             .tenant = tenant,
             .num_tokens = draw.num_tokens,
             .first_id = static_cast<uint32_t>(random_.below(kIdTable)),
             .mark = target.mark,
             .measured = source.start_ns - start_ns_ + draw.arrival_ns >= scenario_.warmup_ns,
             .in_use = true,
             .num_output = draw.num_output};
  const bool generates = draw.num_output > 0;
  if (generates) {
    const auto text = std::span(source.ids).subspan(pending.first_id, draw.num_tokens);
    pending.source.assign(text.begin(), text.end());
    // The simulated decoder reads there how many tokens follow (device/sim/next_tokens.h).
    pending.source.front() = static_cast<uint16_t>(draw.num_output);
  }
  ++results_.requests;
  ++source.in_flight;
  if (GroupInterval* interval = results_.interval_at(group, now_ns() - start_ns_)) ++interval->sent;
  if (pending.measured) ++results_.tenants[tenant].sent;
  if (options_.logs_events && generates)
    log_.add(now_ns(), "request {} tenant {} tokens {} output {} deadline {}", tag,
             target.record.id, draw.num_tokens, draw.num_output, draw.deadline_ns);
  else if (options_.logs_events)
    log_.add(now_ns(), "request {} tenant {} tokens {} deadline {}", tag, target.record.id,
             draw.num_tokens, draw.deadline_ns);
  const client::Submit submitted = engine_->submit(
      {.credential = target.credential,
       .payload_kind =
           source.image.empty() ? wire::PayloadKind::kTokensU16 : wire::PayloadKind::kImageU8,
       .result_kind = generates ? wire::ResultKind::kTokens : wire::ResultKind::kLogits,
       .budget_us = static_cast<uint32_t>(std::min<uint64_t>(draw.deadline_ns / 1000, UINT32_MAX)),
       .payload = payload_of(pending),
       .user_tag = tag});
  if (submitted == client::Submit::kAccepted) return;
  const client::Outcome lost = {
      .user_tag = tag, .kind = client::OutcomeKind::kLost, .model_version = {}, .result = {}};
  on_outcomes({&lost, 1});
}

void Simulation::on_outcomes(std::span<const client::Outcome> outcomes) noexcept {
  for (const client::Outcome& outcome : outcomes) {
    const auto tag = static_cast<uint32_t>(outcome.user_tag);
    Pending& pending = pending_[tag];
    CHECK(pending.in_use);  // one outcome per request
    pending.in_use = false;
    --sources_[pending.group].in_flight;
    free_.push_back(tag);
    last_outcome_ns_ = now_ns();
    if (options_.logs_events && pending.num_output > 0)
      log_.add(now_ns(), "outcome {} {} {} tries {} output {}", tag,
               client::outcome_name(outcome.kind), wire::status_name(outcome.status), outcome.tries,
               outcome.result.size() / sizeof(int32_t));
    else if (options_.logs_events)
      log_.add(now_ns(), "outcome {} {} {} tries {}", tag, client::outcome_name(outcome.kind),
               wire::status_name(outcome.status), outcome.tries);
    TenantResults& results = results_.tenants[pending.tenant];
    const uint64_t latency_ns = now_ns() - pending.arrival_ns;
    const bool answered = outcome.kind == client::OutcomeKind::kAnswered;
    if (answered && !is_right(pending, outcome.result)) ++results_.wrong_answers;
    if (GroupInterval* interval = results_.interval_at(pending.group, now_ns() - start_ns_)) {
      interval->answered += answered;
      interval->missed +=
          answered && objective_of(pending) > 0 && latency_ns > objective_of(pending);
      interval->latency_ns += answered ? latency_ns : 0;
    }
    if (!pending.measured) continue;
    if (answered) {
      ++results.answered;
      results.tokens += pending.num_tokens;
      results.output_tokens += pending.num_output;
      results.latency_ns.record(latency_ns);
      if (pending.deadline_ns == 0 || latency_ns <= pending.deadline_ns) {
        ++results.in_time;
        results.utility += 1.0 / pending.num_tokens;
      }
    } else if (outcome.kind == client::OutcomeKind::kRefused) {
      ++results.refused;
      ++results.refused_by[static_cast<size_t>(outcome.status)];
    } else {
      ++results.lost;
    }
  }
}

uint64_t Simulation::objective_of(const Pending& pending) const noexcept {
  return targets_[pending.tenant].record.slo_ns;
}

// Adds the figures since the last call to the groups' time lines, if the scenario has them.
void Simulation::note_groups() {
  noted_.resize(sources_.size());
  for (size_t i = 0; i < sources_.size(); ++i) {
    const uint64_t at_ns = now_ns() - start_ns_;
    GroupInterval* interval = results_.interval_at(i, at_ns);
    if (interval == nullptr) continue;
    interval->share_percent = appliance_->share_percent(i);
    const Appliance::Totals totals = appliance_->totals_of(i);
    const uint64_t batches = totals.batches - noted_[i].batches;
    const uint64_t requests = totals.requests - noted_[i].requests;
    noted_[i] = totals;
    interval->batches += batches;
    interval->batch_requests += requests;
    if (options_.notes_batches && batches > 0)
      results_.groups[i].batches.push_back(
          {.at_ns = at_ns, .num_requests = static_cast<uint32_t>(requests / batches)});
  }
}

// Returns true if the arrivals may end before the scenario's duration.
bool Simulation::ends_early() const noexcept {
  if (scenario_.max_requests > 0) return true;
  for (size_t i = 0; i < sources_.size(); ++i)
    if (scenario_.group(i).arrivals.kind == ArrivalKind::kTrace) return true;
  return false;
}

void Simulation::log_batches() {
  const Appliance::Totals totals = appliance_->totals();
  if (totals.batches == logged_batches_) return;
  log_.add(now_ns(), "batches {} tokens {} rows {}", totals.batches - logged_batches_,
           totals.tokens - logged_tokens_, totals.rows - logged_rows_);
  if (results_.generates) {
    const Appliance::KvFigures kv = appliance_->kv();
    log_.add(now_ns(), "kv blocks {} reserved {}", kv.used, kv.reserved);
  }
  logged_batches_ = totals.batches;
  logged_tokens_ = totals.tokens;
  logged_rows_ = totals.rows;
}

// Polls everything until nothing is left to do at this time.
size_t Simulation::settle() {
  size_t total = 0;
  for (int i = 0; i < kMaxPolls; ++i) {
    submit_due();
    size_t done = engine_->poll();
    done += link_.deliver();
    done += appliance_->poll();
    done += link_.collect();
    if (options_.logs_events) log_batches();
    total += done;
    if (done == 0 && !engine_->has_unsent()) return total;
  }
  CHECK(!"the simulation makes no progress");
  return total;
}

uint64_t Simulation::next_event_ns() noexcept {
  uint64_t next_ns = std::min(link_.next_event_ns(), appliance_->next_poll_ns());
  if (engine_->in_flight() > 0) next_ns = std::min(next_ns, engine_->next_timer_ns());
  for (size_t i = 0; i < sources_.size(); ++i) {
    const Source& source = sources_[i];
    if (source.next) next_ns = std::min(next_ns, source.start_ns + source.next->arrival_ns);
    if (scenario_.group(i).arrivals.kind == ArrivalKind::kClosed && source.start_ns > now_ns())
      next_ns = std::min(next_ns, source.start_ns);
  }
  return next_ns;
}

bool Simulation::wants_more() const noexcept {
  const auto has_more = [this](const Source& source) {
    return source.next || source.start_ns > now_ns();
  };
  return std::ranges::any_of(sources_, has_more) || engine_->in_flight() > 0 ||
         link_.next_event_ns() != UINT64_MAX || !appliance_->is_idle();
}

// No sequence is left, so none may have K/V memory.
Status Simulation::check_memory() const {
  const Appliance::KvFigures kv = appliance_->kv();
  if (kv.used == 0 && kv.reserved == 0) return {};
  return fail(Code::kInternal,
              fmt::format("{} K/V blocks are used and {} reserved, but no sequence runs", kv.used,
                          kv.reserved));
}

Status Simulation::run(Intruder* intruder) {
  for (size_t i = 0; i < sources_.size(); ++i)
    if (scenario_.group(i).arrivals.kind != ArrivalKind::kClosed)
      sources_[i].next = sources_[i].workload->next();
  settle();
  for (;;) {
    const uint64_t intruder_ns = intruder ? intruder->next_ns() : UINT64_MAX;
    if (!wants_more() && intruder_ns == UINT64_MAX) break;
    const uint64_t next_ns = std::min(next_event_ns(), intruder_ns);
    if (next_ns == UINT64_MAX || next_ns - now_ns() > kMaxIdleNs)
      return fail(Code::kInternal,
                  fmt::format("at {} ns requests are left, but nothing will happen", now_ns()));
    if (next_ns > now_ns()) clock_.advance_ns(next_ns - now_ns());
    if (intruder && intruder_ns <= now_ns()) ITIF_TRY(intruder->act());
    settle();
    note_groups();
  }
  ITIF_TRY(check_memory());
  const Appliance::Totals totals = appliance_->totals();
  results_.simulated_ns = std::max<uint64_t>(1, last_outcome_ns_ - start_ns_);
  const uint64_t end_ns = std::max(results_.simulated_ns, ends_early() ? 0 : scenario_.duration_ns);
  results_.measured_ns = end_ns - std::min(end_ns, scenario_.warmup_ns);
  results_.busy_ns = ended_busy_ns_ + appliance_->busy_ns();
  results_.batches = ended_.batches + totals.batches;
  results_.batch_requests = ended_.requests + totals.requests;
  results_.rows = ended_.rows + totals.rows;
  results_.tokens = ended_.tokens + totals.tokens;
  for (size_t i = 0; i < sources_.size(); ++i) {
    const Appliance::Totals of_group = appliance_->totals_of(i);
    if (of_group.answered > 0)
      results_.groups[i].mean_execute_ms =
          static_cast<double>(of_group.execute_ns) / static_cast<double>(of_group.answered) / 1e6;
  }
  results_.log_hash = log_.hash();
  results_.log_events = log_.num_events();
  results_.link = link_.figures();
  results_.engine = engine_->stats();
  return {};
}

}  // namespace itif::sim
