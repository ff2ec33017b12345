#include "serving/group_watch.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "pipeline/figures.h"

namespace itif::serving {
namespace {

using telemetry::Stage;

// The least distance between kept readings. Older readings are farther apart.
constexpr uint64_t kSpacingNs = 250'000'000;
constexpr uint64_t kSpacingPart = 10;  // of their age

// A counter that was recreated since the earlier reading has begun at 0 again.
uint64_t grown(uint64_t now, uint64_t before) {
  return now >= before ? now - before : now;
}

void add_part(uint64_t& sum, uint64_t count, double part) {
  sum += part == 1 ? count : static_cast<uint64_t>(std::llround(part * static_cast<double>(count)));
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
    : pipeline_(pipeline), service_(service), clock_(clock), kept_(1) {
  kept_.front().at_ns = clock.now_ns();
}

GroupWatch::TenantCounts GroupWatch::since(const TenantCounts& now, const TenantCounts& before) {
  TenantCounts counts;
  counts.responses = grown(now.responses, before.responses);
  counts.overloaded = grown(now.overloaded, before.overloaded);
  counts.late = grown(now.late, before.late);
  counts.arrived_late = grown(now.arrived_late, before.arrived_late);
  counts.latency_ns = grown(now.latency_ns, before.latency_ns);
  for (size_t i = 0; i < telemetry::kNumRefusalCauses; ++i)
    counts.refused.counts[i] = grown(now.refused.counts[i], before.refused.counts[i]);
  counts.stages.num_requests = grown(now.stages.num_requests, before.stages.num_requests);
  for (size_t i = 0; i < counts.stages.ns.size(); ++i)
    counts.stages.ns[i] = grown(now.stages.ns[i], before.stages.ns[i]);
  return counts;
}

void GroupWatch::add(TenantCounts& sum, const TenantCounts& counts, double part) {
  add_part(sum.responses, counts.responses, part);
  add_part(sum.overloaded, counts.overloaded, part);
  add_part(sum.late, counts.late, part);
  add_part(sum.arrived_late, counts.arrived_late, part);
  add_part(sum.latency_ns, counts.latency_ns, part);
  for (size_t i = 0; i < telemetry::kNumRefusalCauses; ++i)
    add_part(sum.refused.counts[i], counts.refused.counts[i], part);
  add_part(sum.stages.num_requests, counts.stages.num_requests, part);
  for (size_t i = 0; i < counts.stages.ns.size(); ++i)
    add_part(sum.stages.ns[i], counts.stages.ns[i], part);
}

GroupWatch::GroupCounts GroupWatch::since(const GroupCounts& now, const GroupCounts& before) {
  return {.batches = grown(now.batches, before.batches),
          .requests = grown(now.requests, before.requests),
          .tokens = grown(now.tokens, before.tokens),
          .refused = grown(now.refused, before.refused),
          .busy_ns = grown(now.busy_ns, before.busy_ns),
          .turn_wait_ns = grown(now.turn_wait_ns, before.turn_wait_ns),
          .intake_ns = grown(now.intake_ns, before.intake_ns),
          .answered = grown(now.answered, before.answered),
          .execute_ns = grown(now.execute_ns, before.execute_ns)};
}

void GroupWatch::add(GroupCounts& sum, const GroupCounts& counts) {
  sum.batches += counts.batches;
  sum.requests += counts.requests;
  sum.tokens += counts.tokens;
  sum.refused += counts.refused;
  sum.busy_ns += counts.busy_ns;
  sum.turn_wait_ns += counts.turn_wait_ns;
  sum.intake_ns += counts.intake_ns;
  sum.answered += counts.answered;
  sum.execute_ns += counts.execute_ns;
}

GroupWatch::GroupCounts GroupWatch::counts_of(const GroupInfo& g) {
  return {.batches = g.batches,
          .requests = g.requests,
          .tokens = g.tokens,
          .refused = g.refused,
          .busy_ns = g.busy_ns,
          .turn_wait_ns = g.turn_wait_ns,
          .intake_ns = g.intake_ns,
          .answered = g.answered,
          .execute_ns = g.execute_ns};
}

GroupWatch::TenantCounts GroupWatch::counts_of(const TenantInfo& info) const {
  pipeline::TenantFigures f = pipeline::tenant_figures(pipeline_.workers(), info.index);
  f -= info.before;
  TenantCounts counts;
  counts.responses = f.responses;
  const auto ended_with = [&](wire::StatusCode code) {
    return f.statuses[static_cast<size_t>(code)];
  };
  counts.overloaded = ended_with(wire::StatusCode::kOverloaded);
  counts.late =
      ended_with(wire::StatusCode::kDeadlineQueue) + ended_with(wire::StatusCode::kDeadlineLaunch);
  counts.arrived_late = ended_with(wire::StatusCode::kDeadlineReassembly);
  counts.refused = refusals(f);
  counts.latency_ns = f.latency_ns;
  counts.stages = pipeline::tenant_stage_sums(pipeline_.workers(), info.index);
  if (info.stages_before) counts.stages -= info.stages_before->sums;
  return counts;
}

void GroupWatch::count_tenant(const TenantInfo& info) {
  Tenant& last = tenants_[info.record.id];
  const TenantCounts counts = counts_of(info);
  const TenantCounts fresh = since(counts, last.counts);
  last.counts = counts;
  if (!info.model) return;
  if (!info.canary_elsewhere) {
    last.answered_by_active = last.answered_by_canary = 0;
    return add(sums_[info.model->group].tenants, fresh, 1);
  }
  const TenantInfo::CanaryElsewhere& canary = *info.canary_elsewhere;
  const uint64_t by_active = grown(canary.answered_by_active, last.answered_by_active);
  const uint64_t by_canary = grown(canary.answered_by_canary, last.answered_by_canary);
  last.answered_by_active = canary.answered_by_active;
  last.answered_by_canary = canary.answered_by_canary;
  const double part = by_active + by_canary == 0 ? info.record.canary_percent / 100.0
                                                 : static_cast<double>(by_canary) /
                                                       static_cast<double>(by_active + by_canary);
  add(sums_[info.model->group].tenants, fresh, 1 - part);
  add(sums_[canary.group].tenants, fresh, part);
}

void GroupWatch::count_group(const GroupInfo& info) {
  Sums& sums = sums_[info.name];
  GroupCounts& last = groups_[info.name];
  const GroupCounts counts = counts_of(info);
  add(sums.group, since(counts, last));
  last = counts;
  sums.running_ns = info.running_ns;
  sums.running_turn_wait_ns = info.running_turn_wait_ns;
}

GroupWatch::Reading GroupWatch::count(const std::vector<TenantInfo>& tenants,
                                      const std::vector<GroupInfo>& groups) {
  for (const TenantInfo& info : tenants) count_tenant(info);
  for (const GroupInfo& info : groups) count_group(info);
  std::erase_if(tenants_, [&](const auto& entry) {
    return std::ranges::none_of(
        tenants, [&](const TenantInfo& info) { return info.record.id == entry.first; });
  });
  const auto is_gone = [&](const auto& entry) {
    return std::ranges::find(groups, entry.first, &GroupInfo::name) == groups.end();
  };
  std::erase_if(groups_, is_gone);
  std::erase_if(sums_, is_gone);
  Reading now;
  now.at_ns = clock_.now_ns();
  now.groups = sums_;
  for (const auto& worker : pipeline_.workers()) {
    now.worker_busy_ns.push_back(worker->counters().busy_ns.read());
    now.received += worker->counters().received.read();
  }
  now.lost = lost_datagrams(pipeline_);
  return now;
}

// Keeps a reading that is old enough for each interval. Removes readings whose neighbours are close
// to each other, so that about a hundred stay.
void GroupWatch::keep(const Reading& now) {
  if (now.at_ns - kept_.back().at_ns < kSpacingNs) return;
  kept_.push_back(now);
  for (size_t i = 1; i + 1 < kept_.size();) {
    const uint64_t age_ns = now.at_ns - kept_[i].at_ns;
    if (kept_[i + 1].at_ns - kept_[i - 1].at_ns <= age_ns / kSpacingPart)
      kept_.erase(kept_.begin() + static_cast<std::ptrdiff_t>(i));
    else
      ++i;
  }
  while (kept_.size() > 1 && now.at_ns - kept_[1].at_ns >= kMostIntervalNs) kept_.pop_front();
}

GroupReport GroupWatch::report(const GroupInfo& group, const Reading& before,
                               const Reading& now) const {
  GroupReport report{.name = group.name, .share_percent = group.share.percent};
  telemetry::GroupLoad& load = report.load;
  const auto interval_ns = static_cast<double>(now.at_ns - std::min(now.at_ns, before.at_ns));
  load.interval_s = interval_ns * 1e-9;
  load.waiting = group.waiting;
  load.has_stages = pipeline_.workers().front()->options().stamps_stages;

  const Sums sums = found(now.groups, group.name), sums_before = found(before.groups, group.name);
  const TenantCounts t = since(sums.tenants, sums_before.tenants);
  const GroupCounts g = since(sums.group, sums_before.group);
  const pipeline::StageSums& stages = t.stages;
  load.answered = t.responses;
  load.late = t.late;
  load.arrived_late = t.arrived_late;
  load.refused = t.refused;
  // Workers refuse with the same status at limits of the data plane.
  load.overloaded =
      std::min(t.overloaded - std::min(t.overloaded, load.refused.by_data_plane()), g.refused);
  const auto mean_of = [&](Stage stage) { return mean(stages.of(stage), stages.num_requests); };
  load.arrive_ns = mean_of(Stage::kReassembly);
  load.intake_ns = mean_of(Stage::kIntake);
  load.queue_ns = mean_of(Stage::kQueue) + mean_of(Stage::kPlan) + mean_of(Stage::kLaunch);
  load.compute_ns = mean_of(Stage::kCompute);
  load.send_ns = mean_of(Stage::kSend);
  load.total_ns = mean_of(Stage::kTotal);

  load.received_datagrams = grown(now.received, before.received);
  load.lost_datagrams = grown(now.lost, before.lost);
  for (size_t i = 0; i < now.worker_busy_ns.size(); ++i) {
    const uint64_t earlier = i < before.worker_busy_ns.size() ? before.worker_busy_ns[i] : 0;
    load.worker_busy =
        std::max(load.worker_busy,
                 fraction(static_cast<double>(grown(now.worker_busy_ns[i], earlier)), interval_ns));
  }
  // A batch that runs now, or ran at the begin of the interval, counts with its part.
  const auto in_interval = [](uint64_t ended_ns, uint64_t running_ns, uint64_t running_before_ns) {
    return ended_ns + running_ns - std::min(ended_ns + running_ns, running_before_ns);
  };
  const uint64_t busy_ns = in_interval(g.busy_ns, sums.running_ns, sums_before.running_ns);
  const uint64_t turns_ns = std::min(busy_ns, in_interval(g.turn_wait_ns, sums.running_turn_wait_ns,
                                                          sums_before.running_turn_wait_ns));
  load.device_busy = fraction(static_cast<double>(busy_ns - turns_ns), interval_ns);
  load.turn_wait =
      std::min(1 - load.device_busy, fraction(static_cast<double>(turns_ns), interval_ns));
  load.overlaps = group.overlaps;
  load.intake_busy = fraction(static_cast<double>(g.intake_ns), interval_ns);
  load.batch_fullness = std::max(fraction(mean(g.tokens, g.batches), group.max_batch_tokens),
                                 fraction(mean(g.requests, g.batches), group.max_batch_requests));

  report.verdict = telemetry::find_limit(load);
  if (interval_ns > 0) {
    report.requests_per_s = static_cast<double>(load.answered) / load.interval_s;
    report.refused_per_s = static_cast<double>(load.overloaded + load.late + load.arrived_late +
                                               load.refused.total()) /
                           load.interval_s;
  }
  report.latency_ns = mean(t.latency_ns, load.answered);
  report.batch_ns = mean(g.execute_ns, g.answered);
  report.gue = telemetry::gue(report.requests_per_s, report.batch_ns);
  return report;
}

std::vector<GroupReport> GroupWatch::read(uint64_t interval_ns) {
  const std::lock_guard lock(mutex_);
  const std::vector<TenantInfo> tenants = service_.list();
  const std::vector<GroupInfo> groups = service_.groups();
  const Reading now = count(tenants, groups);
  const auto is_old = [&](const Reading& kept) { return now.at_ns - kept.at_ns >= interval_ns; };
  const auto young = std::ranges::partition_point(kept_, is_old);
  const Reading before = young == kept_.begin() ? *young : *std::prev(young);
  keep(now);
  std::vector<GroupReport> reports;
  for (const GroupInfo& group : groups) reports.push_back(report(group, before, now));
  return reports;
}

}  // namespace itif::serving
