#include "sim/faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/random.h"
#include "control/registry.h"
#include "pipeline/figures.h"
#include "plan/planner_names.h"
#include "sched/policy_names.h"
#include "sim/simulation.h"

namespace itif::sim {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr uint64_t kMaxGapNs = 120 * kMs;  // between two acts
constexpr uint64_t kGeneratingSeeds = 4;
constexpr uint64_t kMaxReplaceNs = 10 * kMs;  // between a tenant's removal and the next one's start

// Settings with which planners and policies run, beside every name without any. Rows are shorter
// than some requests, and so are slots.
constexpr std::string_view kPlannersWithSettings[] = {
    "concat:row_tokens=64", "slotted:row_tokens=64", "slotted:row_tokens=80,slot_tokens=40",
    "slotted:slot_tokens=30"};
constexpr std::string_view kPoliciesWithSettings[] = {
    "das:fair", "das:eta=0.3,weighted", "slotted_das:eta=0.5", "slotted_das:weighted,fair"};

std::string_view one_of(const std::vector<std::string_view>& texts, Random& random) {
  return texts[random.below(texts.size())];
}

// The planners that the model can use: a decoder's group measures no cost tables.
std::vector<std::string_view> planners_for(const ModelChoice& model) {
  std::vector<std::string_view> planners(plan::kPlannerNames);
  planners.insert(planners.end(), std::begin(kPlannersWithSettings),
                  std::end(kPlannersWithSettings));
  std::erase_if(planners, [&](std::string_view text) { return !check_planner(model, text); });
  return planners;
}

std::vector<std::string_view> policies() {
  std::vector<std::string_view> policies(sched::kPolicyNames);
  policies.insert(policies.end(), std::begin(kPoliciesWithSettings),
                  std::end(kPoliciesWithSettings));
  return policies;
}

// Makes the scenario's model an encoder-decoder, whose sequences run for many steps. Its K/V cache
// is small, so that sequences also wait for memory.
void generate(Scenario& s) {
  Random random(s.seed ^ 0x746f'6b65'6e73);
  s.model = {.preset = "marian-tiny",
             .layers = 2,
             .hidden = 64,
             .heads = 2,
             .max_positions = 128,
             .decoder_layers = 2,
             .vocab = 1024};
  constexpr std::array<const char*, 3> kCleanings = {"sequence", "slot", "batch"};
  s.batching.planner = one_of(planners_for(s.model), random);
  s.batching.joining = random.below(2) == 0 ? "steps" : "batches";
  s.batching.cleaning = kCleanings[random.below(kCleanings.size())];
  s.batching.max_beams = 8 + static_cast<uint32_t>(random.below(25));
  s.batching.kv_cache_bytes = 1u << 20;
  s.device.batch_overhead_ns = random.below(3) * kMs;
  s.arrivals.rate = 100 + static_cast<double>(random.below(500));
  s.lengths = {.kind = LengthKind::kUniform, .from = 1, .to = 40};
  s.output = {.kind = OutputKind::kUniform,
              .from = 1,
              .to = 24,
              .beams = 1 + static_cast<uint32_t>(random.below(3))};
}

}  // namespace

Scenario faults_scenario(uint64_t seed) {
  Random random(seed ^ 0x6661'756c'7473);
  Scenario s;
  s.seed = seed;
  s.passes_marks = true;
  s.duration_ns = (200 + random.below(400)) * kMs;
  s.model = {.preset = "bert-tiny", .layers = 2, .hidden = 64, .heads = 2, .max_positions = 128};
  s.batching.planner = one_of(planners_for(s.model), random);
  s.batching.scheduler = one_of(policies(), random);
  s.batching.max_tokens = 128;
  s.batching.max_requests = 1 + static_cast<uint32_t>(random.below(16));
  s.batching.max_tenants = 8;
  s.batching.queue_requests = 64;
  s.data_plane.max_contexts = 256;
  s.data_plane.tenant_max_contexts = 100;
  s.data_plane.reassembly_timeout_ns = 50 * kMs;
  // Slow batches, so that requests wait when their tenant or the device goes.
  s.device.batch_overhead_ns = random.below(8) * kMs;
  s.arrivals.rate = 300 + static_cast<double>(random.below(1500));
  s.lengths = {.kind = LengthKind::kUniform, .from = 1, .to = 100};
  if (random.below(2) == 0)
    s.deadlines = {.kind = DeadlineKind::kUniform, .from_ns = kMs, .to_ns = 100 * kMs};
  s.client = {.tries = 4,
              .rto_ns = 20 * kMs,
              .timeout_ns = 2'000 * kMs,
              .refusal_retries = static_cast<uint32_t>(random.below(3)),
              .max_in_flight = 1024,
              .auth = "full"};
  const auto rarely = [&] { return random.below(3) == 0 ? 0 : random.uniform() * 0.1; };
  s.link = {.rate_bps = 1e9,
            .delay_ns = 20'000,
            .jitter_ns = random.below(500'000),
            .loss = rarely(),
            .duplication = rarely(),
            .corruption = rarely()};
  // The last one is the client with a wrong key.
  s.tenants.resize(3 + random.below(3));
  for (size_t i = 0; i < s.tenants.size(); ++i)
    s.tenants[i] = {.name = fmt::format("tenant{}", i),
                    .share = i + 1 == s.tenants.size() ? 0.2 : 0.5 + random.uniform(),
                    .settings = {.weight = 1 + static_cast<uint32_t>(random.below(4))}};
  if (seed % kGeneratingSeeds == 0) generate(s);
  return s;
}

namespace {

class Faults final : public Intruder {
 public:
  Faults(Simulation& simulation, const Scenario& scenario, FaultFigures& figures)
      : simulation_(simulation),
        figures_(figures),
        random_(scenario.seed ^ 0x6163'7473),
        num_tenants_(static_cast<uint32_t>(scenario.tenants.size()) - 1),
        end_ns_(simulation.start_ns() + scenario.duration_ns) {
    is_served_.assign(num_tenants_, true);
    schedule();
  }

  Status start(const std::string& directory) {
    state_dir_ = directory + "/state";
    ITIF_ASSIGN(registry_, control::Registry::open(state_dir_));
    for (uint32_t i = 0; i < num_tenants_; ++i) {
      ITIF_ASSIGN(const uint32_t id, registry_->allocate_id());
      if (id != simulation_.record(i).id)
        return fail(Code::kInternal, "a new registry's ids do not count from 1");
      ITIF_TRY(registry_->insert(simulation_.record(i)));
    }
    return {};
  }

  uint64_t next_ns() const noexcept override { return next_ns_; }

  Status act() override {
    if (next_added_ < num_tenants_) {
      const uint32_t tenant = std::exchange(next_added_, UINT32_MAX);
      schedule();
      return churn(tenant);
    }
    const uint64_t what = random_.below(8);
    schedule();
    if (what == 0) return restart();
    if (what <= 2) return break_device();
    return churn(static_cast<uint32_t>(random_.below(num_tenants_)));
  }

 private:
  void schedule() {
    next_ns_ = simulation_.now_ns() + 1 + random_.below(kMaxGapNs);
    if (next_ns_ > end_ns_) next_ns_ = UINT64_MAX;
  }

  Status restart() {
    simulation_.log().add(simulation_.now_ns(), "restart");
    ++figures_.restarts;
    registry_.reset();
    ITIF_ASSIGN(registry_, control::Registry::open(state_dir_));
    ITIF_ASSIGN(const std::vector<tenant::Record> records, registry_->load());
    return simulation_.restart(records);
  }

  Status break_device() {
    simulation_.log().add(simulation_.now_ns(), "device fault");
    ++figures_.device_faults;
    simulation_.appliance().break_device();
    return {};
  }

  Status churn(uint32_t tenant) {
    if (is_served_[tenant]) {
      const uint32_t id = simulation_.record(tenant).id;
      simulation_.log().add(simulation_.now_ns(), "remove tenant {}", id);
      ++figures_.tenants_removed;
      is_served_[tenant] = false;
      simulation_.appliance().remove_tenant(id);
      // Often another model follows immediately and takes the slot as soon as it is free.
      if (random_.below(2) == 0) {
        next_added_ = tenant;
        next_ns_ = simulation_.now_ns() + 1 + random_.below(kMaxReplaceNs);
      }
      return registry_->remove(id);
    }
    ITIF_ASSIGN(const uint32_t id, registry_->allocate_id());
    simulation_.log().add(simulation_.now_ns(), "add tenant {}", id);
    ++figures_.tenants_added;
    is_served_[tenant] = true;
    ITIF_TRY(simulation_.renew(tenant, id));
    ITIF_TRY(registry_->insert(simulation_.record(tenant)));
    Status added = simulation_.appliance().add_tenant(simulation_.record(tenant));
    // Tenants that have not left yet may hold all slots. The new one is then refused.
    if (added || added.error().code != Code::kResourceExhausted ||
        simulation_.appliance().num_leaving() == 0)
      return added;
    is_served_[tenant] = false;
    return registry_->remove(id);
  }

  Simulation& simulation_;
  FaultFigures& figures_;
  Random random_;
  const uint32_t num_tenants_;
  const uint64_t end_ns_;
  uint64_t next_ns_ = UINT64_MAX;
  uint32_t next_added_ = UINT32_MAX;  // the tenant that the next act adds
  std::vector<bool> is_served_;
  std::string state_dir_;
  std::unique_ptr<control::Registry> registry_;
};

std::unexpected<Error> broken(std::string what) {
  return fail(Code::kInternal, std::move(what));
}

Status check_sums(const Simulation& simulation, const TenantResults& all) {
  const client::EngineStats& e = simulation.engine_stats();
  if (e.submitted != e.answered + e.refused + e.lost + e.cancelled)
    return broken("the client's outcomes are not as many as its requests");
  if (all.sent != all.answered + all.refused + all.lost ||
      all.sent != simulation.results().requests)
    return broken("requests have no outcome, or several");
  uint64_t dropped = 0;
  for (const uint64_t count : e.dropped) dropped += count;
  if (e.datagrams_received != e.datagrams_used + dropped)
    return broken("the client's datagrams do not add up");
  return {};
}

Status check_worker(const Appliance& appliance) {
  const pipeline::WorkerFigures f = pipeline::worker_figures(appliance.worker());
  if (f.held != 0 || f.contexts != 0 || f.held_bytes != 0)
    return broken(fmt::format("the worker holds {} datagrams of {} requests", f.held, f.contexts));
  if (f.received != f.forwarded + f.held + f.total_repeated() + f.total_dropped())
    return broken("the worker's datagrams do not add up");
  return {};
}

}  // namespace

void FaultFigures::add(const FaultFigures& other) noexcept {
  requests += other.requests;
  answered += other.answered;
  generated += other.generated;
  refused += other.refused;
  lost += other.lost;
  datagrams_lost += other.datagrams_lost;
  datagrams_damaged += other.datagrams_damaged;
  device_faults += other.device_faults;
  tenants_removed += other.tenants_removed;
  tenants_added += other.tenants_added;
  restarts += other.restarts;
  log_hash = other.log_hash;
}

Result<FaultFigures> run_faults(uint64_t seed, Nic& nic, std::FILE* log) {
  const Scenario scenario = faults_scenario(seed);
  FaultFigures figures;
  {
    ITIF_ASSIGN(const auto simulation,
                Simulation::create(scenario, nic, {.logs_events = true, .log_file = log}));
    ITIF_ASSIGN(const TemporaryDirectory directory, TemporaryDirectory::make());
    Faults faults(*simulation, scenario, figures);
    ITIF_TRY(faults.start(directory.path()));
    const auto impostor = static_cast<uint32_t>(scenario.tenants.size()) - 1;
    simulation->impersonate(impostor, 0);
    ITIF_TRY(simulation->run(&faults));

    const Results& results = simulation->results();
    const TenantResults all = results.total();
    figures.requests = results.requests;
    figures.answered = all.answered;
    figures.generated = all.output_tokens;
    figures.refused = all.refused;
    figures.lost = all.lost;
    figures.datagrams_lost = results.link.lost;
    figures.datagrams_damaged = results.link.damaged;
    figures.log_hash = results.log_hash;
    ITIF_TRY(check_sums(*simulation, all));
    ITIF_TRY(check_worker(simulation->appliance()));
    if (results.wrong_answers > 0)
      return broken(fmt::format("{} answers came from other weights or tokens than their requests'",
                                results.wrong_answers));
    if (results.tenants[impostor].answered > 0)
      return broken("requests with a wrong key were answered");
    if (const unsigned used = nic.buffers_in_use(); used > 0)
      return broken(fmt::format("{} packet buffers are not free", used));
    ITIF_TRY(simulation->remove_all());
    const Appliance& appliance = simulation->appliance();
    if (appliance.device().used_bytes() != appliance.device_bytes_of_groups())
      return broken(fmt::format("the device holds {} bytes without tenants, and held {} at first",
                                appliance.device().used_bytes(),
                                appliance.device_bytes_of_groups()));
  }
  if (const unsigned used = nic.buffers_in_use(); used > 0)
    return broken(fmt::format("{} packet buffers were leaked", used));
  return figures;
}

}  // namespace itif::sim
