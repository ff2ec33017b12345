// itif-sim validate: replays the load of a recorded run and compares what clients saw.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "json/json_file.h"
#include "plots.h"
#include "sim/scenario_file.h"

namespace itif::sim {
namespace {

using nlohmann::json;

struct Recorded {
  double p50_ms = 0, requests_per_s = 0;
};

uint64_t ns_of(double seconds) {
  return static_cast<uint64_t>(seconds * 1e9);
}

// `budget`: as itif-loadgen writes it. Throws as take_load() does.
void take_deadlines(const json& budget, Deadlines& deadlines) {
  const auto ns = [&](const char* key) { return budget.at(key).get<uint64_t>() * 1000; };
  const std::string kind = budget.at("kind");
  deadlines = {};
  if (kind == "fixed") {
    deadlines.kind = DeadlineKind::kFixed;
    deadlines.from_ns = ns("us");
  } else if (kind == "uniform") {
    deadlines.kind = DeadlineKind::kUniform;
    deadlines.from_ns = ns("from_us");
    deadlines.to_ns = ns("to_us");
  } else if (kind == "length") {
    deadlines.kind = DeadlineKind::kByLength;
    deadlines.from_ns = ns("us");
    deadlines.token_ns = ns("us_per_token");
  }
}

// Replaces the scenario's load by the record's. Throws json::exception, as the accessors do.
Status take_load(const json& record, Scenario& scenario) {
  const json& load = record.at("configuration");
  const std::string arrivals = load.at("arrivals");
  if (arrivals == "closed") {
    scenario.arrivals.kind = ArrivalKind::kClosed;
    scenario.arrivals.concurrency = load.at("concurrency");
  } else if (arrivals == "poisson" || arrivals == "constant") {
    scenario.arrivals.kind = arrivals == "poisson" ? ArrivalKind::kPoisson : ArrivalKind::kConstant;
    scenario.arrivals.rate = load.at("rate");
  } else {
    return fail(Code::kUnsupported, fmt::format("arrivals '{}' cannot be replayed", arrivals));
  }
  const std::string payload = load.at("payload");
  if (!payload.starts_with("tokens") || !load.contains("lengths"))
    return fail(Code::kUnsupported,
                fmt::format("payload '{}' cannot be replayed: record token ids", payload));
  const json& lengths = load.at("lengths");
  const std::string kind = lengths.at("kind");
  scenario.lengths.file.clear();
  if (kind == "fixed") {
    scenario.lengths.kind = LengthKind::kUniform;
    scenario.lengths.from = scenario.lengths.to = lengths.at("tokens");
  } else if (kind == "uniform") {
    scenario.lengths.kind = LengthKind::kUniform;
    scenario.lengths.from = lengths.at("from");
    scenario.lengths.to = lengths.at("to");
  } else {
    const double mean = lengths.at("mean"), deviation = lengths.at("deviation");
    scenario.lengths.kind = LengthKind::kNormal;
    scenario.lengths.mean = mean;
    scenario.lengths.variance = deviation * deviation;
    // As itif-loadgen cuts them.
    scenario.lengths.from = 1;
    scenario.lengths.to = static_cast<uint32_t>(std::ceil(mean + 6 * deviation));
  }
  scenario.duration_ns = ns_of(load.at("duration_s"));
  scenario.warmup_ns = ns_of(load.at("warmup_s"));
  // The recorded duration follows the warm-up.
  scenario.duration_ns += scenario.warmup_ns;
  take_deadlines(load.at("budget"), scenario.deadlines);
  scenario.client.tries = load.at("tries");
  scenario.client.rto_ns = ns_of(double{load.at("rto_ms")} / 1e3);
  scenario.client.timeout_ns = ns_of(double{load.at("timeout_ms")} / 1e3);
  scenario.client.refusal_retries = load.at("refusal_retries");
  scenario.tenants.clear();
  for (const json& tenant : record.at("tenants"))
    scenario.tenants.push_back({.name = tenant.at("name"), .share = tenant.at("weight")});
  return check(scenario);
}

}  // namespace

Status validate_command(const ValidateOptions& options) {
  ITIF_ASSIGN(Scenario scenario, load_scenario(options.scenario));
  ITIF_TRY(check_one_group(scenario));
  ITIF_ASSIGN(const json record, json_file::read_json_file(options.record));
  Recorded recorded;
  try {
    if (Status taken = take_load(record, scenario); !taken)
      return fail(taken.error().code, options.record + ": " + taken.error().message);
    const json& total = record.at("total");
    recorded = {.p50_ms = double{total.at("latency").at("p50_us")} / 1e3,
                .requests_per_s = total.at("requests_per_s")};
  } catch (const json::exception& e) {
    return fail(Code::kInvalidArgument,
                fmt::format("{}: no record of itif-loadgen --json: {}", options.record, e.what()));
  }
  ITIF_ASSIGN(const Results results, simulate(scenario));
  const TenantResults all = results.total();
  const double p50_ms = static_cast<double>(all.latency_ns.percentile(50)) / 1e6;
  // As itif-loadgen: over the time in which measured requests were sent.
  const double requests_per_s = static_cast<double>(all.answered) * 1e9 /
                                static_cast<double>(scenario.duration_ns - scenario.warmup_ns);
  const auto off = [](double simulated, double real) {
    return real > 0 ? simulated / real - 1 : simulated > 0 ? INFINITY : 0;
  };
  const double latency_off = off(p50_ms, recorded.p50_ms);
  const double throughput_off = off(requests_per_s, recorded.requests_per_s);
  const bool within =
      std::abs(latency_off) <= options.tolerance && std::abs(throughput_off) <= options.tolerance;
  if (options.output.json) {
    fmt::print("{}\n",
               nlohmann::ordered_json{
                   {"tool", "itif-sim"},
                   {"version", 1},
                   {"record", options.record},
                   {"p50_ms", {{"recorded", recorded.p50_ms}, {"simulated", p50_ms}}},
                   {"requests_per_s",
                    {{"recorded", recorded.requests_per_s}, {"simulated", requests_per_s}}},
                   {"tolerance", options.tolerance},
                   {"within", within}}
                   .dump(2));
  } else {
    fmt::print("{:<16}{:>12}{:>12}{:>10}\n", "", "recorded", "simulated", "off by");
    fmt::print("{:<16}{:>12.3f}{:>12.3f}{:>+9.1f}%\n", "median, ms", recorded.p50_ms, p50_ms,
               100 * latency_off);
    fmt::print("{:<16}{:>12.1f}{:>12.1f}{:>+9.1f}%\n", "requests/s", recorded.requests_per_s,
               requests_per_s, 100 * throughput_off);
  }
  if (!options.output.plot.empty()) {
    const bench::Panel latency = {.title = "median latency, ms",
                                  .kind = bench::Panel::Kind::kBars,
                                  .series = {"recorded", "simulated"},
                                  .lines = {{.x = "p50", .y = {recorded.p50_ms, p50_ms}}}};
    const bench::Panel rate = {
        .title = "answers per second",
        .kind = bench::Panel::Kind::kBars,
        .series = {"recorded", "simulated"},
        .lines = {{.x = "rate", .y = {recorded.requests_per_s, requests_per_s}}}};
    ITIF_TRY(
        draw({.name = "validate", .title = options.record, .bench = {}, .panels = {latency, rate}},
             options.output.plot));
  }
  if (!within)
    return fail(Code::kInternal, fmt::format("the simulation is off by more than {:.0f} %",
                                             100 * options.tolerance));
  return {};
}

}  // namespace itif::sim
