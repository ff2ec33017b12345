#include "sim/appliance.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "base/random.h"
#include "plan/cost_file.h"
#include "plan/make_planner.h"
#include "runtime/cost/profiler.h"
#include "runtime/make_group.h"
#include "sim/link.h"
#include "sim/profile_costs.h"
#include "wire/payload.h"

namespace itif::sim {
namespace {

constexpr uint64_t kSweepNs = 1'000'000;  // of a worker that holds requests
constexpr uint64_t kMinStepNs = 1'000;    // a loop of a real stage takes as long
constexpr uint32_t kPathMtu = 1500;

runtime::GroupOptions group_options(const config::Batching& b, const model::BackboneSpec& spec) {
  return {.max_tokens = std::max(b.max_tokens, spec.max_tokens()),
          .max_requests = b.max_requests,
          .max_tenants = b.max_tenants,
          .shares_weights = false};  // the tenants' models differ; their files need not
}

// The payloads that the simulation sends.
void set_payloads(const model::BackboneSpec& spec, tenant::Tenant& tenant) {
  const auto bit = [](wire::PayloadKind kind) { return 1u << static_cast<unsigned>(kind); };
  if (spec.takes_images()) {
    tenant.payload_kinds = bit(wire::PayloadKind::kImageU8);
    tenant.max_payload_bytes = sizeof(wire::ImagePrefix) + spec.image.values();
    return;
  }
  tenant.payload_kinds = bit(wire::PayloadKind::kTokensU16) | bit(wire::PayloadKind::kTokensU32);
  tenant.max_payload_bytes = tenant.max_tokens * sizeof(uint32_t);
}

}  // namespace

Appliance::Appliance(VirtualClock& clock, Nic& nic, const Scenario& scenario)
    : clock_(clock), nic_(nic), scenario_(scenario) {}

Result<std::unique_ptr<Appliance>> Appliance::create(VirtualClock& clock, Nic& nic,
                                                     const Scenario& scenario, uint64_t seed,
                                                     const Tables& tables) {
  std::unique_ptr<Appliance> appliance(new Appliance(clock, nic, scenario));
  appliance->groups_.resize(scenario.num_groups());
  for (size_t i = 0; i < scenario.num_groups(); ++i) {
    ITIF_ASSIGN(appliance->groups_[i].spec, spec_of(scenario.group(i).model));
    if (!tables.empty()) appliance->groups_[i].tables = tables[i];
  }
  ITIF_TRY(appliance->make_device());
  ITIF_TRY(appliance->make_worker(seed));
  for (size_t i = 0; i < scenario.num_groups(); ++i) {
    ITIF_TRY(appliance->make_stage(i));
    ITIF_TRY(appliance->profile(i));
  }
  appliance->group_bytes_ = appliance->device_->used_bytes();
  appliance->start_ns_ = clock.now_ns();
  appliance->divide_device();
  appliance->publish();
  return appliance;
}

Appliance::~Appliance() {
  if (!shared_) return;
  stop();
  for (size_t i = 0; i < groups_.size(); ++i)
    shared_->groups.set(static_cast<uint16_t>(i), nullptr);
  worker_.reset();
  tuner_.reset();
  groups_.clear();
}

Status Appliance::make_device() {
  const DeviceChoice& choice = scenario_.device;
  device::SimOptions options;
  if (choice.profile.empty()) {
    ITIF_ASSIGN(const device::Machine* machine, device::find_machine(choice.machine));
    ITIF_ASSIGN(options, device::simulated_machine(*machine, choice.dtype));
  } else {
    ITIF_ASSIGN(plan::CostTables tables, plan::read_cost_tables(choice.profile));
    if (!tables.serve_planners() || tables.shared_gemms.empty() || tables.other_row_ns.empty())
      return fail(Code::kUnsupported,
                  fmt::format("{}: lacks the costs of whole passes: profile an encoder's group",
                              choice.profile));
    Group& only = groups_.front();
    only.tables = std::make_shared<const plan::CostTables>(std::move(tables));
    const runtime::GroupOptions group = group_options(scenario_.batching, only.spec);
    const plan::PlanLimits limits = {.max_requests = group.max_requests,
                                     .max_rows = group.max_tokens};
    options.info = {.kind = "sim",
                    .compute = uniform_types(DType::kBF16),
                    .description = "simulated " + only.tables->device,
                    .reason = {},
                    .num_threads = choice.threads,
                    .memory_bytes = size_t{1} << 40};
    options.costs = std::make_unique<ProfileCosts>(choice.threads, only.spec.layers, limits,
                                                   only.tables, choice.request_overhead_ns);
    for (const uint32_t n : {3 * only.spec.hidden, only.spec.hidden, only.spec.intermediate})
      if (std::ranges::find(only.tables->shared_gemms, n, &plan::SharedGemm::n) ==
          only.tables->shared_gemms.end())
        return fail(Code::kInvalidArgument,
                    fmt::format("{} was measured for {}, which has other GEMMs than the scenario's "
                                "model: set model.preset to it",
                                choice.profile, only.tables->backbone));
  }
  options.passes_marks = scenario_.passes_marks;
  options.is_divided = scenario_.slices.mode != SliceMode::kNone;
  options.host = {.collects_inputs = choice.inputs == "copy",
                  .batch_overhead_ns = choice.batch_overhead_ns,
                  .notice_ns = choice.notice_ns};
  device_ = std::make_unique<device::SimDevice>(clock_, std::move(options));
  return {};
}

Status Appliance::make_worker(uint64_t seed) {
  const config::DataPlane& plane = scenario_.data_plane;
  Random random(seed);
  shared_ = std::make_unique<pipeline::Shared>(clock_);
  for (std::byte& byte : shared_->token_secret) byte = static_cast<std::byte>(random.next());
  pipeline::WorkerOptions options = pipeline::worker_options(plane);
  options.pool = nic_.pool();
  ITIF_ASSIGN(options.local,
              net::make_local_addresses(
                  nic_.port().info().mac,
                  {.ipv4 = {"198.18.0.1"}, .ipv6 = {}, .udp_port = kServerPort, .vlan = 0}));
  // Scenarios have few contexts, so small tables do.
  options.reassembly.piece_slots =
      std::min(options.reassembly.piece_slots, 16 * plane.max_contexts);
  options.cache.max_entries = std::min(options.cache.max_entries, 4 * plane.max_contexts);
  options.sessions.max_sessions = std::min(options.sessions.max_sessions, plane.max_contexts);
  options.path_mtu = kPathMtu;
  options.seed = random.next();
  ITIF_ASSIGN(worker_, pipeline::Worker::create(nic_.port(), *shared_, options));
  return {};
}

Status Appliance::make_stage(size_t index) {
  Group& group = groups_[index];
  const config::Batching& batching = scenario_.group(index).batching;
  const runtime::GroupOptions options = group_options(batching, group.spec);
  const runtime::KindOptions kinds = {
      .encoder = {},
      .decoder = {.max_beams = batching.max_beams, .max_cache_bytes = batching.kv_cache_bytes}};
  ITIF_ASSIGN(auto made, runtime::make_group(*device_, group.spec, options, kinds));
  execution::GroupStageOptions stage;
  stage.executor.limits = {.max_tokens = options.max_tokens, .max_requests = options.max_requests};
  stage.executor.queue = {.max_requests = batching.queue_requests,
                          .max_tenant_requests = batching.max_tenant_requests(),
                          .max_slots = options.max_tenants};
  stage.executor.scheduler = batching.scheduler;
  stage.executor.max_wait_ns = batching.max_wait_ns;
  ITIF_ASSIGN(stage.executor.batch_control, sched::parse_batch_control(batching.batch_control));
  ITIF_ASSIGN(stage.executor.generation.joining, runtime::parse_joining(batching.joining));
  ITIF_ASSIGN(stage.executor.generation.cleaning, runtime::parse_cleaning(batching.cleaning));
  stage.overlaps = batching.overlap != "off";
  pipeline::ReturnRing* returns[] = {&worker_->returns()};
  ITIF_ASSIGN(group.stage,
              execution::GroupStage::create(scenario_.group(index).name, std::move(made), *device_,
                                            clock_, returns, stage));
  shared_->groups.set(static_cast<uint16_t>(index), &group.stage->inbox());
  if (group.tables) {
    group.stage->group().set_costs(group.tables);
    return group.stage->set_planner(batching.planner, group.tables);
  }
  return {};
}

// Measures the simulated device as itifd measures a real one, which advances the clock.
Status Appliance::profile(size_t index) {
  Group& group = groups_[index];
  if (group.tables) return {};
  const std::string& planner = scenario_.group(index).batching.planner;
  if (!plan::needs_cost_tables(planner)) return group.stage->set_planner(planner, nullptr);
  runtime::Group& running = group.stage->group();
  ITIF_ASSIGN(const auto stream, device_->make_stream(running.stream_limits(), {}));
  runtime::Profiler profiler(*device_, clock_, running.gemms(), model::describe(group.spec),
                             runtime::profile_options(running));
  while (profiler.step(*stream)) {
  }
  ITIF_ASSIGN(plan::CostTables tables, profiler.finish());
  profiled_ns_ = device_->busy_ns();
  group.tables = std::make_shared<const plan::CostTables>(std::move(tables));
  running.set_costs(group.tables);
  return group.stage->set_planner(planner, group.tables);
}

Appliance::Tables Appliance::tables() const {
  Tables tables;
  for (const Group& group : groups_) tables.push_back(group.tables);
  return tables;
}

Status Appliance::load(Served& tenant) {
  Group& group = groups_[tenant.group];
  ITIF_ASSIGN(tenant.slot, group.stage->group().admit(tenant.record.model_dir, {}));
  group.max_tokens = group.stage->group().model(tenant.slot)->max_tokens;
  return {};
}

Status Appliance::add_tenant(const tenant::Record& record, size_t group) {
  Served tenant;
  tenant.record = record;
  tenant.group = group;
  tenant.lease = std::make_shared<tenant::Lease>(1);
  const auto taken = [&](uint32_t index) {
    return std::ranges::find(tenants_, index, &Served::index) != tenants_.end() ||
           std::ranges::find(leaving_, index, &Served::index) != leaving_.end();
  };
  while (taken(tenant.index)) ++tenant.index;
  ITIF_TRY(load(tenant));
  shared_->quota.reset(tenant.index);
  tenants_.push_back(std::move(tenant));
  publish();
  return {};
}

void Appliance::remove_tenant(uint32_t id) {
  const auto found =
      std::ranges::find_if(tenants_, [id](const Served& t) { return t.record.id == id; });
  CHECK(found != tenants_.end());
  leaving_.push_back(std::move(*found));
  tenants_.erase(found);
  publish();
  leaving_.back().generation = generation_;
}

void Appliance::set_objective(uint32_t id, uint64_t slo_ns) {
  const auto found =
      std::ranges::find_if(tenants_, [id](const Served& t) { return t.record.id == id; });
  CHECK(found != tenants_.end());
  found->record.slo_ns = slo_ns;
  publish();
}

void Appliance::remove_all() {
  while (!tenants_.empty()) remove_tenant(tenants_.back().record.id);
}

void Appliance::publish() {
  std::vector<tenant::Tenant> tenants;
  for (const Served& served : tenants_) {
    tenant::Tenant& t = tenants.emplace_back();
    static_cast<tenant::Identity&>(t) = served.record;
    static_cast<tenant::Settings&>(t) = served.record;
    if (recovering_) t.state = tenant::State::kNotLoaded;
    t.index = served.index;
    t.slot = served.slot;
    t.group = static_cast<uint16_t>(served.group);
    t.max_tokens = groups_[served.group].max_tokens;
    set_payloads(groups_[served.group].spec, t);
    t.lease = served.lease;
  }
  shared_->tenants.publish(std::make_unique<tenant::Snapshot>(std::move(tenants), ++generation_));
}

void Appliance::release_left() {
  const auto has_left = [this](const Served& tenant) {
    return shared_->tenants.readers_passed(tenant.generation) && tenant.lease->num_in_flight() == 0;
  };
  const size_t before = leaving_.size();
  for (const Served& tenant : leaving_)
    if (has_left(tenant)) groups_[tenant.group].stage->group().release(tenant.slot);
  std::erase_if(leaving_, has_left);
  if (leaving_.size() != before) shared_->tenants.reclaim();
}

// As the tenant service: takes the tenants out of service, waits for their requests, resets the
// device and loads them again.
void Appliance::recover() {
  if (!recovering_) {
    recovering_ = true;
    publish();
    return;
  }
  if (!leaving_.empty() || !shared_->tenants.readers_passed(generation_)) return;
  for (const Served& tenant : tenants_)
    if (tenant.lease->num_in_flight() > 0) return;
  tuner_.reset();
  for (size_t i = 0; i < groups_.size(); ++i) {
    groups_[i].before = totals_of(i);
    groups_[i].has_slice = false;
    shared_->groups.set(static_cast<uint16_t>(i), nullptr);
    groups_[i].stage.reset();
  }
  CHECK(device_->used_bytes() == 0);
  CHECK(device_->reset());
  for (size_t i = 0; i < groups_.size(); ++i) {
    CHECK(make_stage(i));
    if (!groups_[i].tables)
      CHECK(groups_[i].stage->set_planner(scenario_.group(i).batching.planner, nullptr));
  }
  divide_device();
  for (Served& tenant : tenants_) CHECK(load(tenant));
  recovering_ = false;
  publish();
}

void Appliance::stop() {
  device_->break_now();
  for (Group& group : groups_)
    while (group.stage && group.stage->num_executing() > 0) group.stage->poll();
}

size_t Appliance::poll() {
  size_t done = worker_->poll();
  bool has_failed = false;
  for (Group& group : groups_) {
    if (!group.waits()) done += group.stage->poll();
    has_failed |= group.stage->device_failed();
  }
  if (!leaving_.empty()) release_left();
  if (recovering_ || has_failed) recover();
  if (scenario_.slices.mode != SliceMode::kNone) {
    done += divide_device();
    update_parts();
  }
  return done;
}

uint64_t Appliance::next_poll_ns() noexcept {
  uint64_t next_ns = std::min(device_->next_event_ns(), next_division_ns());
  for (const Group& group : groups_)
    if (const uint64_t step_ns = group.waits() ? 0 : group.stage->next_step_ns())
      next_ns = std::min(next_ns, std::max(step_ns, clock_.now_ns() + kMinStepNs));
  // Deadlines and gaps of requests that are being reassembled.
  if (worker_->counters().contexts.read() > 0 || !leaving_.empty() || recovering_)
    next_ns = std::min(next_ns, clock_.now_ns() + kSweepNs);
  return next_ns;
}

bool Appliance::is_idle() const {
  const pipeline::WorkerFigures figures = pipeline::worker_figures(*worker_);
  return figures.contexts == 0 && figures.held == 0 && leaving_.empty() && !recovering_ &&
         std::ranges::all_of(groups_, [](const Group& group) {
           return group.stage->num_executing() == 0 && group.stage->inbox().num_waiting() == 0;
         });
}

Appliance::KvFigures Appliance::kv() const noexcept {
  KvFigures kv;
  for (const Group& group : groups_) {
    const telemetry::ExecutorCounters& now = group.stage->counters();
    kv.blocks += now.kv_blocks.read();
    kv.used += now.kv_blocks_used.read();
    kv.reserved += now.kv_blocks_reserved.read();
  }
  return kv;
}

Appliance::Totals& Appliance::Totals::operator+=(const Totals& other) noexcept {
  batches += other.batches;
  requests += other.requests;
  tokens += other.tokens;
  rows += other.rows;
  tenants += other.tenants;
  refused += other.refused;
  answered += other.answered;
  execute_ns += other.execute_ns;
  return *this;
}

Appliance::Totals Appliance::totals_of(size_t group) const noexcept {
  const telemetry::ExecutorCounters& now = groups_[group].stage->counters();
  Totals totals = {.batches = now.batches.read(),
                   .requests = now.requests.read(),
                   .tokens = now.tokens.read(),
                   .rows = now.rows.read(),
                   .tenants = now.tenants.read(),
                   .refused = now.refused.read(),
                   .answered = now.answered.read(),
                   .execute_ns = now.execute_ns.read()};
  return totals += groups_[group].before;
}

Appliance::Totals Appliance::totals() const noexcept {
  Totals totals;
  for (size_t i = 0; i < groups_.size(); ++i) totals += totals_of(i);
  return totals;
}

}  // namespace itif::sim
