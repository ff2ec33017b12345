#include "serving/group_watch.h"

#include <algorithm>
#include <utility>

#include "pipeline/figures.h"

namespace itif::serving {
namespace {

using telemetry::Stage;

// A count that was made again since the earlier reading has begun at 0.
uint64_t since(uint64_t now, uint64_t before) {
  return now >= before ? now - before : now;
}

template <class Map>
typename Map::mapped_type found(const Map& map, const typename Map::key_type& key) {
  const auto at = map.find(key);
  return at == map.end() ? typename Map::mapped_type() : at->second;
}

double fraction(double part, double whole) {
  return whole > 0 ? std::clamp(part / whole, 0.0, 1.0) : 0;
}

double mean(uint64_t sum, uint64_t count) {
  return count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
}

uint64_t lost_datagrams(const pipeline::Pipeline& pipeline) {
  uint64_t lost = 0;
  for (const auto& port : pipeline.ports()) {
    const net::PortStats stats = port->stats();
    lost += stats.rx_missed + stats.rx_no_mbuf + stats.tx_errors;
  }
  for (const auto& worker : pipeline.workers()) lost += worker->counters().send_dropped.read();
  return lost;
}

// Counts datagrams, except for quotas: a request whose pieces arrive out of order may count for
// several of them.
telemetry::Refusals refusals(const pipeline::TenantFigures& figures) {
  using net::DropReason;
  using telemetry::RefusalCause;
  constexpr std::pair<RefusalCause, DropReason> kReasons[] = {
      {RefusalCause::kContexts, DropReason::kContextsFull},
      {RefusalCause::kTenantContexts, DropReason::kTenantContextsFull},
      {RefusalCause::kHeldBytes, DropReason::kHeldBytesFull},
      {RefusalCause::kTenantHeldBytes, DropReason::kTenantHeldBytesFull},
      {RefusalCause::kPieces, DropReason::kPiecesFull},
      {RefusalCause::kTenantPieces, DropReason::kTenantPiecesFull},
      {RefusalCause::kSessions, DropReason::kSessionsFull}};
  telemetry::Refusals refused;
  refused[RefusalCause::kOverQuota] =
      figures.statuses[static_cast<size_t>(wire::StatusCode::kOverQuota)];
  for (const auto& [cause, reason] : kReasons)
    refused[cause] = figures.dropped[static_cast<size_t>(reason)];
  return refused;
}

}  // namespace

GroupWatch::GroupWatch(const pipeline::Pipeline& pipeline, const TenantService& service,
                       const Clock& clock)
    : pipeline_(pipeline), service_(service), clock_(clock) {
  older_.at_ns = newer_.at_ns = clock.now_ns();
}

GroupWatch::Reading GroupWatch::take(const std::vector<TenantInfo>& tenants,
                                     const std::vector<GroupInfo>& groups) const {
  Reading now;
  now.at_ns = clock_.now_ns();
  for (const TenantInfo& info : tenants) {
    pipeline::TenantFigures f = pipeline::tenant_figures(pipeline_.workers(), info.index);
    f -= info.before;
    Tenant& tenant = now.tenants[info.record.id];
    tenant.responses = f.responses;
    tenant.overloaded = f.statuses[static_cast<size_t>(wire::StatusCode::kOverloaded)];
    tenant.refused = refusals(f);
    tenant.latency_ns = f.latency_ns;
    tenant.stages = pipeline::tenant_stage_sums(pipeline_.workers(), info.index);
    if (info.stages_before) tenant.stages -= info.stages_before->sums;
  }
  for (const GroupInfo& g : groups)
    now.groups[g.name] = {.batches = g.batches,
                          .requests = g.requests,
                          .tokens = g.tokens,
                          .refused = g.refused,
                          .busy_ns = g.busy_ns,
                          .turn_wait_ns = g.turn_wait_ns,
                          .intake_ns = g.intake_ns,
                          .answered = g.answered,
                          .execute_ns = g.execute_ns};
  for (const auto& worker : pipeline_.workers()) {
    now.worker_busy_ns.push_back(worker->counters().busy_ns.read());
    now.received += worker->counters().received.read();
  }
  now.lost = lost_datagrams(pipeline_);
  return now;
}

GroupWatch::Reading GroupWatch::compared_with(const Reading& now) {
  const std::lock_guard lock(mutex_);
  if (now.at_ns - std::min(now.at_ns, newer_.at_ns) >= kPeriodNs) {
    older_ = std::move(newer_);
    newer_ = now;
  }
  return older_;
}

GroupReport GroupWatch::report(const GroupInfo& group, const std::vector<TenantInfo>& tenants,
                               const Reading& before, const Reading& now) const {
  GroupReport report{.name = group.name, .share_percent = group.share.percent};
  telemetry::GroupLoad& load = report.load;
  const auto interval_ns = static_cast<double>(now.at_ns - std::min(now.at_ns, before.at_ns));
  load.interval_s = interval_ns * 1e-9;
  load.waiting = group.waiting;
  load.has_stages = pipeline_.workers().front()->options().stamps_stages;

  const Group g = found(now.groups, group.name), g_before = found(before.groups, group.name);
  uint64_t latency_ns = 0, overloaded = 0;
  pipeline::StageSums stages;
  for (const TenantInfo& info : tenants) {
    if (!info.model || info.model->group != group.name) continue;
    const Tenant t = found(now.tenants, info.record.id);
    const Tenant t_before = found(before.tenants, info.record.id);
    load.answered += since(t.responses, t_before.responses);
    overloaded += since(t.overloaded, t_before.overloaded);
    for (size_t i = 0; i < telemetry::kNumRefusalCauses; ++i)
      load.refused.counts[i] += since(t.refused.counts[i], t_before.refused.counts[i]);
    latency_ns += since(t.latency_ns, t_before.latency_ns);
    stages.num_requests += since(t.stages.num_requests, t_before.stages.num_requests);
    for (size_t i = 0; i < stages.ns.size(); ++i)
      stages.ns[i] += since(t.stages.ns[i], t_before.stages.ns[i]);
  }
  // Workers refuse with the same status at limits of the data plane.
  load.overloaded = std::min(overloaded - std::min(overloaded, load.refused.by_data_plane()),
                             since(g.refused, g_before.refused));
  const auto mean_of = [&](Stage stage) { return mean(stages.of(stage), stages.num_requests); };
  load.arrive_ns = mean_of(Stage::kReassembly);
  load.intake_ns = mean_of(Stage::kIntake);
  load.queue_ns = mean_of(Stage::kQueue) + mean_of(Stage::kPlan) + mean_of(Stage::kLaunch);
  load.compute_ns = mean_of(Stage::kCompute);
  load.send_ns = mean_of(Stage::kSend);
  load.total_ns = mean_of(Stage::kTotal);

  load.received_datagrams = since(now.received, before.received);
  load.lost_datagrams = since(now.lost, before.lost);
  for (size_t i = 0; i < now.worker_busy_ns.size(); ++i) {
    const uint64_t earlier = i < before.worker_busy_ns.size() ? before.worker_busy_ns[i] : 0;
    load.worker_busy =
        std::max(load.worker_busy,
                 fraction(static_cast<double>(since(now.worker_busy_ns[i], earlier)), interval_ns));
  }
  const uint64_t busy_ns = since(g.busy_ns, g_before.busy_ns);
  const uint64_t turns_ns = std::min(busy_ns, since(g.turn_wait_ns, g_before.turn_wait_ns));
  load.device_busy = fraction(static_cast<double>(busy_ns - turns_ns), interval_ns);
  load.turn_wait =
      std::min(1 - load.device_busy, fraction(static_cast<double>(turns_ns), interval_ns));
  load.overlaps = group.overlaps;
  load.intake_busy =
      fraction(static_cast<double>(since(g.intake_ns, g_before.intake_ns)), interval_ns);
  const uint64_t batches = since(g.batches, g_before.batches);
  load.batch_fullness = std::max(
      fraction(mean(since(g.tokens, g_before.tokens), batches), group.max_batch_tokens),
      fraction(mean(since(g.requests, g_before.requests), batches), group.max_batch_requests));

  report.verdict = telemetry::find_limit(load);
  if (interval_ns > 0) {
    report.requests_per_s = static_cast<double>(load.answered) / load.interval_s;
    report.refused_per_s =
        static_cast<double>(load.overloaded + load.refused.total()) / load.interval_s;
  }
  report.latency_ns = mean(latency_ns, load.answered);
  report.batch_ns =
      mean(since(g.execute_ns, g_before.execute_ns), since(g.answered, g_before.answered));
  report.gue = telemetry::gue(report.requests_per_s, report.batch_ns);
  return report;
}

std::vector<GroupReport> GroupWatch::read() {
  const std::vector<TenantInfo> tenants = service_.list();
  const std::vector<GroupInfo> groups = service_.groups();
  const Reading now = take(tenants, groups);
  const Reading before = compared_with(now);
  std::vector<GroupReport> reports;
  for (const GroupInfo& group : groups) reports.push_back(report(group, tenants, before, now));
  return reports;
}

}  // namespace itif::serving
