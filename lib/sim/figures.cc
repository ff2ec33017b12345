#include "sim/figures.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace itif::sim {
namespace {

using nlohmann::ordered_json;

double share(uint64_t part, uint64_t whole) {
  return whole > 0 ? static_cast<double>(part) / static_cast<double>(whole) : 0;
}
double ms(uint64_t ns) {
  return static_cast<double>(ns) / 1e6;
}

ordered_json tenant_json(const TenantResults& r, const Results& all) {
  ordered_json refused = ordered_json::object();
  for (size_t i = 0; i < r.refused_by.size(); ++i)
    if (r.refused_by[i] > 0)
      refused[wire::status_name(static_cast<wire::StatusCode>(i))] = r.refused_by[i];
  ordered_json latency;
  for (const auto& [name, percent] : {std::pair{"p50_us", 50.0},
                                      {"p90_us", 90.0},
                                      {"p99_us", 99.0},
                                      {"p99_9_us", 99.9},
                                      {"max_us", 100.0}})
    latency[name] = static_cast<double>(r.latency_ns.percentile(percent)) / 1e3;
  return {{"sent", r.sent},
          {"answered", r.answered},
          {"refused", r.refused},
          {"lost", r.lost},
          {"refused_by_status", refused},
          {"in_time", r.in_time},
          {"share_in_time", share(r.in_time, r.sent)},
          {"utility", r.utility},
          {"utility_per_s", all.per_second(r.utility)},
          {"requests_per_s", all.per_second(static_cast<double>(r.answered))},
          {"tokens_per_s", all.per_second(static_cast<double>(r.tokens))},
          {"output_tokens", r.output_tokens},
          {"output_tokens_per_s", all.per_second(static_cast<double>(r.output_tokens))},
          {"latency", latency}};
}

// Its time line, if the scenario has one.
ordered_json group_json(const GroupResults& group, uint64_t interval_ns) {
  ordered_json seconds = ordered_json::array();
  for (size_t i = 0; i < group.intervals.size(); ++i) {
    const GroupInterval& interval = group.intervals[i];
    seconds.push_back({{"at_s", static_cast<double>(i * interval_ns) / 1e9},
                       {"share_percent", interval.share_percent},
                       {"sent", interval.sent},
                       {"answered", interval.answered},
                       {"missed", interval.missed},
                       {"mean_latency_ms", interval.mean_latency_ms()}});
  }
  return {{"name", group.name}, {"mean_execute_ms", group.mean_execute_ms}, {"time_line", seconds}};
}

// The groups' parts of the device, at their first and last second.
std::string groups_table(const Results& results) {
  std::string out = fmt::format("\n{:<16}{:>12}{:>12}{:>12}{:>12}{:>12}\n", "group", "first part",
                                "last part", "changes", "answered", "late");
  for (const GroupResults& group : results.groups) {
    uint64_t answered = 0, missed = 0, changes = 0;
    double first = 0, last = 0;
    for (const GroupInterval& interval : group.intervals) {
      answered += interval.answered;
      missed += interval.missed;
      if (interval.share_percent == 0) continue;
      changes += last != 0 && interval.share_percent != last;
      if (first == 0) first = interval.share_percent;
      last = interval.share_percent;
    }
    out += fmt::format("{:<16}{:>11.1f}%{:>11.1f}%{:>12}{:>12}{:>12}\n", group.name, first, last,
                       changes, answered, missed);
  }
  return out;
}

}  // namespace

void TenantResults::merge(const TenantResults& other) {
  sent += other.sent;
  answered += other.answered;
  refused += other.refused;
  lost += other.lost;
  in_time += other.in_time;
  utility += other.utility;
  tokens += other.tokens;
  output_tokens += other.output_tokens;
  for (size_t i = 0; i < refused_by.size(); ++i) refused_by[i] += other.refused_by[i];
  latency_ns.merge(other.latency_ns);
}

TenantResults Results::total() const {
  TenantResults all;
  for (const TenantResults& tenant : tenants) all.merge(tenant);
  return all;
}
GroupInterval* Results::interval_at(size_t group, uint64_t at_ns) {
  if (interval_ns == 0) return nullptr;
  std::vector<GroupInterval>& intervals = groups[group].intervals;
  const size_t index = at_ns / interval_ns;
  while (intervals.size() <= index) intervals.emplace_back();
  return &intervals[index];
}
double Results::device_use() const {
  return share(busy_ns, simulated_ns);
}
double Results::padding() const {
  return rows > tokens ? share(rows - tokens, rows) : 0;
}
double Results::batch_size() const {
  return batches > 0 ? static_cast<double>(batch_requests) / static_cast<double>(batches) : 0;
}

std::string results_table(const Scenario& scenario, const Results& results) {
  std::string out =
      fmt::format("{:<16}{:>10}{:>12}{:>10}{:>11}{:>10}{:>10}{:>10}{:>10}\n", "tenant", "sent",
                  "answered/s", "in time", "utility/s", "p50 ms", "p90 ms", "p99 ms", "max ms");
  const auto row = [&](const std::string& name, const TenantResults& r) {
    const Histogram& h = r.latency_ns;
    out +=
        fmt::format("{:<16}{:>10}{:>12.1f}{:>9.2f}%{:>11.3f}{:>10.2f}{:>10.2f}{:>10.2f}{:>10.2f}\n",
                    name, r.sent, results.per_second(static_cast<double>(r.answered)),
                    100 * share(r.in_time, r.sent), results.per_second(r.utility),
                    ms(h.percentile(50)), ms(h.percentile(90)), ms(h.percentile(99)), ms(h.max()));
  };
  const std::vector<std::string> names = scenario.tenant_names();
  for (size_t i = 0; i < results.tenants.size() && results.tenants.size() > 1; ++i)
    row(names[i], results.tenants[i]);
  const TenantResults total = results.total();
  row("all", total);
  out += fmt::format(
      "\nrefused {}, lost {}; device busy {:.1f} %, padding {:.1f} %, {:.1f} requests "
      "per batch in {} batches\n",
      total.refused, total.lost, 100 * results.device_use(), 100 * results.padding(),
      results.batch_size(), results.batches);
  if (results.generates)
    out += fmt::format(
        "generated {} tokens, {:.1f} tokens/s, {:.1f} per answer; a batch is a step\n",
        total.output_tokens, results.per_second(static_cast<double>(total.output_tokens)),
        share(total.output_tokens, total.answered));
  for (size_t i = 0; i < total.refused_by.size(); ++i)
    if (total.refused_by[i] > 0)
      out += fmt::format("  refused as {}: {}\n",
                         wire::status_name(static_cast<wire::StatusCode>(i)), total.refused_by[i]);
  if (results.interval_ns > 0) out += groups_table(results);
  if (results.wrong_answers > 0) out += fmt::format("  WRONG ANSWERS: {}\n", results.wrong_answers);
  return out;
}

ordered_json results_json(const Scenario& scenario, const Results& results) {
  ordered_json tenants = ordered_json::array();
  const std::vector<std::string> names = scenario.tenant_names();
  for (size_t i = 0; i < results.tenants.size(); ++i) {
    ordered_json tenant = {{"name", names[i]}};
    tenant.update(tenant_json(results.tenants[i], results));
    tenants.push_back(std::move(tenant));
  }
  ordered_json groups = ordered_json::array();
  for (const GroupResults& group : results.groups)
    groups.push_back(group_json(group, results.interval_ns));
  return {{"tool", "itif-sim"},
          {"version", 1},
          {"scenario", scenario.path},
          {"seed", scenario.seed},
          {"planner", scenario.batching.planner},
          {"scheduler", scenario.batching.scheduler},
          {"measured_s", results.seconds()},
          {"simulated_s", static_cast<double>(results.simulated_ns) / 1e9},
          {"total", tenant_json(results.total(), results)},
          {"tenants", tenants},
          {"groups", groups},
          {"device",
           {{"use", results.device_use()},
            {"padding", results.padding()},
            {"batches", results.batches},
            {"requests_per_batch", results.batch_size()}}},
          {"datagrams",
           {{"sent", results.link.sent},
            {"lost", results.link.lost},
            {"duplicated", results.link.duplicated},
            {"damaged", results.link.damaged},
            {"missed", results.link.missed},
            {"retransmissions", results.engine.retransmissions}}},
          {"wrong_answers", results.wrong_answers},
          {"events", results.log_events},
          {"event_hash", fmt::format("{:016x}", results.log_hash)}};
}

}  // namespace itif::sim
