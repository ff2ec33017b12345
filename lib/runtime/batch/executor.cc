#include "runtime/batch/executor.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "plan/make_planner.h"
#include "runtime/cost/pass_pricer.h"

namespace itif::runtime {
namespace {

constexpr size_t kTextBytesPerToken = 32;  // longer texts make the scratch grow once
// The preparation of the next batch starts before the running batch is expected to end: earlier by
// kSafety · (recent preparation time + recent prediction error) + kWakeUpNs. A later start leaves
// the device idle.
constexpr uint64_t kSafety = 2;
constexpr uint64_t kWakeUpNs = 100'000;  // a sleeping thread's wake-up

// A decaying maximum: shrinks by 1/16 per value.
uint64_t decaying_max(uint64_t largest, uint64_t value) {
  return std::max(value, largest - largest / 16);
}

plan::PlanLimits plan_limits(const EncoderGroup& group, const ExecutorOptions& options) noexcept {
  return group.pass_limits().added_to(
      {.max_requests = options.limits.max_requests, .max_rows = options.limits.max_tokens});
}

sched::PolicyOptions batch_policy_options(const ExecutorOptions& options) noexcept {
  return {.limits = options.limits,
          .queue = options.queue,
          .max_wait_ns = options.max_wait_ns,
          .batch_control = options.batch_control};
}

}  // namespace

Result<std::unique_ptr<GroupExecutor>> GroupExecutor::create(EncoderGroup& group,
                                                             device::Stream& stream,
                                                             const Clock& clock,
                                                             const ExecutorOptions& options) {
  ITIF_ASSIGN(auto policy, sched::make_policy(options.scheduler, batch_policy_options(options)));
  ITIF_ASSIGN(auto planner, plan::make_planner("packed", {.limits = plan_limits(group, options)}));
  return std::unique_ptr<GroupExecutor>(
      new GroupExecutor(group, stream, clock, options, std::move(policy), std::move(planner)));
}

GroupExecutor::GroupExecutor(EncoderGroup& group, device::Stream& stream, const Clock& clock,
                             const ExecutorOptions& options,
                             std::unique_ptr<sched::BatchPolicy> policy,
                             std::unique_ptr<plan::Planner> planner)
    : group_(group),
      stream_(&stream),
      clock_(clock),
      options_(options),
      policy_(std::move(policy)),
      planner_(std::move(planner), plan_limits(group, options)),
      admission_(group, clock, options, *policy_,
                 {.max_tokens = options.limits.max_tokens,
                  .image = group.spec().image,
                  .text_bytes = size_t{options.limits.max_tokens} * kTextBytesPerToken}),
      items_(options.limits.max_requests),
      last_batch_(options.queue.max_slots) {
  const size_t max_requests = options.limits.max_requests;
  choice_.reserve(batch_policy_options(options));
  for (Flight& flight : flights_) {
    flight.plan.reserve(max_requests);
    flight.ordered.reserve(max_requests);
    flight.segments.reserve(max_requests);
  }
}

GroupExecutor::~GroupExecutor() {
  CHECK(num_in_flight_ == 0);
}

Status GroupExecutor::set_planner(std::string_view name, const device::DeviceInfo& device,
                                  const std::shared_ptr<const plan::CostTables>& tables) {
  ITIF_ASSIGN(auto planner, make_group_planner(name, device, planner_.limits(), tables,
                                               group_.pass_weights(), group_.graph_buckets()));
  ITIF_TRY(group_.check_planner(name));
  planner_.replace(std::move(planner));
  return {};
}

Status GroupExecutor::set_scheduler(std::string_view scheduler) {
  ITIF_ASSIGN(auto policy, sched::make_policy(scheduler, batch_policy_options(options_)));
  policy->take_over(*policy_, clock_.now_ns(), batch_costs());
  policy_ = std::move(policy);
  admission_.use_policy(*policy_);
  return {};
}

void GroupExecutor::submit(request::Request* request) noexcept {
  const model::TenantModel* model = admission_.admit(
      request, [&](const model::TenantModel&) { return expected_wait_ns(request->slot); });
  if (model == nullptr || !admission_.prepare(request, *model)) return;
  admission_.push(request, batch_costs());
}

// Time until a request that arrives now could run: the rest of the running batches, and the
// requests that the policy serves first.
double GroupExecutor::expected_wait_ns(uint32_t slot) const noexcept {
  const uint64_t end_ns = num_in_flight_ == 0 ? 0 : expected_end_ns();
  const uint64_t now_ns = clock_.now_ns();
  return static_cast<double>(end_ns - std::min(end_ns, now_ns)) +
         serving_ns(policy_->backlog_ahead(slot));
}

// Full batches are the least time. The recent pace counts too while batches leave requests waiting:
// they may be smaller, for the latency of others, and the machine has other work.
double GroupExecutor::serving_ns(const sched::GroupQueue::Backlog& backlog) const noexcept {
  const double full_ns =
      cost_.backlog_ns(backlog.num_tokens, backlog.num_requests / options_.limits.max_requests,
                       options_.limits.max_tokens);
  return std::max(full_ns, pace_ns_ * backlog.num_tokens);
}

uint64_t GroupExecutor::backlog_ns() const noexcept {
  return static_cast<uint64_t>(serving_ns(policy_->queue().backlog()));
}

// Measures the time per token, from the end of one batch to the end of the next, while batches
// leave requests waiting.
void GroupExecutor::learn_pace(const Flight& flight, uint64_t end_ns) noexcept {
  constexpr double kNewestShare = 0.1;  // weight of the newest value in the pace
  if (!flight.left_some) {
    pace_ns_ = 0;
    return;
  }
  // Intake and choice before the batch are part of its time only if requests waited meanwhile.
  const uint64_t start_ns = pace_ns_ != 0 ? last_end_ns_ : std::max(last_end_ns_, flight.begin_ns);
  const double pace_ns =
      static_cast<double>(end_ns - start_ns) / std::max(1u, flight.figures.num_tokens);
  pace_ns_ += (pace_ns_ == 0 ? 1 : kNewestShare) * (pace_ns - pace_ns_);
}

size_t GroupExecutor::step(CompletionSink& sink, BatchFigures& figures) noexcept {
  figures = {};
  size_t completed = 0, refused = 0;
  if (has_results()) completed += finish_oldest(sink, figures);
  release_packets(sink);
  if (may_begin(clock_.now_ns())) {
    refused += begin(sink);
    // On a synchronous stream the batch has already ended.
    while (figures.num_tokens == 0 && has_results()) completed += finish_oldest(sink, figures);
  }
  refused += admission_.complete_refused(sink);
  figures.num_refused = static_cast<uint32_t>(refused);
  return completed + refused;
}

size_t GroupExecutor::finish(CompletionSink& sink, BatchFigures& figures) noexcept {
  figures = {};
  size_t completed = 0;
  while (num_in_flight_ > 0 && figures.num_tokens == 0) completed += finish_oldest(sink, figures);
  return completed;
}

uint64_t GroupExecutor::expected_end_ns() const noexcept {
  uint64_t end_ns = last_end_ns_;
  for (uint32_t i = 0; i < num_in_flight_; ++i) {
    const Flight& flight = in_flight(i);
    end_ns = std::max(end_ns, flight.begin_ns) +
             static_cast<uint64_t>(cost_.batch_ns(flight.priced_tokens));
  }
  return end_ns;
}

uint64_t GroupExecutor::next_step_ns() const noexcept {
  if (policy_->queue().num_requests() == 0 || !has_room()) return 0;
  const uint64_t end_ns = expected_end_ns();
  // Begin no earlier than halfway: one badly predicted batch must not make later ones begin
  // immediately.
  const uint64_t half_ns = (end_ns - std::min(end_ns, oldest().begin_ns)) / 2;
  return end_ns - std::min(kSafety * (preparation_ns_ + early_ns_) + kWakeUpNs, half_ns);
}

bool GroupExecutor::may_begin(uint64_t now_ns) const noexcept {
  if (policy_->queue().num_requests() == 0 || !has_room() || device_failed()) return false;
  return num_in_flight_ == 0 || now_ns >= next_step_ns();
}

size_t GroupExecutor::begin(CompletionSink& sink) noexcept {
  const uint64_t now_ns = clock_.now_ns();
  plan::Planner& planner = planner_.take();
  choose_batch(planner, now_ns);
  if (group_.spec().takes_images()) resize_images(choice_.batch);
  // Refused requests are answered before the batch: they have waited long enough.
  const size_t refused = admission_.complete_refused(sink);
  if (choice_.batch.empty()) return refused;
  Flight& flight = in_flight(num_in_flight_);
  flight.begin_ns = now_ns;
  flight.slo_ns = choice_.slo_ns;
  flight.pass = 0;
  plan_batch(planner, flight);
  num_executing_.fetch_add(flight.figures.num_requests, std::memory_order_relaxed);
  if (num_in_flight_++ == 0) sink.running_since(now_ns);
  flight.expected_end_ns = expected_end_ns();
  sink.busy_until(flight.expected_end_ns);
  launch_pass(flight);
  preparation_ns_ = decaying_max(preparation_ns_, clock_.now_ns() - now_ns);
  return refused;
}

void GroupExecutor::choose_batch(const plan::Planner& planner, uint64_t now_ns) noexcept {
  const sched::BatchRows rows = rows_of(planner);
  cost_in_rows_.use_rows(rows);
  floor_in_rows_.use_rows(rows);
  policy_->choose(
      {.now_ns = now_ns, .start_ns = expected_end_ns(), .costs = batch_costs(), .rows = rows},
      choice_);
  const bool by_estimate = admission_.refuse(choice_.refused);
  if (by_estimate && choice_.batch.empty()) cost_.distrust();
  admission_.take(choice_.batch, [](const request::Request&) {});
}

void GroupExecutor::resize_images(std::vector<request::Request*>& batch) noexcept {
  std::erase_if(batch, [&](request::Request* request) {
    const Refusal why = admission_.inputs().resize(*request, *group_.model(request->slot));
    if (why) admission_.refuse(request, why);
    return static_cast<bool>(why);
  });
}

// Puts the requests of an adapter side by side, because adjacent rows of an adapter are one update.
// Planners keep the order of requests with equal weights.
void GroupExecutor::gather_adapters() noexcept {
  const auto has_adapter = [this](const request::Request* request) {
    return group_.model(request->slot)->adapter_bytes > 0;
  };
  if (choice_.has_rows || std::ranges::none_of(choice_.batch, has_adapter)) return;
  std::ranges::sort(choice_.batch, {}, [](const request::Request* request) {
    return std::pair(request->slot, request->arrival_ns);
  });
}

void GroupExecutor::plan_batch(plan::Planner& planner, Flight& flight) noexcept {
  gather_adapters();
  items_.begin(choice_);
  ++batch_number_;
  flight.figures = {};
  for (const request::Request* request : choice_.batch) {
    const model::TenantModel& model = *group_.model(request->slot);
    items_.add(*request, model.weight_slot, group_.weight_order(model.weight_slot),
               adapter_of(model, request->slot));
    flight.figures.num_tenants +=
        std::exchange(last_batch_[request->slot], batch_number_) != batch_number_;
  }
  plan::Plan& plan = flight.plan;
  items_.plan(planner, plan);
  flight.planned_ns = stamp();
  flight.figures.planner =
      plan.offers.empty() ? planner.name() : plan.offers[plan.chosen_offer].planner;
  std::ranges::copy(plan.offers, flight.figures.offers.begin());
  flight.figures.num_offers = static_cast<uint32_t>(plan.offers.size());
  flight.left_some = policy_->queue().num_requests() > 0;
  flight.figures.num_requests = static_cast<uint32_t>(choice_.batch.size());
  flight.figures.num_tokens = static_cast<uint32_t>(plan.num_tokens);
  flight.figures.num_rows = static_cast<uint32_t>(plan.num_rows);
  flight.priced_tokens = planner.rows() ? flight.figures.num_rows : flight.figures.num_tokens;
  flight.ordered.clear();
  flight.segments.clear();
  for_each_segment(plan, [&](const plan::Segment& segment, uint32_t mini_batch, uint32_t call) {
    add_segment(flight, segment, mini_batch, call);
  });
}

void GroupExecutor::add_segment(Flight& flight, const plan::Segment& planned, uint32_t mini_batch,
                                uint32_t call) noexcept {
  request::Request* request = choice_.batch[planned.item];
  flight.ordered.push_back(request);
  flight.segments.push_back({.request = request,
                             .prepared = admission_.inputs().made(*request),
                             .num_rows = planned.num_rows,
                             .mini_batch = mini_batch,
                             .call = call,
                             .score_matrix = planned.score_matrix});
}

void GroupExecutor::launch_pass(Flight& flight) noexcept {
  const plan::Pass& pass = flight.plan.passes[flight.pass];
  Batch batch{std::span(flight.segments).subspan(pass.first_segment, pass.num_segments)};
  if (flight.plan.has_fixed_calls) batch.calls = flight.plan.calls;
  flight.launched_ns = stamp();
  group_.begin(*stream_, batch, static_cast<uint32_t>(&flight - flights_.data()));
  flight.figures.num_rows += batch.num_padding_rows;
  flight.event = stream_->record();
  flight.holds_packets = true;
}

bool GroupExecutor::has_read_packets() const noexcept {
  for (uint32_t i = 0; i < num_in_flight_; ++i)
    if (in_flight(i).holds_packets) return stream_->inputs_read(in_flight(i).event);
  return false;
}

// Releases the packets that running passes have read. A pass that has ended completes its requests
// instead.
void GroupExecutor::release_packets(CompletionSink& sink) noexcept {
  for (uint32_t i = 0; i < num_in_flight_; ++i) {
    Flight& flight = in_flight(i);
    if (!flight.holds_packets) continue;
    if (!stream_->inputs_read(flight.event)) return;
    flight.holds_packets = false;
    sink.release_packets(running_requests(flight));
  }
}

// Returns when the running pass, which has just ended, began on the device. An asynchronous stream
// may have run the batch ahead of it first.
uint64_t GroupExecutor::begun_ns(const Flight& flight, uint64_t device_ns) const noexcept {
  const uint64_t now_ns = clock_.now_ns();
  const uint64_t begun_ns = device_ns > 0 ? now_ns - std::min(now_ns, device_ns) : last_end_ns_;
  return std::max(flight.launched_ns, begun_ns);
}

// Waits for the running pass and completes its requests: those of an early pass do not wait for
// later passes. Sets `figures` after the batch's last pass.
size_t GroupExecutor::finish_oldest(CompletionSink& sink, BatchFigures& figures) noexcept {
  Flight& flight = oldest();
  const plan::Pass pass = flight.plan.passes[flight.pass];
  Batch batch{std::span(flight.segments).subspan(pass.first_segment, pass.num_segments)};
  device::Stream::Completion done = stream_->wait(flight.event);
  flight.figures.execute_ns += done.device_ns;
  if (flight.launched_ns != 0) flight.launched_ns = begun_ns(flight, done.device_ns);
  if (!group_.finish(batch, first_, std::move(done.status))) {
    flight.figures.device_failed = true;
    admission_.fail_device();
  }
  finish_pass(flight);
  num_executing_.fetch_sub(pass.num_segments, std::memory_order_relaxed);
  sink.complete(running_requests(flight));
  if (++flight.pass < flight.plan.passes.size()) {
    launch_pass(flight);
    return pass.num_segments;
  }
  const uint64_t now_ns = clock_.now_ns();
  if (flight.figures.execute_ns == 0)
    flight.figures.execute_ns = now_ns - std::max(flight.begin_ns, last_end_ns_);
  learn_pace(flight, now_ns);
  last_end_ns_ = now_ns;
  early_ns_ =
      decaying_max(early_ns_, flight.expected_end_ns - std::min(now_ns, flight.expected_end_ns));
  first_ = (first_ + 1) % flights_.size();
  --num_in_flight_;
  sink.running_since(num_in_flight_ == 0 ? 0 : now_ns);
  if (num_in_flight_ == 0) sink.busy_until(0);
  figures = flight.figures;
  learn(flight);
  return pass.num_segments;
}

void GroupExecutor::learn(const Flight& flight) noexcept {
  if (device_failed()) return;
  const BatchFigures& figures = flight.figures;
  cost_.add(flight.priced_tokens, figures.execute_ns);
  floor_.add(flight.priced_tokens, figures.execute_ns);
  policy_->ran({.num_tokens = figures.num_tokens,
                .execute_ns = figures.execute_ns,
                .slo_ns = flight.slo_ns,
                .num_requests = figures.num_requests});
}

void GroupExecutor::finish_pass(Flight& flight) noexcept {
  const uint64_t done_ns = clock_.now_ns();
  for (request::Request* request : running_requests(flight)) {
    request->chosen_ns = flight.begin_ns;
    request->planned_ns = flight.planned_ns;
    request->launched_ns = flight.launched_ns;
    request->done_ns = done_ns;
    admission_.inputs().release(*request);
  }
}

}  // namespace itif::runtime
