#include "telemetry/bottleneck.h"

#include <fmt/format.h>

#include <algorithm>

namespace itif::telemetry {
namespace {

double percent(double part) {
  return 100 * part;
}

double part_of(double part, double whole) {
  return whole > 0 ? part / whole : 0;
}

// Waits for turns as a part of the time of batches.
double turns_of(const GroupLoad& load) {
  return part_of(load.turn_wait, load.device_busy + load.turn_wait);
}

double runs_of(const GroupLoad& load) {
  return load.device_busy + load.turn_wait;
}

double per_s(const GroupLoad& load, uint64_t count) {
  return part_of(static_cast<double>(count), load.interval_s);
}

uint64_t offered_of(const GroupLoad& load) {
  return load.answered + load.overloaded + load.late + load.arrived_late + load.refused.total();
}

// `refused` as a part of the requests that could have been answered.
double refused_part(const GroupLoad& load, uint64_t refused) {
  return part_of(static_cast<double>(refused), static_cast<double>(offered_of(load)));
}

bool are_many_late(const GroupLoad& load, const LimitRules& rules) {
  return load.late > 0 && refused_part(load, load.late) >= rules.refused;
}

bool quotas_refuse(const GroupLoad& load, const LimitRules& rules) {
  return load.refused.by_quota() > 0 &&
         refused_part(load, load.refused.by_quota()) >= rules.refused;
}

bool data_plane_refuses(const GroupLoad& load, const LimitRules& rules) {
  return load.refused.by_data_plane() > 0 &&
         refused_part(load, load.refused.by_data_plane()) >= rules.refused;
}

// Returns true if the group would not answer more requests if it had more.
bool has_all_it_can_take(const GroupLoad& load, const LimitRules& rules) {
  if (runs_of(load) < rules.half_busy) return false;
  const bool waits_long =
      load.has_stages && load.answered > 0 && load.queue_ns >= rules.deep * load.compute_ns;
  return load.overloaded > 0 || load.batch_fullness >= rules.full || waits_long;
}

std::string causes_text(const GroupLoad& load) {
  std::string text;
  for (const RefusalRule& rule : kRefusalRules)
    if (load.refused[rule.cause] > 0)
      text += fmt::format("{}{:.0f} {}", text.empty() ? "" : ", ",
                          per_s(load, load.refused[rule.cause]), rule.name);
  return text;
}

// `largest`: the cause with most refusals.
std::string refused_text(const GroupLoad& load, uint64_t refused, const RefusalRule& largest) {
  return fmt::format(
      "{:.0f} of {:.0f} requests per second are refused, most as {} ({}); batches "
      "run {:.0f} % of the time",
      per_s(load, refused), per_s(load, offered_of(load)), largest.name, largest.setting,
      percent(runs_of(load)));
}

Verdict of_data_plane(const GroupLoad& load) {
  const RefusalRule* largest = &kRefusalRules[1];
  for (const RefusalRule& rule : kRefusalRules)
    if (rule.cause != RefusalCause::kOverQuota &&
        load.refused[rule.cause] > load.refused[largest->cause])
      largest = &rule;
  return {Limit::kDataPlane, refused_text(load, load.refused.by_data_plane(), *largest)};
}

Verdict of_quota(const GroupLoad& load) {
  return {Limit::kQuota, refused_text(load, load.refused.by_quota(), kRefusalRules[0])};
}

bool has_backlog(const GroupLoad& load, const LimitRules& rules) {
  if (load.overloaded > 0 || are_many_late(load, rules)) return true;
  // A batch may take longer than the interval: then nothing was answered, and no stage is known.
  if (!load.has_stages || load.answered == 0) return load.waiting > 0;
  return load.queue_ns >= rules.backlog * load.compute_ns;
}

std::string backlog_text(const GroupLoad& load) {
  std::string text = load.has_stages && load.answered > 0
                         ? fmt::format("requests wait {:.2f} ms for {:.2f} ms of computing",
                                       load.queue_ns * 1e-6, load.compute_ns * 1e-6)
                         : fmt::format("{} requests wait", load.waiting);
  if (load.overloaded > 0) text += fmt::format(", {} were refused", load.overloaded);
  if (load.late > 0) text += fmt::format(", {} would have exceeded their budget", load.late);
  return text;
}

Verdict of_backlog(const GroupLoad& load, const LimitRules& rules) {
  const std::string backlog = backlog_text(load);
  if (turns_of(load) >= rules.turns)
    return {Limit::kShare, fmt::format("{}; batches wait {:.0f} % of their time for other groups",
                                       backlog, percent(turns_of(load)))};
  const double busy = runs_of(load);
  if (busy >= rules.half_busy)
    return {Limit::kDevice,
            fmt::format("{}; batches run {:.0f} % of the time", backlog, percent(busy))};
  if (busy + load.intake_busy >= rules.half_busy)
    return {Limit::kCpu, fmt::format("{}; but batches run only {:.0f} % of the time: the group's "
                                     "thread takes requests in for {:.0f} %",
                                     backlog, percent(busy), percent(load.intake_busy))};
  if (are_many_late(load, rules))
    return {
        Limit::kDevice,
        fmt::format("budgets of {:.0f} of {:.0f} requests per second end before their results, "
                    "though batches run only {:.0f} % of the time",
                    per_s(load, load.late), per_s(load, offered_of(load)), percent(busy))};
  if (quotas_refuse(load, rules)) return of_quota(load);
  return {Limit::kClients, fmt::format("{}; but batches run only {:.0f} % of the time: requests "
                                       "come in bursts, or other programs use the CPUs",
                                       backlog, percent(busy))};
}

Verdict decide(const GroupLoad& load, const LimitRules& rules) {
  if (data_plane_refuses(load, rules) && !has_all_it_can_take(load, rules))
    return of_data_plane(load);
  if (has_backlog(load, rules)) return of_backlog(load, rules);
  if (load.refused.by_quota() > load.answered) return of_quota(load);
  const bool saturated = load.worker_busy >= rules.saturated;
  const double offered =
      static_cast<double>(load.received_datagrams) + static_cast<double>(load.lost_datagrams);
  const double lost = part_of(static_cast<double>(load.lost_datagrams), offered);
  if (load.lost_datagrams > 0 && lost >= rules.lost)
    return {saturated ? Limit::kCpu : Limit::kNetwork,
            fmt::format("ports lose {:.2f} % of the datagrams, and the busiest worker works "
                        "{:.0f} % of the time",
                        percent(lost), percent(load.worker_busy))};
  if (saturated)
    return {Limit::kCpu, fmt::format("the busiest worker works {:.0f} % of the time",
                                     percent(load.worker_busy))};
  if (quotas_refuse(load, rules)) return of_quota(load);
  if (load.arrived_late > 0 && refused_part(load, load.arrived_late) >= rules.refused)
    return {
        Limit::kNetwork,
        fmt::format("budgets of {:.0f} of {:.0f} requests per second end before all pieces have "
                    "arrived",
                    per_s(load, load.arrived_late), per_s(load, offered_of(load)))};
  if (load.answered == 0 && runs_of(load) < rules.saturated)
    return {Limit::kClients, "no request was answered, and none waits"};
  const double transfer = part_of(load.arrive_ns + load.send_ns, load.total_ns);
  if (load.has_stages && transfer >= rules.transfer)
    return {Limit::kNetwork,
            fmt::format("requests arrive for {:.2f} ms and leave for {:.2f} ms of {:.2f} ms in all",
                        load.arrive_ns * 1e-6, load.send_ns * 1e-6, load.total_ns * 1e-6)};
  const double runs = runs_of(load);
  const double busy = load.overlaps ? std::max(runs, load.intake_busy) : runs + load.intake_busy;
  if (busy < rules.saturated)
    return {Limit::kClients,
            fmt::format("batches run {:.0f} % of the time, and few requests wait", percent(runs))};
  if (load.intake_busy > runs)
    return {Limit::kCpu, fmt::format("the group's thread takes requests in {:.0f} % of the time",
                                     percent(load.intake_busy))};
  if (turns_of(load) >= rules.turns)
    return {
        Limit::kShare,
        fmt::format("batches run {:.0f} % of the time and wait {:.0f} % of that for other groups",
                    percent(runs), percent(turns_of(load)))};
  return {Limit::kDevice, fmt::format("batches run {:.0f} % of the time", percent(runs))};
}
}  // namespace

const char* limit_name(Limit limit) noexcept {
  switch (limit) {
    case Limit::kNetwork: return "network";
    case Limit::kCpu: return "cpu";
    case Limit::kDevice: return "device";
    case Limit::kShare: return "share";
    case Limit::kDataPlane: return "data_plane";
    case Limit::kQuota: return "quota";
    case Limit::kClients: return "clients";
  }
  return "?";
}

Verdict find_limit(const GroupLoad& load, const LimitRules& rules) {
  Verdict verdict = decide(load, rules);
  if (const std::string causes = causes_text(load); !causes.empty())
    verdict.because += "; refused per second: " + causes;
  return verdict;
}

}  // namespace itif::telemetry
