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

bool has_backlog(const GroupLoad& load, const LimitRules& rules) {
  if (load.overloaded > 0) return true;
  if (!load.has_stages) return load.waiting > 0;
  return load.answered > 0 && load.queue_ns >= rules.backlog * load.compute_ns;
}

std::string backlog_text(const GroupLoad& load) {
  std::string text = load.has_stages && load.answered > 0
                         ? fmt::format("requests wait {:.2f} ms for {:.2f} ms of computing",
                                       load.queue_ns * 1e-6, load.compute_ns * 1e-6)
                         : fmt::format("{} requests wait", load.waiting);
  if (load.overloaded > 0) text += fmt::format(", {} were refused", load.overloaded);
  return text;
}

Verdict of_backlog(const GroupLoad& load, const LimitRules& rules) {
  const std::string backlog = backlog_text(load);
  if (turns_of(load) >= rules.turns)
    return {Limit::kShare, fmt::format("{}; batches wait {:.0f} % of their time for other groups",
                                       backlog, percent(turns_of(load)))};
  const double busy = load.device_busy + load.turn_wait;
  if (busy >= rules.half_busy)
    return {Limit::kDevice,
            fmt::format("{}; batches run {:.0f} % of the time", backlog, percent(busy))};
  if (busy + load.intake_busy >= rules.half_busy)
    return {Limit::kCpu, fmt::format("{}; but batches run only {:.0f} % of the time: the group's "
                                     "thread takes requests in for {:.0f} %",
                                     backlog, percent(busy), percent(load.intake_busy))};
  return {Limit::kClients, fmt::format("{}; but batches run only {:.0f} % of the time: requests "
                                       "come in bursts, or other programs use the CPUs",
                                       backlog, percent(busy))};
}

}  // namespace

const char* limit_name(Limit limit) noexcept {
  switch (limit) {
    case Limit::kNetwork: return "network";
    case Limit::kCpu: return "cpu";
    case Limit::kDevice: return "device";
    case Limit::kShare: return "share";
    case Limit::kClients: return "clients";
  }
  return "?";
}

Verdict find_limit(const GroupLoad& load, const LimitRules& rules) {
  if (has_backlog(load, rules)) return of_backlog(load, rules);
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
  if (load.answered == 0) return {Limit::kClients, "no request was answered, and none waits"};
  const double transfer = part_of(load.arrive_ns + load.send_ns, load.total_ns);
  if (load.has_stages && transfer >= rules.transfer)
    return {Limit::kNetwork,
            fmt::format("requests arrive for {:.2f} ms and leave for {:.2f} ms of {:.2f} ms in all",
                        load.arrive_ns * 1e-6, load.send_ns * 1e-6, load.total_ns * 1e-6)};
  const double runs = load.device_busy + load.turn_wait;
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

}  // namespace itif::telemetry
