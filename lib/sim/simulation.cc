#include "sim/simulation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "device/sim/next_tokens.h"
#include "device/sim/row_marks.h"
#include "model/text_positions.h"

namespace itif::sim {
namespace {

constexpr uint32_t kFlows = 4;
constexpr size_t kIdTable = 65536;
constexpr uint64_t kWeightsSeed = 0x7765'6967'6874'7300;
// A poll does bounded work, so a settled state needs several; far more is a loop without an end.
constexpr int kMaxPolls = 1'000'000;
// Longer than any timer of the appliance; a run that is still busy then does not end.
constexpr uint64_t kMaxIdleNs = 3'600'000'000'000;

wire::Auth auth_of(const std::string& name) {
  return name == "full"   ? wire::Auth::kFull
         : name == "none" ? wire::Auth::kNone
                          : wire::Auth::kHeader;
}

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
  ITIF_ASSIGN(sim->spec_, spec_of(scenario.model));
  ITIF_ASSIGN(sim->directory_, TemporaryDirectory::make());
  nic.clear();
  ITIF_ASSIGN(sim->appliance_, Appliance::create(sim->clock_, nic, scenario, sim->random_.next()));
  ITIF_TRY(sim->make_targets());
  for (const Target& target : sim->targets_) ITIF_TRY(sim->appliance_->add_tenant(target.record));
  ITIF_TRY(sim->make_engine());
  const uint32_t max_tokens = sim->appliance_->max_tokens();
  ITIF_ASSIGN(sim->workload_, Workload::make(scenario, max_tokens, sim->random_.next(),
                                             max_output_tokens(scenario, sim->spec_)));
  for (size_t i = 0; i < kIdTable + max_tokens; ++i)
    sim->ids_.push_back(static_cast<uint16_t>(sim->random_.below(sim->spec_.vocab)));
  sim->results_.generates = generates(sim->spec_);
  sim->results_.tenants.resize(scenario.tenants.size());
  sim->start_ns_ = sim->last_outcome_ns_ = sim->clock_.now_ns();
  return sim;
}

Status Simulation::make_targets() {
  for (uint32_t i = 0; i < scenario_.tenants.size(); ++i) {
    const TenantChoice& choice = scenario_.tenants[i];
    Target& target = targets_.emplace_back();
    target.record.name = choice.name;
    static_cast<tenant::Settings&>(target.record) = choice.settings;
    target.record.auth = static_cast<uint8_t>(auth_of(scenario_.client.auth));
    ITIF_TRY(renew(i, i + 1));
  }
  return {};
}

Status Simulation::renew(uint32_t tenant, uint32_t id) {
  Target& target = targets_[tenant];
  target.record.id = id;
  target.record.key.epoch = 1;
  for (std::byte& byte : target.record.key.bytes) byte = static_cast<std::byte>(random_.next());
  target.credential = {.tenant_id = id,
                       .key = target.record.key.bytes,
                       .key_epoch = 1,
                       .auth = auth_of(scenario_.client.auth)};
  // Without marks nothing tells models apart: one set of files is enough.
  if (scenario_.passes_marks || num_models_ == 0) {
    target.mark = device::model_mark(kWeightsSeed + num_models_);
    target.record.model_dir = fmt::format("{}/model{}", directory_.path(), num_models_++);
    return write_model(spec_, target.mark, target.record.model_dir,
                       {.max_output_tokens = max_output_tokens(scenario_, spec_),
                        .num_beams = scenario_.output.beams});
  }
  target.record.model_dir = targets_.front().record.model_dir;
  return {};
}

void Simulation::impersonate(uint32_t tenant, uint32_t victim) {
  appliance_->remove_tenant(targets_[tenant].record.id);
  targets_[tenant].credential.tenant_id = targets_[victim].record.id;
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

// Submits the requests that have arrived. One that finds the engine full is lost, as measured.
void Simulation::submit_due() {
  const uint64_t limit = scenario_.max_requests;
  const bool is_closed = scenario_.arrivals.kind == ArrivalKind::kClosed;
  for (;;) {
    if (limit > 0 && results_.requests >= limit) {
      next_.reset();
      return;
    }
    if (is_closed) {
      if (now_ns() - start_ns_ >= scenario_.duration_ns ||
          engine_->in_flight() >= scenario_.arrivals.concurrency)
        return;
      Draw draw = *workload_->next();
      draw.arrival_ns = now_ns() - start_ns_;
      submit(draw);
      continue;
    }
    if (!next_ || start_ns_ + next_->arrival_ns > now_ns()) return;
    submit(*next_);
    next_ = workload_->next();
  }
}

void Simulation::submit(const Draw& draw) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(pending_.size()));
    pending_.emplace_back();
  }
  const uint32_t tag = free_.back();
  free_.pop_back();
  const Target& target = targets_[draw.tenant];
  Pending& pending = pending_[tag];
  CHECK(!pending.in_use);
  pending = {.arrival_ns = start_ns_ + draw.arrival_ns,
             .deadline_ns = draw.deadline_ns,
             .tenant = draw.tenant,
             .num_tokens = draw.num_tokens,
             .first_id = static_cast<uint32_t>(random_.below(kIdTable)),
             .mark = target.mark,
             .measured = draw.arrival_ns >= scenario_.warmup_ns,
             .in_use = true,
             .num_output = draw.num_output};
  const bool generates = draw.num_output > 0;
  if (generates) {
    const auto text = std::span(ids_).subspan(pending.first_id, draw.num_tokens);
    pending.source.assign(text.begin(), text.end());
    // The simulated decoder reads there how many tokens follow (device/sim/next_tokens.h).
    pending.source.front() = static_cast<uint16_t>(draw.num_output);
  }
  ++results_.requests;
  if (pending.measured) ++results_.tenants[draw.tenant].sent;
  if (options_.logs_events && generates)
    log_.add(now_ns(), "request {} tenant {} tokens {} output {} deadline {}", tag,
             target.record.id, draw.num_tokens, draw.num_output, draw.deadline_ns);
  else if (options_.logs_events)
    log_.add(now_ns(), "request {} tenant {} tokens {} deadline {}", tag, target.record.id,
             draw.num_tokens, draw.deadline_ns);
  const auto payload = std::as_bytes(payload_of(pending));
  const client::Submit submitted = engine_->submit(
      {.credential = target.credential,
       .payload_kind = wire::PayloadKind::kTokensU16,
       .result_kind = generates ? wire::ResultKind::kTokens : wire::ResultKind::kLogits,
       .budget_us = static_cast<uint32_t>(std::min<uint64_t>(draw.deadline_ns / 1000, UINT32_MAX)),
       .payload = payload,
       .user_tag = tag});
  if (submitted == client::Submit::kAccepted) return;
  const client::Outcome lost = {.user_tag = tag, .kind = client::OutcomeKind::kLost, .result = {}};
  on_outcomes({&lost, 1});
}

std::span<const uint16_t> Simulation::payload_of(const Pending& pending) const {
  if (pending.num_output > 0) return pending.source;
  return std::span(ids_).subspan(pending.first_id, pending.num_tokens);
}

bool Simulation::is_right(const Pending& pending, std::span<const std::byte> result) const {
  if (pending.num_output > 0) return has_right_tokens(pending, result);
  return !scenario_.passes_marks || has_right_logit(pending, result);
}

bool Simulation::has_right_tokens(const Pending& pending, std::span<const std::byte> result) const {
  std::vector<int32_t> tokens(pending.num_output);
  if (result.size() != tokens.size() * sizeof(tokens[0])) return false;
  std::memcpy(tokens.data(), result.data(), result.size());
  if (!scenario_.passes_marks) return tokens.back() == device::kEndToken;
  const std::vector<int32_t> source(pending.source.begin(), pending.source.end());
  return tokens ==
         device::expected_tokens(pending.mark, source,
                                 {.encoder_layers = spec_.layers,
                                  .layers = static_cast<uint32_t>(spec_.number("decoder_layers")),
                                  .vocab = spec_.vocab,
                                  .start = static_cast<int32_t>(spec_.vocab) - 1,
                                  .end = device::kEndToken});
}

bool Simulation::has_right_logit(const Pending& pending, std::span<const std::byte> result) const {
  float logit = 0;
  if (result.size() < sizeof(logit)) return false;
  std::memcpy(&logit, result.data(), sizeof(logit));
  const auto text = payload_of(pending);
  const std::vector<int32_t> ids(text.begin(), text.end());
  std::vector<uint32_t> positions(text.size());
  model::TextPositions(spec_).number(std::as_bytes(text).data(), text.size(), sizeof(text[0]),
                                     positions.data());
  return logit == device::expected_logit(pending.mark, ids, positions, spec_.layers);
}

void Simulation::on_outcomes(std::span<const client::Outcome> outcomes) noexcept {
  for (const client::Outcome& outcome : outcomes) {
    const auto tag = static_cast<uint32_t>(outcome.user_tag);
    Pending& pending = pending_[tag];
    CHECK(pending.in_use);  // one outcome per request
    pending.in_use = false;
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
  if (next_) next_ns = std::min(next_ns, start_ns_ + next_->arrival_ns);
  return next_ns;
}

bool Simulation::wants_more() const noexcept {
  return next_ || engine_->in_flight() > 0 || link_.next_event_ns() != UINT64_MAX ||
         !appliance_->is_idle();
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
  if (scenario_.arrivals.kind != ArrivalKind::kClosed) next_ = workload_->next();
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
  }
  ITIF_TRY(check_memory());
  const Appliance::Totals totals = appliance_->totals();
  results_.simulated_ns = std::max<uint64_t>(1, last_outcome_ns_ - start_ns_);
  const uint64_t end_ns =
      std::max(results_.simulated_ns,
               scenario_.arrivals.kind == ArrivalKind::kTrace || scenario_.max_requests > 0
                   ? 0
                   : scenario_.duration_ns);
  results_.measured_ns = end_ns - std::min(end_ns, scenario_.warmup_ns);
  results_.busy_ns = ended_busy_ns_ + appliance_->busy_ns();
  results_.batches = ended_.batches + totals.batches;
  results_.batch_requests = ended_.requests + totals.requests;
  results_.rows = ended_.rows + totals.rows;
  results_.tokens = ended_.tokens + totals.tokens;
  results_.log_hash = log_.hash();
  results_.log_events = log_.num_events();
  results_.link = link_.figures();
  results_.engine = engine_->stats();
  return {};
}

}  // namespace itif::sim
